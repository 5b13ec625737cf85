//! Every kind of bounce is stated: while the work backs off, and in the error once it is poisoned. For any store.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Bounce, Provider};
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
use duroxide::runtime::{OnNondeterminism, Runtime, UnregisteredBackoffConfig};
use duroxide::testing::{Fault, FaultProvider};
use duroxide::{
    BounceCause, Client, ErrorDetails, OrchestrationContext, OrchestrationRegistry,
    OrchestrationRegistryBuilder, OrchestrationStatus, RuntimeOptions, SemverRange,
};

/// Longer than any of these takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Store = Arc<dyn Provider>;

fn options(max_attempts: u32) -> RuntimeOptions {
    RuntimeOptions {
        max_attempts,
        process: ProcessScope::simulated(1),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(50),
            max_delay: Duration::from_millis(50),
        },
        ..RuntimeOptions::default()
    }
}

/// `Flow` runs an activity and waits; `Calls` runs one that nobody has.
fn orchestrations(activity: &'static str) -> OrchestrationRegistryBuilder {
    OrchestrationRegistry::builder()
        .register("Flow", move |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity(activity, "").await?;
            Ok(ctx.schedule_wait("go").await)
        })
        .register("Calls", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Missing", "secret").await
        })
}

fn activities() -> ActivityRegistryBuilder {
    ActivityRegistry::builder()
        .register("Old", |_, _| async { Ok(String::new()) })
        .register("New", |_, _| async { Ok(String::new()) })
}

async fn node(
    store: Store,
    orchestrations: OrchestrationRegistryBuilder,
    options: RuntimeOptions,
) -> Arc<Runtime> {
    Runtime::start_with_options(store, activities().build(), orchestrations.build(), options).await
}

/// The cause in the error of an instance that was poisoned.
async fn cause_of(client: &Client, instance: &str) -> String {
    let status = client.wait_for_orchestration(instance, PATIENCE).await.expect("it ends");
    let OrchestrationStatus::Failed { details: ErrorDetails::Poison { message, .. }, .. } = &status else {
        panic!("{status:?}")
    };
    let cause = message.strip_prefix("cause: ").and_then(|rest| rest.split_once("; messages: ["));
    let Some((cause, _)) = cause else { panic!("{message}") };
    cause.to_string()
}

