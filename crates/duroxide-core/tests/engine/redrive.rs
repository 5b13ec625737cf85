//! A failed execution goes on as the next one: with its events up to the failure, and with what they wait for.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::redrive::{
    PARENT_FAILED, RedriveOf, RedrivePlan, is_redrivable, kept_after_failure, kept_since_failure,
    plan_redrive, start_anew,
};
use duroxide_core::{
    AppErrorKind, ErrorDetails, ItemKind, OpenWork, OrchestrationHandler, Outcome, PoisonMessageType,
    WorkItem,
};
use expect_test::expect;

use crate::build::{
    app_error, cancel, child_completed, completed, completed_in, failed, fired, handler, queued, raised,
    start,
};
use crate::driver::{Driver, failure, output, render_events};

/// Schedules one of everything, then waits for all of it.
fn program(first: &'static str) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, _| async move {
        let before = ctx.execution_id();
        let done = ctx.schedule_activity(first, "1").await?;
        let open = ctx.schedule_activity("Open", "2").with_start_to_close(Duration::from_secs(9));
        let child = ctx.schedule_sub_orchestration_versioned("Child", Some("2.0.0".to_string()), "3");
        let timer = ctx.schedule_timer(Duration::from_secs(4));
        let event = ctx.schedule_wait("e").await;
        let later = ctx.schedule_sub_orchestration("Later", before.to_string());
        let (open, child, (), later) = (open.await?, child.await?, timer.await, later.await?);
        Ok(format!("{done} {open} {child} {event} {later} {before} {}", ctx.execution_id()))
    })
}

fn note(from_execution_id: u64) -> WorkItem {
    let (instance, by) = ("i".to_string(), "ops".to_string());
    WorkItem::Redriven { instance, from_execution_id, by, at_ms: 77 }
}

fn plan(driver: &Driver) -> RedrivePlan {
    plan_redrive(&driver.history, RedriveOf::Asked).expect("it can go on")
}

/// The next execution with what the plan says.
fn redriven(driver: &Driver, handler: Arc<dyn OrchestrationHandler>) -> Driver {
    let next = driver.next_execution().with_history(plan(driver).events);
    next.with_handler(handler)
}

/// An execution with open work, ended by code that does not fit.
fn nondeterministic() -> Driver {
    let mut driver = Driver::new(program("First"));
    driver.turn(vec![start("")]);
    driver.turn(vec![completed(2, "a")]);
    let mut changed = Driver::new(program("Changed")).with_history(driver.history);
    changed.turn(vec![raised("e", "lost?")]);
    assert!(matches!(changed.last().outcome, Outcome::Nondeterministic { .. }));
    changed
}

