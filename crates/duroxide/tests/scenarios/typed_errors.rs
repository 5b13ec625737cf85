//! Errors that are more than a text, from the handler to the parent and to the client.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::limits::MAX_PAYLOAD_BYTES;
use duroxide::runtime::registry::{ActivityHandler, ActivityRegistry};
use duroxide::{
    ActivityContext, Client, ErrorDetails, EventKind, HandlerError, OrchestrationContext,
    OrchestrationHandler, OrchestrationRegistry, RecordedFailure,
};
use semver::Version;

const LONG: Duration = Duration::from_secs(20);

/// Fails as its input says.
struct Charge;

#[async_trait]
impl ActivityHandler for Charge {
    async fn invoke(&self, _ctx: ActivityContext, _input: String) -> Result<String, String> {
        unreachable!("a worker calls `run`")
    }

    async fn run(&self, _ctx: ActivityContext, input: String) -> Result<String, HandlerError> {
        let error = match input.as_str() {
            "panic" => panic!("no card"),
            "large" => "x".repeat(MAX_PAYLOAD_BYTES + 1),
            _ => "\"Declined\"".to_string(),
        };
        Err(HandlerError { message: "card declined".to_string(), error: Some(error) })
    }

    fn records_panics(&self) -> bool {
        true
    }
}

/// Fails with an error of its own when what it calls fails.
struct Order {
    calls_child: bool,
}

#[async_trait]
impl OrchestrationHandler for Order {
    async fn invoke(&self, _ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        unreachable!("the engine calls `run`")
    }

    async fn run(&self, ctx: OrchestrationContext, input: String) -> Result<String, HandlerError> {
        let called = if self.calls_child {
            ctx.schedule_sub_orchestration_with_id("Child", "child", input).await
        } else {
            ctx.schedule_activity("Charge", input).await
        };
        let error = Some("{\"Pay\":\"Declined\"}".to_string());
        called.map_err(|text| HandlerError { message: format!("no order: {text}"), error })
    }
}

/// Runs an order to its failure; the client that saw it.
async fn fail(input: &str) -> (Client, Arc<Runtime>) {
    let store = Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"));
    let activities = ActivityRegistry::builder().register_handler("Charge", Arc::new(Charge)).build();
    let version = Version::new(1, 0, 0);
    let orchestrations = OrchestrationRegistry::builder()
        .register_handler("Order", version.clone(), Arc::new(Order { calls_child: true }))
        .register_handler("Child", version, Arc::new(Order { calls_child: false }))
        .build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    assert_eq!(client.get_failure("order").await.expect("readable"), None, "there is no such instance");
    client.start_orchestration("order", "Order", input).await.expect("a start");
    client.wait_for_orchestration("order", LONG).await.expect("an end");
    (client, runtime)
}

/// The errors in the history of the instance, with whether each is a panic.
async fn errors(client: &Client, instance: &str) -> Vec<(String, bool)> {
    let history = client.read_execution_history(instance, 1).await.expect("readable");
    let recorded = |kind: &EventKind| {
        if let EventKind::ErrorRecorded { error, panicked } = kind {
            Some((error.clone(), *panicked))
        } else {
            None
        }
    };
    history.iter().filter_map(|event| recorded(&event.kind)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_reach_the_parent_and_the_client_beside_their_texts() {
    let (client, runtime) = fail("declined").await;
    let of_order = "{\"Pay\":\"Declined\"}".to_string();
    let child = [("\"Declined\"".to_string(), false), (of_order.clone(), false)];
    assert_eq!(errors(&client, "child").await, child);
    assert_eq!(errors(&client, "order").await, [(of_order.clone(), false), (of_order.clone(), false)]);
    let failure = client.get_failure("order").await.expect("readable");
    let details = ErrorDetails::orchestration_failed("no order: no order: card declined");
    assert_eq!(failure, Some(RecordedFailure { details, error: Some(of_order) }));
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_recorded_as_one_and_an_error_that_is_too_large_is_left_out() {
    let (client, runtime) = fail("panic").await;
    assert_eq!(errors(&client, "child").await[0], ("\"no card\"".to_string(), true));
    runtime.shutdown(None).await;
    let (client, runtime) = fail("large").await;
    assert_eq!(errors(&client, "child").await.len(), 1, "its own alone, not that of the activity");
    let details = client.get_failure("child").await.expect("readable").expect("it failed").details;
    assert_eq!(details.display_message(), "no order: card declined");
    runtime.shutdown(None).await;
}
