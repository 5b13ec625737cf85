//! Turns that write many rows: committed beside all other calls, by statements that each end in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::programs::PATIENCE;
use crate::support::{new_schema, open, options, raw};

/// Has the server sleep when these work items are queued.
async fn sleep_at(schema: &str, activities: &str, seconds: f64) {
    let sql = format!(
        "CREATE FUNCTION {schema}.slow () RETURNS trigger LANGUAGE plpgsql AS \
           'BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END'; \
         CREATE TRIGGER slow AFTER INSERT ON {schema}.work_items FOR EACH ROW \
           WHEN (NEW.instance_id = 'large' AND NEW.activity_id IN ({activities})) \
           EXECUTE FUNCTION {schema}.slow ()"
    );
    raw().await.batch_execute(&sql).await.expect("created");
}

async fn node(store: Arc<PostgresProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Many", |ctx: OrchestrationContext, input: String| async move {
            let count: usize = input.parse().map_err(|_| "the input is a number".to_string())?;
            let all = (0..count).map(|n| ctx.schedule_activity("Echo", n.to_string())).collect();
            Ok(ctx.join(all).await.len().to_string())
        })
        .register("One", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .build();
    Runtime::start_with_options(store, activities, orchestrations, RuntimeOptions::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_turn_is_committed_beside_other_calls() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    sleep_at(&schema, "100", 5.0).await;
    let _node = node(store.clone()).await;
    let client = Client::new(store);
    client.start_orchestration("large", "Many", "3000").await.expect("started");
    let server = raw().await;
    let sleeping = async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE $1";
        let found = server.query_one(sql, &[&format!("%{schema}%")]).await.expect("read");
        found.get::<_, i64>(0) > 0
    };
    while !sleeping().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Calls about other instances go on, and one about this instance waits alone.
    let raised = tokio::spawn({
        let client = client.clone();
        async move { client.raise_event("large", "any", "").await }
    });
    for n in 0..20 {
        let (id, begun) = (format!("neighbour-{n}"), Instant::now());
        client.start_orchestration(&id, "One", "x").await.expect("started");
        let status = client.wait_for_orchestration(&id, PATIENCE).await.expect("seen");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{n}: {:?}", begun.elapsed());
    }
    assert!(sleeping().await, "the large turn is still being committed");
    assert!(!raised.is_finished(), "it comes behind the turn");
    raised.await.expect("no panic").expect("raised");
    let status = client.wait_for_orchestration("large", PATIENCE).await.expect("seen");
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "3000"),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_takes_longer_than_the_statement_timeout_is_committed_by_several_statements() {
    let schema = new_schema();
    let statement_timeout = Duration::from_secs(2);
    let store = Arc::new(open(PostgresOptions { statement_timeout, ..options(&schema) }).await);
    // More than the timeout together, and less than that in each statement.
    sleep_at(&schema, "100, 5100, 10100", 1.0).await;
    let _node = node(store.clone()).await;
    let client = Client::new(store);
    client.start_orchestration("large", "Many", "10500").await.expect("started");
    let deadline = Instant::now() + PATIENCE;
    while client
        .get_orchestration_stats("large")
        .await
        .expect("read")
        .is_none_or(|all| all.history_event_count < 10_500)
    {
        assert!(Instant::now() < deadline, "the turn is never committed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
