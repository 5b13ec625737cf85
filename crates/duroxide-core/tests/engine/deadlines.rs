//! Activities with deadlines: the schedule-to-start one is kept by the engine, the start-to-close one is handed to
//! the worker.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    ActivityDeadlines, DropReason, EventKind, OrchestrationHandler, Outcome, WorkItem, not_started_in_time,
};
use expect_test::expect;

use crate::build::{activity, completed, fired, handler, start};
use crate::driver::{Driver, check, failure, output, run};

fn begun(id: u64) -> WorkItem {
    WorkItem::ActivityBegun { instance: "i".to_string(), execution_id: 1, id }
}

fn limited(to_start: u64) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, _| async move {
        let limit = Duration::from_millis(to_start);
        let result = ctx.schedule_activity("A", "in").with_schedule_to_start(limit).await;
        ctx.schedule_activity("After", "").await?;
        result
    })
}

#[test]
fn an_activity_that_begins_in_time_is_not_bounded_any_more() {
    let driver = check(
        limited(700),
        vec![begun(2), begun(2), fired(4), completed(2, "late but fine"), completed(8, "")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
            3 <- 2 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: Some(700), start_to_close_ms: None } }
            4 TimerCreated { fire_at_ms: 2700 }
            5 <- 2 ActivityBegun
            6 <- 4 TimerCancelled { reason: "dropped_future" }
            7 <- 2 ActivityCompleted { result: "late but fine" }
            8 ActivityScheduled { name: "After", input: "", session_id: None, tag: None }
            9 <- 8 ActivityCompleted { result: "" }
            10 OrchestrationCompleted { output: "late but fine" }
        "#]],
    );
    assert_eq!(output(driver.last()), "late but fine");
}

#[test]
fn an_activity_that_does_not_begin_in_time_is_given_up() {
    let driver = check(
        limited(700),
        vec![fired(4), begun(2), completed(2, "too late")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
        3 <- 2 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: Some(700), start_to_close_ms: None } }
        4 TimerCreated { fire_at_ms: 2700 }
        5 <- 4 TimerFired { fire_at_ms: 5000 }
        6 <- 2 ActivityCancelRequested { reason: "schedule_to_start" }
        7 ActivityScheduled { name: "After", input: "", session_id: None, tag: None }
    "#]],
    );
    assert_eq!(driver.last().outcome, Outcome::Waiting);
    let cancelled: Vec<u64> =
        driver.turns.iter().flat_map(|turn| &turn.cancelled_activities).map(|id| id.activity_id).collect();
    assert_eq!(cancelled, [2]);
    let mut driver = driver;
    driver.turn(vec![completed(7, "")]);
    assert_eq!(failure(driver.last()), not_started_in_time("A", 700));
}

#[test]
fn an_activity_that_ends_without_having_said_that_it_began_ends_its_deadline() {
    let driver = check(
        limited(700),
        vec![completed(2, "done"), fired(4), completed(7, "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "in", session_id: None, tag: None }
        3 <- 2 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: Some(700), start_to_close_ms: None } }
        4 TimerCreated { fire_at_ms: 2700 }
        5 <- 2 ActivityCompleted { result: "done" }
        6 <- 4 TimerCancelled { reason: "dropped_future" }
        7 ActivityScheduled { name: "After", input: "", session_id: None, tag: None }
        8 <- 7 ActivityCompleted { result: "" }
        9 OrchestrationCompleted { output: "done" }
    "#]],
    );
    assert_eq!(output(driver.last()), "done");
}

#[test]
fn a_dropped_activity_takes_its_timer_with_it() {
    let program = handler(|ctx, _| async move {
        drop(ctx.schedule_activity("A", "").with_schedule_to_start(Duration::from_secs(1)));
        ctx.schedule_activity("After", "").await
    });
    let driver = check(
        program,
        vec![completed(7, "end")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 <- 2 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: Some(1000), start_to_close_ms: None } }
        4 TimerCreated { fire_at_ms: 3000 }
        5 <- 2 ActivityCancelRequested { reason: "dropped_future" }
        6 <- 4 TimerCancelled { reason: "dropped_future" }
        7 ActivityScheduled { name: "After", input: "", session_id: None, tag: None }
        8 <- 7 ActivityCompleted { result: "end" }
        9 OrchestrationCompleted { output: "end" }
    "#]],
    );
    assert_eq!(output(driver.last()), "end");
    let timers = driver.orchestrator_items().len();
    assert_eq!(timers, 0, "a timer that was dropped in its own turn reaches no queue");
}