#[test]
fn the_next_execution_begins_with_the_events_before_the_failure_and_what_they_wait_for() {
    let driver = nondeterministic();
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "First", input: "1", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "a" }
        4 ActivityScheduled { name: "Open", input: "2", session_id: None, tag: None }
        5 <- 4 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: None, start_to_close_ms: Some(9000) } }
        6 SubOrchestrationScheduled { name: "Child", instance: "sub::6", input: "3" }
        7 <- 6 VersionRequested { version: "2.0.0" }
        8 TimerCreated { fire_at_ms: 7000 }
        9 ExternalSubscribed { name: "e" }
        10 <- 4 ActivityCancelRequested { reason: "orchestration_terminal_failed" }
        11 <- 6 SubOrchestrationCancelRequested { reason: "orchestration_terminal" }
        12 OrchestrationFailed { details: Configuration { kind: Nondeterminism, resource: "Program", message: Some("schedule mismatch at event 2: recorded activity 'First' (input of 1 bytes), but the code now asks for activity 'Changed' (input of 1 bytes); differs in name (recorded 'First', now 'Changed') at crates/duroxide-core/tests/engine/redrive.rs:26") } }
    "#]].assert_eq(&driver.render_history());
    let RedrivePlan { events, open: OpenWork { activities, timers, children, .. } } = plan(&driver);
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "First", input: "1", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "a" }
        4 ActivityScheduled { name: "Open", input: "2", session_id: None, tag: None }
        5 <- 4 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: None, start_to_close_ms: Some(9000) } }
        6 SubOrchestrationScheduled { name: "Child", instance: "sub::6", input: "3" }
        7 <- 6 VersionRequested { version: "2.0.0" }
        8 TimerCreated { fire_at_ms: 7000 }
        9 ExternalSubscribed { name: "e" }
    "#]].assert_eq(&render_events(&events));
    assert_eq!(events[..], driver.history[..events.len()], "as they were recorded");
    expect![[r#"
        (
            [
                ActivityExecuteWithin {
                    instance: "i",
                    execution_id: 1,
                    id: 4,
                    name: "Open",
                    input: "2",
                    session_id: None,
                    tag: None,
                    deadlines: ActivityDeadlines {
                        schedule_to_start_ms: None,
                        start_to_close_ms: Some(
                            9000,
                        ),
                    },
                    retried: None,
                    reports_stop: false,
                },
            ],
            [
                TimerFired {
                    instance: "i",
                    execution_id: 1,
                    id: 8,
                    fire_at_ms: 7000,
                },
            ],
            [
                StartOrchestration {
                    instance: "i::sub::6",
                    orchestration: "Child",
                    input: "3",
                    version: Some(
                        "2.0.0",
                    ),
                    parent_instance: Some(
                        "i",
                    ),
                    parent_id: Some(
                        6,
                    ),
                    parent_execution_id: Some(
                        1,
                    ),
                    execution_id: 1,
                },
            ],
        )
    "#]]
    .assert_debug_eq(&(activities, timers, children));
}

#[test]
fn a_redriven_execution_goes_on_where_it_was_and_knows_its_old_schedules() {
    let mut next = redriven(&nondeterministic(), program("First"));
    next.turn(vec![note(1), raised("e", "kept")]);
    assert_eq!(next.last().outcome, Outcome::Waiting);
    // Answers to what execution 1 had scheduled name execution 1; the new child belongs to execution 2.
    next.turn(vec![completed_in(1, 4, "b"), child_completed(6, "c"), fired(8)]);
    let later: Vec<String> =
        next.orchestrator_items().iter().map(|item| item.instance().to_string()).collect();
    assert_eq!(later, ["i::sub::2_12"]);
    next.turn(vec![WorkItem::SubOrchCompleted {
        parent_instance: "i".to_string(),
        parent_execution_id: 2,
        parent_id: 12,
        result: "d".to_string(),
    }]);
    assert_eq!(output(next.last()), "a b c kept d 1 2");
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "First", input: "1", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "a" }
        4 ActivityScheduled { name: "Open", input: "2", session_id: None, tag: None }
        5 <- 4 ActivityDeadlinesRecorded { deadlines: ActivityDeadlines { schedule_to_start_ms: None, start_to_close_ms: Some(9000) } }
        6 SubOrchestrationScheduled { name: "Child", instance: "sub::6", input: "3" }
        7 <- 6 VersionRequested { version: "2.0.0" }
        8 TimerCreated { fire_at_ms: 7000 }
        9 ExternalSubscribed { name: "e" }
        10 OrchestrationRedriven { from_execution_id: 1, by: "ops", at_ms: 77 }
        11 <- 9 ExternalEvent { name: "e", data: "kept" }
        12 SubOrchestrationScheduled { name: "Later", instance: "sub::2_12", input: "1" }
        13 <- 4 ActivityCompleted { result: "b" }
        14 <- 6 SubOrchestrationCompleted { result: "c" }
        15 <- 8 TimerFired { fire_at_ms: 5000 }
        16 <- 12 SubOrchestrationCompleted { result: "d" }
        17 OrchestrationCompleted { output: "a b c kept d 1 2" }
    "#]].assert_eq(&next.render_history());
}

#[test]
fn an_answer_of_an_execution_that_never_made_the_schedule_is_stale() {
    let mut next = redriven(&nondeterministic(), program("First"));
    next.turn(vec![note(1), raised("e", "kept")]);
    next.turn(vec![completed_in(1, 12, "not mine"), completed_in(7, 4, "nor mine")]);
    assert_eq!(next.last().dropped.len(), 2);
    assert!(next.last().events.is_empty());
}

