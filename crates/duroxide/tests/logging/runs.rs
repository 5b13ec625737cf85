//! Every way that a payload goes through a healthy store, and code that no longer fits what is stored.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::limits::MAX_PAYLOAD_BYTES;
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{Client, ErrorDetails, OrchestrationStatus, RuntimeOptions};

use crate::programs::{activities, longer_than, orchestrations, showing};
use crate::{SECRET, check_text};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> RuntimeOptions {
    let backoff = Duration::from_millis(1);
    RuntimeOptions {
        max_attempts: 2,
        unregistered_backoff: UnregisteredBackoffConfig { base_delay: backoff, max_delay: backoff },
        ..RuntimeOptions::default()
    }
}

/// The failure of an instance once it has ended.
pub(crate) async fn failure(client: &Client, id: &str) -> ErrorDetails {
    let ended = client.wait_for_orchestration(id, PATIENCE).await.expect("it ends");
    let OrchestrationStatus::Failed { details, .. } = ended else { panic!("{id}: {ended:?}") };
    details
}

/// Every payload there is, in programs that end in every way.
pub(crate) async fn every_payload(store: Arc<dyn Provider>) {
    let runtime = Runtime::start_with_options(store.clone(), activities(), orchestrations(), options()).await;
    let client = Client::new(store);
    client.start_orchestration_versioned("all", "All", "1.0.0", SECRET).await.expect("start");
    client.raise_event("all", "event", SECRET).await.expect("raise");
    client.enqueue_event("all", "queue", SECRET).await.expect("enqueue");
    // Nobody has it, so that it is poisoned with its messages.
    let names = ["Fail", "Panic", "Unregistered", "nobody has it", "ParentOfPoison", "Wait"];
    for name in names {
        client.start_orchestration(name, name, SECRET).await.expect("start");
        client.raise_event(name, "event", SECRET).await.expect("raise");
    }
    client.cancel_instance("Wait", SECRET).await.expect("cancel");
    let ended = client.wait_for_orchestration("all", PATIENCE).await.expect("it ends");
    assert!(matches!(ended, OrchestrationStatus::Completed { .. }), "{ended:?}");
    for name in names {
        let details = failure(&client, name).await;
        if matches!(details, ErrorDetails::Poison { .. }) {
            check_text(details.display_message());
        }
    }
    client.start_orchestration("reads", "Reads", "all").await.expect("start");
    let ended = client.wait_for_orchestration("reads", PATIENCE).await.expect("it ends");
    assert!(matches!(ended, OrchestrationStatus::Completed { .. }), "{ended:?}");
    client_errors(&client).await;
    runtime.shutdown(None).await;
}

/// What a client is told when its call is refused, or when a value is not what it takes it for.
async fn client_errors(client: &Client) {
    let large = longer_than(MAX_PAYLOAD_BYTES);
    check_text(client.start_orchestration("x", "Fail", &*large).await.expect_err("too large"));
    check_text(client.raise_event("x", "event", &*large).await.expect_err("too large"));
    check_text(client.enqueue_event("x", "queue", &*large).await.expect_err("too large"));
    check_text(client.cancel_instance("x", &*large).await.expect_err("too large"));
    check_text(client.get_kv_value_typed::<u64>("all", "typed").await.expect_err("not a number"));
    let waited = client.wait_for_kv_value_typed::<u64>("all", "typed", PATIENCE).await;
    check_text(waited.expect_err("not a number"));
    let output = client.wait_for_orchestration_typed::<u64>("all", PATIENCE).await;
    match output {
        Ok(output) => check_text(output.expect_err("not a number")),
        Err(error) => check_text(error),
    }
    check_text(client.delete_instance("nobody", false).await.expect_err("unknown"));
}

/// Histories with one payload, replayed by code with another.
pub(crate) async fn changed_code(store: Arc<dyn Provider>) {
    let client = Client::new(store.clone());
    let runtime = Runtime::start_with_options(store.clone(), activities(), showing(SECRET), options()).await;
    let names = ["Activity", "Child", "Value", "Status"];
    for name in names {
        client.start_orchestration(format!("changed {name}"), name, SECRET).await.expect("start");
    }
    // Each waits once its first turns are stored; the activity's result is one of them.
    for (name, events) in names.into_iter().zip([4, 3, 3, 3]) {
        let wait = async {
            while client.read_execution_history(&format!("changed {name}"), 1).await.map_or(0, |h| h.len())
                < events
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("its first turns are stored");
    }
    runtime.shutdown(None).await;
    let runtime =
        Runtime::start_with_options(store, activities(), showing("something else"), options()).await;
    for name in names {
        let id = format!("changed {name}");
        client.raise_event(&*id, "go", SECRET).await.expect("raise");
        let details = failure(&client, &id).await;
        assert!(matches!(details, ErrorDetails::Configuration { .. }), "{details:?}");
        assert!(details.display_message().contains("mismatch"), "{details}");
        check_text(details.display_message());
        check_text(format!("{details:?}"));
    }
    runtime.shutdown(None).await;
}
