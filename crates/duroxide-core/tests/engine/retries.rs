//! Activities that are tried again: every attempt, every delay and the policy are in the history.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{BackoffStrategy, EventKind, OrchestrationHandler, Outcome, RetryPolicy};
use expect_test::expect;

use crate::build::{completed, failed, fired, handler, start};
use crate::driver::{Driver, check, failure, output, run};

fn fixed(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::new(max_attempts).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) })
}

fn program(policy: RetryPolicy) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, _| {
        let policy = policy.clone();
        async move {
            let result = ctx.schedule_activity_with_retry("A", "in", policy).await?;
            ctx.schedule_activity("After", result).await
        }
    })
}

#[test]
fn every_attempt_and_every_delay_is_in_the_history() {
    let driver = check(
        program(fixed(3)),
        vec![failed(2, "first"), fired(5), failed(7, "second"), fired(9), completed(11, "third")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            3 RetryPolicyRecorded { policy: "{\"max_attempts\":3,\"backoff\":{\"Fixed\":{\"delay\":{\"secs\":1,\"nanos\":0}}}}" }
            4 <- 2 ActivityFailed { details: Application { kind: ActivityFailed, message: "first", retryable: false } }
            5 TimerCreated { fire_at_ms: 4000 }
            6 <- 5 TimerFired { fire_at_ms: 5000 }
            7 <- 2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            8 <- 7 ActivityFailed { details: Application { kind: ActivityFailed, message: "second", retryable: false } }
            9 TimerCreated { fire_at_ms: 6000 }
            10 <- 9 TimerFired { fire_at_ms: 5000 }
            11 <- 2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            12 <- 11 ActivityCompleted { result: "third" }
            13 ActivityScheduled { name: "After", input: "third", session_id: None, tag: None }
        "#]],
    );
    assert_eq!(driver.last().outcome, Outcome::Waiting);
}

#[test]
fn the_last_failure_is_the_result() {
    let program = handler(|ctx, _| async move {
        let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
        ctx.schedule_activity_with_retry("A", "in", policy).await
    });
    let driver = run(program, vec![failed(2, "first"), failed(5, "second")]);
    assert_eq!(failure(driver.last()), "second");
    assert_eq!(driver.worker_items().len(), 2);
}

#[test]
fn a_timeout_is_not_retried_and_the_attempt_is_cancelled() {
    let program = handler(|ctx, _| async move {
        let policy = fixed(5).with_timeout(Duration::from_secs(7));
        ctx.schedule_activity_with_retry("A", "in", policy).await
    });
    let driver = check(
        program,
        vec![failed(2, "no"), fired(7), fired(10)],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            3 RetryPolicyRecorded { policy: "{\"max_attempts\":5,\"backoff\":{\"Fixed\":{\"delay\":{\"secs\":1,\"nanos\":0}}},\"timeout\":{\"secs\":7,\"nanos\":0}}" }
            4 TimerCreated { fire_at_ms: 9000 }
            5 <- 2 ActivityFailed { details: Application { kind: ActivityFailed, message: "no", retryable: false } }
            6 <- 4 TimerCancelled { reason: "dropped_future" }
            7 TimerCreated { fire_at_ms: 4000 }
            8 <- 7 TimerFired { fire_at_ms: 5000 }
            9 <- 2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            10 TimerCreated { fire_at_ms: 11000 }
            11 <- 10 TimerFired { fire_at_ms: 5000 }
            12 <- 9 ActivityCancelRequested { reason: "dropped_future" }
            13 OrchestrationFailed { details: Application { kind: OrchestrationFailed, message: "timeout: activity timed out", retryable: false } }
        "#]],
    );
    assert_eq!(failure(driver.last()), "timeout: activity timed out");
}

#[test]
fn an_attempt_within_its_time_cancels_the_timer() {
    let program = handler(|ctx, _| async move {
        let policy = fixed(2).with_timeout(Duration::from_secs(7));
        ctx.schedule_activity_with_retry("A", "in", policy).await
    });
    let driver = run(program, vec![completed(2, "done")]);
    assert_eq!(output(driver.last()), "done");
    let is_cancelled = |kind: &EventKind| matches!(kind, EventKind::TimerCancelled { .. });
    assert!(driver.history.iter().any(|event| is_cancelled(&event.kind)));
}

#[test]
fn a_changed_policy_does_not_disturb_an_execution_that_has_begun() {
    let mut before = Driver::new(program(fixed(2).with_timeout(Duration::from_secs(9))));
    before.send(vec![start(""), failed(2, "first"), fired(7)]);
    for changed in [
        RetryPolicy::new(1),
        RetryPolicy::new(9).with_backoff(BackoffStrategy::None),
        fixed(2).with_timeout(Duration::from_millis(1)),
    ] {
        let mut after = Driver::new(program(changed)).with_history(before.history.clone());
        after.turn(vec![failed(9, "second")]);
        assert_eq!(failure(after.last()), "second", "the execution keeps its two attempts");
    }
    let mut fresh = Driver::new(program(RetryPolicy::new(1)));
    fresh.send(vec![start(""), failed(2, "only")]);
    assert_eq!(failure(fresh.last()), "only", "a new execution has the new policy");
}

#[test]
fn retries_run_side_by_side_and_can_be_dropped() {
    let program = handler(|ctx, _| async move {
        let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
        let retried: Vec<_> =
            ["a", "b"].map(|name| ctx.schedule_activity_with_retry(name, "", policy.clone())).into();
        let bound = ctx.schedule_timer(Duration::from_secs(60));
        let results = ctx.select2(ctx.join(retried), bound).await;
        Ok(format!("{results:?}"))
    });
    let done = run(program.clone(), vec![failed(2, "x"), completed(4, "b"), completed(8, "a")]);
    assert_eq!(output(done.last()), r#"First([Ok("a"), Ok("b")])"#);
    let late = run(program, vec![failed(2, "x"), fired(6)]);
    assert_eq!(output(late.last()), "Second(())");
    assert_eq!(late.last().cancelled_activities.len(), 2);
}

#[test]
fn typed_and_session_forms_keep_their_types_and_their_session() {
    let program = handler(|ctx, _| async move {
        let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
        let sum: u64 = ctx.schedule_activity_with_retry_typed("Sum", &vec![1, 2], policy.clone()).await?;
        let text = ctx.schedule_activity_with_retry_on_session("S", "x", policy.clone(), "gpu").await?;
        let more: u64 = ctx.schedule_activity_with_retry_on_session_typed("T", &sum, policy, "gpu").await?;
        let plain = ctx.schedule_activity_on_session("U", "y", "gpu").await?;
        let last: u64 = ctx.schedule_activity_on_session_typed("V", &more, "gpu").await?;
        Ok(format!("{sum} {text} {more} {plain} {last}"))
    });
    let messages = vec![
        failed(2, "x"),
        completed(5, "3"),
        completed(7, "t"),
        failed(10, "x"),
        completed(13, "4"),
        completed(15, "u"),
        completed(17, "5"),
    ];
    let driver = run(program, messages);
    assert_eq!(output(driver.last()), "3 t 4 u 5");
    let sessions: Vec<Option<&str>> =
        driver.worker_items().into_iter().map(|item| duroxide_core::columns_of(item).session_id).collect();
    let gpu = Some("gpu");
    assert_eq!(sessions, [None, None, gpu, gpu, gpu, gpu, gpu]);
}

#[test]
fn a_policy_that_json_cannot_express_still_works() {
    let program = handler(|ctx, _| async move {
        let max = Duration::from_millis(5);
        let backoff = BackoffStrategy::Exponential { base: max, multiplier: f64::NAN, max };
        ctx.schedule_activity_with_retry("A", "", RetryPolicy::new(2).with_backoff(backoff)).await
    });
    let driver = run(program, vec![failed(2, "x"), fired(5), completed(7, "done")]);
    assert_eq!(output(driver.last()), "done");
    assert_eq!(driver.worker_items().len(), 2);
}