#[test]
fn an_execution_can_be_redriven_again_and_again() {
    let mut driver = nondeterministic();
    for execution in 1..4 {
        let mut next = redriven(&driver, program("First"));
        next.turn(vec![note(execution)]);
        let history = next.history.clone();
        driver = next.with_handler(program("Changed")).with_history(history);
        driver.forget();
        driver.turn(vec![raised("e", "again")]);
        assert!(matches!(driver.last().outcome, Outcome::Nondeterministic { .. }));
    }
    let mut last = redriven(&driver, program("First"));
    last.turn(vec![note(4), raised("e", "kept"), completed_in(1, 4, "b"), child_completed(6, "c"), fired(8)]);
    let later = last.orchestrator_items()[0].instance().to_string();
    assert_eq!(later, "i::sub::5_15");
    let open: Vec<u64> = plan_open(&last);
    assert_eq!(open, [] as [u64; 0]);
}

/// The executions that the cancelled activities of the last turn name.
fn plan_open(driver: &Driver) -> Vec<u64> {
    driver.last().cancelled_activities.iter().map(|id| id.execution_id).collect()
}

#[test]
fn what_a_redriven_execution_gives_up_is_named_by_the_execution_that_scheduled_it() {
    let mut next = redriven(&nondeterministic(), program("First"));
    next.turn(vec![note(1)]);
    next.turn(vec![cancel("enough")]);
    assert_eq!(plan_open(&next), [1]);
    assert_eq!(failure(next.last()), "canceled: enough");
}

fn poisoned_activity(id: u64) -> WorkItem {
    WorkItem::ActivityFailed {
        instance: "i".to_string(),
        execution_id: 1,
        id,
        details: ErrorDetails::Poison {
            attempt_count: 11,
            max_attempts: 10,
            message_type: PoisonMessageType::Activity {
                instance: "i".to_string(),
                execution_id: 1,
                activity_name: "First".to_string(),
                activity_id: id,
            },
            message: "{}".to_string(),
        },
    }
}

#[test]
fn a_poisoned_activity_is_put_back() {
    let mut driver = Driver::new(program("First"));
    driver.turn(vec![start("")]);
    driver.turn(vec![poisoned_activity(2)]);
    let mut kept = kept_after_failure(&driver.last().events).expect("it can go on");
    assert!(!kept.keeps(ItemKind::Completion, Some(2), true), "the poison must not come back");
    assert!(kept.keeps(ItemKind::Completion, Some(3), true));
    let plan = plan(&driver);
    assert_eq!(plan.events.len(), 2, "the start and the schedule");
    let [WorkItem::ActivityExecute { execution_id: 1, id: 2, name, .. }] = &plan.open.activities[..] else {
        panic!("{:?}", plan.open.activities)
    };
    assert_eq!(name, "First");
}

#[test]
fn an_execution_whose_program_had_done_nothing_begins_anew_with_the_version_asked_for() {
    let poison = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "i".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    };
    let stored = duroxide_core::StoredExecution {
        instance: "i".to_string(),
        execution_id: 1,
        name: "P".to_string(),
        version: String::new(),
        parent: None,
        history: &[],
        last_event_id: 0,
    };
    let turn = duroxide_core::end_without_handler(&stored, poison, vec![start("in")], 5);
    let plan = plan_redrive(&turn.events, RedriveOf::Asked).expect("it can go on");
    assert_eq!(plan, RedrivePlan::default());
    for kept in [vec![start("in")], vec![]] {
        let Some(WorkItem::ContinueAsNew { version: None, input, .. }) = start_anew(&turn.events, &kept)
        else {
            panic!("no start")
        };
        assert_eq!(input, "in");
    }
}

#[test]
fn what_failed_of_itself_does_not_go_on() {
    let mut driver = Driver::new(handler(|ctx, _| async move { ctx.schedule_activity("A", "").await }));
    driver.turn(vec![start("")]);
    let running = plan_redrive(&driver.history, RedriveOf::Asked).expect_err("it runs");
    assert_eq!(running, "it has not failed");
    driver.turn(vec![failed(2, "no")]);
    let own = plan_redrive(&driver.history, RedriveOf::Asked).expect_err("its own failure");
    assert!(own.contains("it failed of itself (application)"), "{own}");
    assert!(!is_redrivable(&app_error("no")));
}

