//! Calls that are dropped in their middle, on a store that works while nobody waits.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::testing::{FaultProvider, FaultRates, Method, SeededFaults};
use duroxide::{ActivityContext, Client, InstanceFilter, OrchestrationContext, OrchestrationStatus};

use crate::common::{activities, options, orchestrations};

const INSTANCES: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_third_of_all_calls_dropped_in_their_middle_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dropped.db");
    let sqlite = SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await.expect("opened");
    let faults = Arc::new(SeededFaults::new(7, FaultRates { dropped: 3_333, ..FaultRates::default() }));
    let store = Arc::new(FaultProvider::new(Arc::new(sqlite)).with_source(faults.clone()));
    let client = Client::new(store.clone());
    let acts = activities()
        .register("Step", |_ctx: ActivityContext, input: String| async move { Ok(format!("{input}.")) });
    let orchs =
        orchestrations().register("FiveSteps", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..5 {
                value = ctx.schedule_activity("Step", value).await?;
            }
            Ok(value)
        });
    let short = duroxide::RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(500),
        orchestrator_lock_renewal_buffer: Duration::from_millis(250),
        worker_lock_timeout: Duration::from_millis(500),
        worker_lock_renewal_buffer: Duration::from_millis(250),
        // Every fetch that is dropped behind its commit costs an attempt.
        max_attempts: 100,
        ..options()
    };
    let runtime = Runtime::start_with_options(store.clone(), acts.build(), orchs.build(), short).await;
    for n in 0..INSTANCES {
        let id = format!("i{n}");
        while client.start_orchestration(&id, "FiveSteps", "x").await.is_err() {}
        // Half of them are deleted again, whether they have ended or not.
        if n.is_multiple_of(2) {
            while client.delete_instance(&id, true).await.is_err_and(|error| error.is_retryable()) {}
        }
        let nobody =
            InstanceFilter { instance_ids: Some(vec!["nobody".into()]), ..InstanceFilter::default() };
        // Whether it is done does not matter; that it is done wholly does.
        drop(client.delete_instance_bulk(nobody).await);
    }
    // Calls are dropped until those that are left have come a good part of their way.
    while store.calls(Method::AckTurn) < 3 * INSTANCES as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    faults.stop();
    for n in (0..INSTANCES).filter(|n| !n.is_multiple_of(2)) {
        let id = format!("i{n}");
        let status = client.wait_for_orchestration(&id, Duration::from_secs(60)).await.expect("it ends");
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{id}: {status:?}") };
        assert_eq!(output, "x.....", "{id}");
        let history = client.read_execution_history(&id, 1).await.expect("history");
        let ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
        assert_eq!(ids, (1..=12).collect::<Vec<u64>>(), "{id}: a start, five steps, an end");
    }
    let left = client.list_all_instances().await.expect("listed");
    assert_eq!(left.len(), INSTANCES / 2, "what was deleted is gone: {left:?}");
    let health = client.health().await.expect("checked");
    assert!(health.findings.is_empty(), "{health:?}");
    runtime.shutdown(None).await;
}