/// Waits for the next turn of an instance to be given back.
async fn bounced_turn(client: &Client, instance: &str) -> Bounce {
    let asking = async {
        loop {
            match client.get_bounces(instance).await.expect("known").turn {
                Some(bounce) => return bounce,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it is given back")
}

/// `Flow` as far as its wait, on a node that is gone then.
async fn waiting_flow(store: &Store, client: &Client, instance: &str) {
    let node = node(store.clone(), orchestrations("Old"), options(10)).await;
    client.start_orchestration(instance, "Flow", "").await.expect("started");
    let waiting = async {
        while client.read_execution_history(instance, 1).await.expect("read").len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it begins to wait");
    node.shutdown(None).await;
}

pub(crate) async fn check_missing_handlers(store: Store) {
    let client = Client::new(store.clone());
    let node = node(store, orchestrations("Old"), options(3)).await;
    client.start_orchestration_versioned("o", "Order", "2.0.0", "secret").await.expect("started");
    let bounce = bounced_turn(&client, "o").await;
    let (name, version) = ("Order".to_string(), Some("2.0.0".to_string()));
    assert_eq!(bounce.cause, BounceCause::OrchestrationNotRegistered { name, version });
    assert!(bounce.attempts >= 1 && bounce.next_try_ms.is_none_or(|next| next >= bounce.at_ms), "{bounce:?}");
    let cause = cause_of(&client, "o").await;
    assert_eq!(cause, "orchestration Order 2.0.0 is registered on no live node");
    client.start_orchestration("a", "Calls", "").await.expect("started");
    assert_eq!(cause_of(&client, "a").await, "activity Missing is registered on no live node");
    node.shutdown(None).await;
}

pub(crate) async fn check_causes_of_other_nodes(store: Store) {
    let client = Client::new(store.clone());
    let old = node(store.clone(), OrchestrationRegistry::builder(), options(1000)).await;
    client.start_orchestration("a", "Calls", "").await.expect("started");
    let attempted = async {
        while bounced_turn(&client, "a").await.attempts < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, attempted).await.expect("it is tried again");
    old.shutdown(None).await;
    let new = node(store, orchestrations("Old"), options(2)).await;
    let cause = "orchestration Calls is not registered on the node that fetched it";
    assert_eq!(cause_of(&client, "a").await, cause);
    new.shutdown(None).await;
}

pub(crate) async fn check_panics(store: Store) {
    let faulty = Arc::new(FaultProvider::new(store.clone()));
    let client = Client::new(store);
    faulty.plan("ack_orchestration_item", vec![Fault::Panic; 2]);
    let node = node(faulty, orchestrations("Old"), options(2)).await;
    client.start_orchestration("p", "Flow", "").await.expect("started");
    let cause = cause_of(&client, "p").await;
    assert_eq!(cause, "processing panicked: the store panics in ack_orchestration_item");
    node.shutdown(None).await;
}

pub(crate) async fn check_expired_locks(store: Store) {
    let client = Client::new(store.clone());
    client.start_orchestration("l", "Flow", "").await.expect("started");
    let short = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(300),
        orchestrator_lock_renewal_buffer: Duration::from_millis(200),
        ..options(2)
    };
    for number in 0..2 {
        let faulty = Arc::new(FaultProvider::new(store.clone()));
        faulty.plan("ack_orchestration_item", [Fault::Freeze]);
        let process = ProcessScope::simulated(number + 10);
        let node =
            node(faulty.clone(), orchestrations("Old"), RuntimeOptions { process, ..short.clone() }).await;
        faulty.has_frozen().await;
        node.kill();
    }
    let last = node(store, orchestrations("Old"), short).await;
    let cause = cause_of(&client, "l").await;
    assert_eq!(cause, "the lock expired 2 times: the process that ran it probably died or hung");
    last.shutdown(None).await;
}

pub(crate) async fn check_refused_versions(store: Store) {
    let client = Client::new(store.clone());
    waiting_flow(&store, &client, "v").await;
    let version = |text: &str| text.parse().expect("a version");
    let narrow = SemverRange { min: version("0.0.1"), max: version("0.0.2") };
    let unfiltered = Arc::new(FaultProvider::new(store).ignoring_filter());
    let options = RuntimeOptions { supported_replay_versions: Some(narrow), ..options(1000) };
    let node = node(unfiltered, orchestrations("Old"), options).await;
    client.raise_event("v", "go", "").await.expect("raised");
    let BounceCause::VersionNotReplayed { pinned, supported } = bounced_turn(&client, "v").await.cause else {
        panic!("another cause")
    };
    assert_eq!(pinned, duroxide::current_build_version().to_string());
    assert!(supported.contains("0.0.2"), "{supported}");
    node.shutdown(None).await;
}

pub(crate) async fn check_nondeterminism(store: Store) {
    let client = Client::new(store.clone());
    waiting_flow(&store, &client, "n").await;
    let hands_back = RuntimeOptions { on_nondeterminism: OnNondeterminism::HandBack, ..options(1000) };
    let node = node(store, orchestrations("New"), hands_back).await;
    client.raise_event("n", "go", "").await.expect("raised");
    let BounceCause::Nondeterministic { diff } = bounced_turn(&client, "n").await.cause else {
        panic!("another cause")
    };
    assert!(diff.contains("Old") && diff.contains("New"), "{diff}");
    node.shutdown(None).await;
}

/// `corrupt` makes the first event of the history of `u` undecodable.
pub(crate) async fn check_undecodable(store: Store, corrupt: impl AsyncFnOnce()) {
    let client = Client::new(store.clone());
    waiting_flow(&store, &client, "u").await;
    corrupt().await;
    let node = node(store, orchestrations("Old"), options(2)).await;
    client.raise_event("u", "go", "").await.expect("raised");
    let cause = cause_of(&client, "u").await;
    assert!(cause.starts_with("stored rows cannot be decoded: event at position 1: "), "{cause}");
    node.shutdown(None).await;
}