#[test]
fn a_child_goes_on_with_its_parent_only_if_the_parents_end_had_cancelled_it() {
    let cancelled = |reason: &str| {
        let mut driver = Driver::new(program("First"));
        driver.turn(vec![start("")]);
        driver.turn(vec![cancel(reason)]);
        driver.history
    };
    let by_parent = cancelled(PARENT_FAILED);
    let plan = plan_redrive(&by_parent, RedriveOf::CancelledChild).expect("it goes on with its parent");
    assert_eq!((plan.events.len(), plan.open.activities.len()), (2, 1));
    assert!(plan_redrive(&by_parent, RedriveOf::Asked).is_err());
    assert!(plan_redrive(&cancelled("customer left"), RedriveOf::CancelledChild).is_err());
    let details = ErrorDetails::Application {
        kind: AppErrorKind::Cancelled { reason: PARENT_FAILED.to_string() },
        message: String::new(),
        retryable: false,
    };
    assert!(!is_redrivable(&details));
}

#[test]
fn a_child_that_its_parent_cancelled_keeps_what_it_has_not_read_and_not_that_cancel() {
    let mut driver = Driver::new(program("First"));
    driver.turn(vec![start("")]);
    driver.turn(vec![cancel(PARENT_FAILED)]);
    let mut kept = kept_after_failure(&driver.last().events).expect("it may go on with its parent");
    assert!(!kept.keeps(ItemKind::Cancel, None, true), "the parent's cancel is over when the parent goes on");
    assert!(kept.keeps(ItemKind::Cancel, None, false), "another one still holds");
    assert!(kept.keeps(ItemKind::Completion, Some(2), false), "what has run need not run again");
    assert!(kept.keeps(ItemKind::Event, None, false));
    let mut driver = Driver::new(program("First"));
    driver.turn(vec![start("")]);
    driver.turn(vec![cancel("customer left")]);
    assert!(kept_after_failure(&driver.last().events).is_none(), "nobody lets it go on");
}

#[test]
fn messages_that_the_failing_turn_had_admitted_are_not_kept_twice() {
    let mut driver = Driver::new(program("First"));
    driver.turn(vec![start("")]);
    let messages = vec![raised("x", ""), completed(99, ""), queued("q", ""), raised("y", "")];
    driver.turn(messages.clone());
    assert!(matches!(driver.last().outcome, Outcome::Nondeterministic { .. }));
    let mut kept = kept_after_failure(&driver.last().events).expect("it can go on");
    let taken = [
        (ItemKind::Event, None),
        (ItemKind::Completion, Some(99)),
        (ItemKind::Event, None),
        (ItemKind::Event, None),
    ];
    let keeps: Vec<bool> = taken.iter().map(|(kind, id)| kept.keeps(*kind, *id, true)).collect();
    assert_eq!(keeps, [false, true, true, true]);
    assert!(!kept.keeps(ItemKind::Timer, Some(8), false), "the history knows the timers");
    assert!(kept_after_failure(&driver.turns[0].events).is_none());
}

#[test]
fn a_result_is_kept_also_if_the_failing_turn_read_that_its_activity_had_begun() {
    let mut driver = Driver::new(handler(|ctx, _| async move {
        ctx.schedule_activity("First", "").with_schedule_to_start(Duration::from_secs(1)).await
    }));
    driver.turn(vec![start("")]);
    let begun = WorkItem::ActivityBegun { instance: "i".to_string(), execution_id: 1, id: 2 };
    driver.turn(vec![begun, cancel(PARENT_FAILED), completed(2, "done")]);
    let mut kept = kept_after_failure(&driver.last().events).expect("it may go on with its parent");
    assert!(kept.keeps(ItemKind::Completion, Some(2), true), "what has run need not run again");
    let plan = plan_redrive(&driver.history, RedriveOf::CancelledChild).expect("it goes on with its parent");
    assert_eq!(plan.open.activities.len(), 1, "unless it has answered, it is queued again");
}

#[test]
fn events_that_come_after_a_failure_are_kept_if_it_can_be_mended() {
    let poison = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "a".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    };
    let by_parent = ErrorDetails::cancelled(PARENT_FAILED);
    let by_somebody = ErrorDetails::cancelled("enough");
    let of_itself = ErrorDetails::orchestration_failed("no");
    assert!(kept_since_failure(ItemKind::Event, &poison));
    assert!(kept_since_failure(ItemKind::Event, &by_parent));
    assert!(!kept_since_failure(ItemKind::Event, &by_somebody));
    assert!(!kept_since_failure(ItemKind::Event, &of_itself));
    for kind in [ItemKind::Start, ItemKind::Completion, ItemKind::Timer, ItemKind::Cancel, ItemKind::Note] {
        assert!(!kept_since_failure(kind, &poison), "{kind:?}");
    }
}
