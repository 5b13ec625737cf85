//! A database that does not accept the rows of one instance: that instance fails with the cause, and no other.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{
    ActivityContext, Client, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};

use crate::programs::PATIENCE;
use crate::support::{corrupt, new_schema, open, options};

async fn node(store: Arc<duroxide_postgres::PostgresProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Give", |_ctx: ActivityContext, bytes: String| async move {
            Ok("x".repeat(bytes.trim().parse().map_err(|_| "not a number")?))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Call", |ctx: OrchestrationContext, input: String| async move {
            let given = ctx.schedule_activity("Give", input).await;
            Ok(given.map_or_else(|error| error, |text| text.len().to_string()))
        })
        .register("Pad", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Give", format!("{:>20000}", 1)).await
        })
        .build();
    let backoff = Duration::from_millis(10);
    let options = RuntimeOptions {
        unregistered_backoff: UnregisteredBackoffConfig { base_delay: backoff, max_delay: backoff },
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_violates_a_constraint_fails_its_instance_alone() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    for (table, column) in [("history", "event"), ("inbox", "item")] {
        let sql = format!("ALTER TABLE {{s}}.{table} ADD CHECK (length({column}) < 10000)");
        corrupt(&schema, &sql, &[]).await;
    }
    let client = Client::new(store.clone());
    let runtime = node(store).await;
    client.start_orchestration("turn", "Pad", "").await.expect("started");
    client.start_orchestration("result", "Call", "20000").await.expect("started");
    for n in 0..50 {
        client.start_orchestration(format!("neighbour-{n}"), "Call", "7").await.expect("started");
    }
    for n in 0..50 {
        let ended = client.wait_for_orchestration(&format!("neighbour-{n}"), PATIENCE).await.expect("ended");
        assert!(
            matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "7"),
            "{ended:?}"
        );
    }
    let ended = client.wait_for_orchestration("result", PATIENCE).await.expect("ended");
    let OrchestrationStatus::Completed { output, .. } = ended else {
        panic!("it handles the error: {ended:?}")
    };
    assert!(
        output.contains("the store does not accept the result: PostgreSQL: ") && output.contains("23514"),
        "{output}"
    );
    let ended = client.wait_for_orchestration("turn", PATIENCE).await.expect("ended");
    let OrchestrationStatus::Failed { details, .. } = ended else { panic!("it fails: {ended:?}") };
    let ErrorDetails::Infrastructure { message, retryable: false, .. } = &details else {
        panic!("not the store's failure: {details:?}")
    };
    assert!(message.starts_with("the store does not accept what the turn writes: PostgreSQL: "), "{message}");
    assert!(message.contains("23514"), "{message}");
    runtime.shutdown(None).await;
}