#[test]
fn the_worker_is_told_how_long_it_may_run() {
    let program = handler(|ctx, _| async move {
        let limit = Duration::from_micros(1500);
        ctx.schedule_activity_on_session("A", "in", "s").with_start_to_close(limit).with_tag("gpu").await
    });
    let driver = check(
        program,
        vec![completed(2, "done")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "in", session_id: Some("s"), tag: Some("gpu") }
        3 <- 2 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: None, start_to_close_ms: Some(2) } }
        4 <- 2 ActivityCompleted { result: "done" }
        5 OrchestrationCompleted { output: "done" }
    "#]],
    );
    let deadlines = ActivityDeadlines { schedule_to_start_ms: None, start_to_close_ms: Some(2) };
    assert_eq!(
        driver.worker_items(),
        [&WorkItem::ActivityExecuteWithin {
            instance: "i".to_string(),
            execution_id: 1,
            id: 2,
            name: "A".to_string(),
            input: "in".to_string(),
            session_id: Some("s".to_string()),
            tag: Some("gpu".to_string()),
            deadlines,
            retried: None,
            reports_stop: false,
        }]
    );
}

#[test]
fn a_deadline_can_be_changed_added_and_removed_while_executions_run() {
    let plain = || {
        handler(|ctx, _| async move {
            let result = ctx.schedule_activity("A", "in").await;
            ctx.schedule_activity("After", "").await?;
            result
        })
    };
    let programs = || [limited(700), limited(9_000), plain()];
    for before in programs() {
        for after in programs() {
            let mut driver = Driver::new(before.clone());
            driver.turn(vec![start("")]);
            let mut changed = Driver::new(after.clone()).with_history(driver.history.clone());
            changed.turn(vec![completed(2, "done")]);
            assert_eq!(changed.last().outcome, Outcome::Waiting, "{}", changed.render_history());
        }
    }
}

#[test]
fn a_deadline_of_an_earlier_execution_changes_nothing() {
    let mut driver = Driver::new(limited(700));
    driver.turn(vec![start("")]);
    let stale = WorkItem::ActivityBegun { instance: "i".to_string(), execution_id: 7, id: 2 };
    driver.turn(vec![stale]);
    assert_eq!(driver.last().dropped, [DropReason::StaleExecution]);
    assert!(driver.last().events.is_empty());
}

#[test]
fn a_deadline_on_anything_but_an_activity_panics() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_timer(Duration::ZERO).with_start_to_close(Duration::from_secs(1)).await;
        Ok(String::new())
    });
    let message = "with_start_to_close is for activities only".to_string();
    assert_eq!(run(program, vec![]).last().outcome, Outcome::Panicked { message });
}

#[test]
fn a_deadline_of_no_time_panics() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").with_schedule_to_start(Duration::ZERO).await
    });
    let message = "with_schedule_to_start needs a time longer than zero".to_string();
    assert_eq!(run(program, vec![]).last().outcome, Outcome::Panicked { message });
}

#[test]
fn a_recorded_deadline_without_its_timer_is_a_mismatch() {
    let mut driver = Driver::new(limited(700));
    driver.turn(vec![start("")]);
    let mut history = driver.history.clone();
    history.truncate(3);
    let mut other = history[2].clone();
    other.event_id = 4;
    other.source_event_id = None;
    other.kind = activity("B", "");
    history.push(other);
    assert!(matches!(history[2].kind, EventKind::ActivityDeadlinesRecorded { .. }));
    let mut damaged = Driver::new(limited(700)).with_history(history);
    damaged.turn(vec![completed(2, "done")]);
    assert!(matches!(damaged.last().outcome, Outcome::Nondeterministic { .. }));
}
