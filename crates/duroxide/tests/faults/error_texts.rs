//! No decision is made by searching the text of an error: texts hold what users wrote.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use duroxide::{
    ActivityContext, AppErrorKind, BackoffStrategy, ErrorDetails, OrchestrationContext, RetryPolicy,
};

use crate::common::{World, activities, options, orchestrations};

/// Texts that the library itself uses for other things.
const OURS: [&str; 9] = [
    "timeout: activity timed out",
    "timeout: activity 'Says' ran longer than 10 ms",
    "canceled: customer left",
    "orchestration panicked: oh",
    "nondeterministic: schedule mismatch at event 2",
    "poison: orchestration i exceeded 11 attempts (max 10)",
    "infrastructure:ack: the store is away",
    "lock lost",
    "sub-orchestration instance id 'i' already exists",
];

#[tokio::test(start_paused = true)]
async fn errors_are_recognised_by_their_kind_whatever_their_text_says() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let acts = activities().register("Says", move |_ctx: ActivityContext, text: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Err(text) }
    });
    let orchs = orchestrations()
        .register("Retries", |ctx: OrchestrationContext, text: String| async move {
            let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
            ctx.schedule_activity_with_retry("Says", text, policy).await
        })
        .register("Child", |_ctx: OrchestrationContext, text: String| async move { Err(text) })
        .register("Parent", |ctx: OrchestrationContext, text: String| async move {
            let told = ctx.schedule_sub_orchestration("Child", text.clone()).await;
            assert_eq!(told, Err(text.clone()));
            Err(text)
        });
    let runtime = world.start(acts, orchs, options()).await;
    for (n, text) in (0u32..).zip(OURS) {
        for name in ["Retries", "Parent"] {
            let instance = format!("{name}-{n}");
            world.client.start_orchestration(&instance, name, text).await.expect("start");
            let details = world.failure(&instance).await;
            let expected = ErrorDetails::Application {
                kind: AppErrorKind::OrchestrationFailed,
                message: text.to_string(),
                retryable: false,
            };
            assert_eq!(details, expected);
            assert_eq!(details.category(), "application");
            assert!(world.client.redrive(&instance).await.is_err(), "it failed of itself");
        }
        assert_eq!(runs.load(Ordering::SeqCst), (n + 1) * 3, "every failure of '{text}' is tried again");
    }
    let metrics = runtime.metrics_snapshot().expect("always there");
    assert_eq!((metrics.orch_poison, metrics.activity_poison, metrics.orch_configuration_errors), (0, 0, 0));
    runtime.shutdown(None).await;
}
