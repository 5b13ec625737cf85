//! Metrics tell orchestrations and activities apart by their names.

use duroxide::{OrchestrationContext, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};
use crate::provoke::{flaky, programs};
use crate::recorder::Recorded;

#[tokio::test(start_paused = true)]
async fn starts_ends_durations_and_attempts_are_recorded_by_name() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let runtime = world.start(flaky(), programs(), options()).await;
    for (instance, name, input) in [("a", "Retry", "again"), ("b", "Retry", "last"), ("c", "Fail", "")] {
        world.client.start_orchestration(instance, name, input).await.expect("start");
    }
    world.output("a").await;
    world.output("b").await;
    world.failure("c").await;
    runtime.shutdown(None).await;
    let counter = |name: &str| recorded.counter(&format!("duroxide_{name}"));
    assert_eq!(counter("orchestration_starts_total{orchestration_name=Retry}"), 2);
    assert_eq!(counter("orchestration_starts_total{orchestration_name=Fail}"), 1);
    assert_eq!(counter("orchestration_completions_total{orchestration_name=Retry}"), 2);
    assert_eq!(counter("orchestration_continued_as_new_total{orchestration_name=Retry}"), 1);
    assert_eq!(counter("orchestration_failures_total{category=application,orchestration_name=Fail}"), 1);
    // Three executions, each with an attempt that fails and one that succeeds.
    assert_eq!(counter("activity_starts_total{activity_name=Flaky}"), 6);
    assert_eq!(counter("activity_retries_total{activity_name=Flaky}"), 3);
    assert_eq!(counter("activity_failures_total{category=application,activity_name=Flaky}"), 3);
    assert_eq!(counter("activity_completions_total{activity_name=Flaky}"), 3);
    assert_eq!(recorded.histogram("duroxide_activity_attempts{activity_name=Flaky}"), [2.0; 3]);
    let duration = |outcome: &str| {
        recorded.histogram(&format!(
            "duroxide_activity_duration_seconds{{activity_name=Flaky,outcome={outcome}}}"
        ))
    };
    assert_eq!(duration("failed"), [1.0; 3]);
    assert_eq!(duration("completed"), [1.0; 3]);
    let turns = recorded.histogram("duroxide_turn_duration_seconds{orchestration_name=Retry}");
    assert!(turns.len() >= 9, "three turns for each execution: {turns:?}");
    let took = recorded.histogram("duroxide_orchestration_duration_seconds{orchestration_name=Retry}");
    assert_eq!(took.len(), 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn names_that_anybody_may_make_up_do_not_grow_the_metrics_without_bound() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let world = World::new();
    let once = RuntimeOptions { max_attempts: 1, ..options() };
    let known = orchestrations()
        .register("Known", |_ctx: OrchestrationContext, input: String| async move { Ok(input) });
    let runtime = world.start(activities(), known, once).await;
    let limit = duroxide::runtime::limits::MAX_NAMES_IN_METRICS;
    for number in 0..limit + 5 {
        let name = format!("made up {number}");
        world.client.start_orchestration(name.clone(), name, "").await.expect("start");
    }
    for number in 0..limit + 5 {
        world.failure(&format!("made up {number}")).await;
    }
    world.client.start_orchestration("known", "Known", "").await.expect("start");
    world.output("known").await;
    runtime.shutdown(None).await;
    let failures = |name: &str| {
        recorded.counter(&format!("duroxide_orchestration_failures_total{{orchestration_name={name}}}"))
    };
    assert_eq!(recorded.counter("duroxide_orchestration_failures_total"), limit as u64 + 5);
    assert_eq!(failures("other"), 6, "one label is that of the name that is registered");
    assert_eq!(recorded.counter("duroxide_orchestration_completions_total{orchestration_name=Known}"), 1);
}
