//! The program that the tests run, and what must hold for it in the end.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};

/// Longer than any test runs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs `FiveSteps`.
pub(crate) async fn node(store: Arc<dyn Provider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Step", |_ctx: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(format!("{input}."))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("FiveSteps", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..5 {
                value = ctx.schedule_activity("Step", value).await?;
            }
            Ok(value)
        })
        .register("Waits", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_secs(2),
        orchestrator_lock_renewal_buffer: Duration::from_secs(1),
        worker_lock_timeout: Duration::from_secs(2),
        worker_lock_renewal_buffer: Duration::from_secs(1),
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

/// Starts instances; a store that is away is asked again, as every caller may.
pub(crate) async fn start_all(client: &Client, count: usize) {
    for n in 0..count {
        loop {
            match client.start_orchestration(format!("i{n}"), "FiveSteps", "x").await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("i{n}: {error}"),
            }
        }
    }
}

/// Waits for every instance and looks at its whole history.
pub(crate) async fn audit_all(client: &Client, count: usize) {
    for n in 0..count {
        let instance = format!("i{n}");
        let status = loop {
            match client.wait_for_orchestration(&instance, PATIENCE).await {
                Ok(status) => break status,
                Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{instance}: {error}"),
            }
        };
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{instance}: {status:?}") };
        assert_eq!(output, "x.....", "{instance}");
        let history = client.read_execution_history(&instance, 1).await.expect("history");
        let ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
        assert_eq!(ids, (1..=12).collect::<Vec<u64>>(), "{instance}: a start, five steps, an end");
        let count = |is: fn(&EventKind) -> bool| history.iter().filter(|event| is(&event.kind)).count();
        assert_eq!(count(|kind| matches!(kind, EventKind::ActivityCompleted { .. })), 5, "{instance}");
        assert!(history.last().is_some_and(duroxide::Event::is_terminal), "{instance}");
    }
}
