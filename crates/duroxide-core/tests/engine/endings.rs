//! Cancellation, panics, and what an ending leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duroxide_core::{
    AppErrorKind, ConfigErrorKind, DropReason, ErrorDetails, EventKind, OrchestrationHandler, Outcome,
    ParentLink, StoredExecution, WorkItem, cancel_without_handler, end_without_handler,
};
use expect_test::expect;

use crate::build::{
    activity, cancel, child_completed, completed, fired, handler, history, queued, raised, start,
    start_by_parent,
};
use crate::driver::{Driver, check, failure, output, render_events, run};

/// Schedules an activity and a child, then does what the input says on `go`.
fn with_open_work() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        let activity = ctx.schedule_activity("A", "");
        let child = ctx.schedule_sub_orchestration("Child", "");
        let how = ctx.schedule_wait("go").await;
        match how.as_str() {
            "panic" => panic!("at the disco"),
            "error" => return Err("gave up".to_string()),
            _ => ctx.continue_as_new("next").await?,
        };
        ctx.join2(activity, child).await.0
    })
}

#[test]
fn a_cancelled_orchestration_ends_its_work_and_says_why() {
    let driver = check(
        with_open_work(),
        vec![cancel("enough"), raised("go", "panic")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
            3 SubOrchestrationScheduled { name: "Child", instance: "sub::3", input: "" }
            4 ExternalSubscribed { name: "go" }
            5 OrchestrationCancelRequested { reason: "enough" }
            6 <- 2 ActivityCancelRequested { reason: "orchestration_terminal_failed" }
            7 <- 3 SubOrchestrationCancelRequested { reason: "orchestration_terminal" }
            8 OrchestrationFailed { details: Application { kind: Cancelled { reason: "enough" }, message: "canceled: enough", retryable: false } }
        "#]],
    );
    let Outcome::Failed { details } = &driver.turns[1].outcome else { panic!("not failed") };
    let ErrorDetails::Application { kind, .. } = details else { panic!("not an application error") };
    assert_eq!(*kind, AppErrorKind::Cancelled { reason: "enough".to_string() });
    let child =
        WorkItem::CancelInstance { instance: "i::sub::3".to_string(), reason: "parent canceled".to_string() };
    assert_eq!(driver.turns[1].orchestrator_items, [child]);
    assert_eq!(driver.turns[1].metadata.status.as_deref(), Some("Failed"));
}

#[test]
fn no_child_is_left_an_orphan_however_its_parent_ends() {
    for message in [raised("go", "panic"), raised("go", "error"), raised("go", "next"), completed(99, "")] {
        let driver = run(with_open_work(), vec![message.clone()]);
        let cancels = driver.orchestrator_items().into_iter().filter(
            |item| matches!(item, WorkItem::CancelInstance { instance, .. } if instance == "i::sub::3"),
        );
        assert_eq!(cancels.count(), 1, "{message:?}");
        assert_eq!(driver.last().cancelled_activities.len(), 1, "{message:?}");
    }
}

#[test]
fn a_panic_becomes_a_failure_with_its_text() {
    let driver = run(with_open_work(), vec![raised("go", "panic")]);
    assert_eq!(driver.last().outcome, Outcome::Panicked { message: "at the disco".to_string() });
    let EventKind::OrchestrationFailed { details } = &driver.history.last().expect("not empty").kind else {
        panic!("not failed")
    };
    assert_eq!(details.display_message(), "orchestration panicked: at the disco");
}

#[test]
fn what_a_program_did_before_it_panicked_counts() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_orchestration("Alarm", "alarm-1", "");
        ctx.trace_warn("about to panic");
        panic!("now")
    });
    let driver = run(program, vec![]);
    assert!(matches!(driver.orchestrator_items()[..], [WorkItem::StartOrchestration { .. }]));
    assert_eq!(driver.last().traces.len(), 1);
}

#[test]
fn what_a_program_did_in_the_poll_that_returned_counts() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_orchestration("Other", "other-1", "");
        drop(ctx.schedule_activity("Never", ""));
        Ok("done".to_string())
    });
    let driver = check(
        program,
        vec![],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 OrchestrationChained { name: "Other", instance: "other-1", input: "" }
        3 ActivityScheduled { name: "Never", input: "", session_id: None, tag: None }
        4 <- 3 ActivityCancelRequested { reason: "dropped_future" }
        5 OrchestrationCompleted { output: "done" }
    "#]],
    );
    assert_eq!(driver.orchestrator_items().len(), 1);
}

#[test]
fn a_handler_that_panics_at_once_fails_its_first_turn() {
    struct Bad;
    #[async_trait::async_trait]
    impl OrchestrationHandler for Bad {
        async fn invoke(&self, _: duroxide_core::OrchestrationContext, _: String) -> Result<String, String> {
            std::panic::panic_any(7)
        }
    }
    let driver = run(Arc::new(Bad), vec![]);
    assert_eq!(driver.last().outcome, Outcome::Panicked { message: "the panic carried no text".to_string() });
}

#[test]
fn destructors_at_the_end_have_no_effect_and_may_panic() {
    struct Late(duroxide_core::OrchestrationContext);
    impl Drop for Late {
        fn drop(&mut self) {
            drop(self.0.schedule_activity("TooLate", ""));
            self.0.schedule_orchestration("TooLate", "late", "");
            self.0.trace_info("too late");
            if !std::thread::panicking() {
                panic!("in a destructor");
            }
        }
    }
    let program = handler(|ctx, _| async move {
        let _late = Late(ctx.clone());
        let activity = ctx.schedule_activity("A", "");
        ctx.schedule_wait("never").await;
        activity.await
    });
    let driver = check(
        program,
        vec![cancel("enough")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 ExternalSubscribed { name: "never" }
        4 OrchestrationCancelRequested { reason: "enough" }
        5 <- 2 ActivityCancelRequested { reason: "orchestration_terminal_failed" }
        6 OrchestrationFailed { details: Application { kind: Cancelled { reason: "enough" }, message: "canceled: enough", retryable: false } }
    "#]],
    );
    assert_eq!((driver.worker_items().len(), driver.last().traces.len()), (1, 0));
}

/// What a program may panic with: it panics again when it is dropped, with another one.
struct Bomb {
    left: u32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.left > 0 {
            std::panic::panic_any(Bomb { left: self.left - 1 });
        }
    }
}

#[test]
fn a_panic_whose_payload_panics_when_it_is_dropped_is_a_panic_like_any_other() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        std::panic::panic_any(Bomb { left: 2 })
    });
    let driver = run(program, vec![raised("go", "")]);
    let expected = Outcome::Panicked { message: "the panic carried no text".to_string() };
    assert_eq!(driver.last().outcome, expected);
    let in_destructor = handler(|ctx, _| async move {
        let _bomb = Bomb { left: 2 };
        Ok(ctx.schedule_wait("go").await)
    });
    let mut driver = Driver::new(in_destructor);
    driver.turn(vec![start("")]);
    driver.turn(vec![cancel("enough")]);
    assert_eq!(failure(driver.last()), "canceled: enough");
}

#[test]
fn messages_after_the_end_are_dropped() {
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait("e").await) });
    let mut driver = Driver::new(program);
    driver.turn(vec![start(""), raised("e", "x"), queued("q", ""), fired(9)]);
    assert_eq!(output(driver.last()), "x");
    assert_eq!(driver.last().dropped, [DropReason::AfterEnd; 2]);
    driver.turn(vec![cancel("later"), completed(77, "")]);
    assert_eq!(driver.last().outcome, Outcome::AlreadyEnded);
    assert_eq!(driver.last().dropped, [DropReason::AfterEnd; 2]);
}

/// A program that notes when it runs.
fn noting(ran: &Arc<AtomicUsize>) -> Arc<dyn OrchestrationHandler> {
    let ran = ran.clone();
    handler(move |ctx, _| {
        let ran = ran.clone();
        async move {
            ran.fetch_add(1, Ordering::SeqCst);
            let answer = ctx.schedule_activity("A", "").await?;
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(answer)
        }
    })
}

#[test]
fn a_cancel_that_is_fetched_with_the_start_ends_the_instance_before_its_program_runs() {
    let ran = Arc::default();
    let mut driver = Driver::new(noting(&ran));
    driver.turn(vec![start(""), raised("e", ""), cancel("enough"), cancel("twice")]);
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 OrchestrationCancelRequested { reason: "enough" }
        3 OrchestrationFailed { details: Application { kind: Cancelled { reason: "enough" }, message: "canceled: enough", retryable: false } }
    "#]]
    .assert_eq(&driver.render_history());
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the program ran");
    assert_eq!(driver.last().dropped, [DropReason::AfterEnd; 2]);
    let metadata = &driver.last().metadata;
    assert_eq!(metadata.orchestration_version.as_deref(), Some("1.0.0"), "the version of the handler");
    assert_eq!(metadata.status.as_deref(), Some("Failed"));
}

#[test]
fn a_cancel_comes_before_the_result_that_was_fetched_with_it() {
    let ran = Arc::default();
    let mut driver = Driver::new(noting(&ran));
    driver.turn(vec![start("")]);
    let before = ran.load(Ordering::SeqCst);
    driver.turn(vec![completed(2, "done"), cancel("enough")]);
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 OrchestrationCancelRequested { reason: "enough" }
        4 <- 2 ActivityCancelRequested { reason: "orchestration_terminal_failed" }
        5 OrchestrationFailed { details: Application { kind: Cancelled { reason: "enough" }, message: "canceled: enough", retryable: false } }
    "#]]
    .assert_eq(&driver.render_history());
    assert_eq!(ran.load(Ordering::SeqCst), before, "the program ran");
}

#[test]
fn a_cancel_reaches_an_execution_whose_code_no_longer_fits() {
    let mut driver = Driver::new(handler(|ctx, _| async move { ctx.schedule_activity("A", "").await }));
    driver.turn(vec![start("")]);
    let other = handler(|ctx, _| async move { ctx.schedule_activity("B", "").await });
    let mut driver = Driver::new(other).with_history(driver.history.clone());
    driver.turn(vec![cancel("enough")]);
    assert_eq!(failure(driver.last()), "canceled: enough");
}

#[test]
fn a_cancel_without_an_execution_or_a_start_changes_nothing() {
    let mut driver = Driver::new(handler(|_, _| async move { Ok(String::new()) }));
    driver.turn(vec![cancel("enough")]);
    assert_eq!(driver.last().outcome, Outcome::NotStarted);
}

#[test]
fn an_activity_item_in_the_wrong_queue_is_dropped_by_name() {
    let item = WorkItem::ActivityExecute {
        instance: "i".to_string(),
        execution_id: 1,
        id: 2,
        name: "A".to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let driver = run(handler(|ctx, _| async move { ctx.schedule_activity("A", "").await }), vec![item]);
    assert_eq!(driver.last().dropped, [DropReason::WrongQueue]);
}

fn stored(history: &[duroxide_core::Event]) -> StoredExecution<'_> {
    StoredExecution {
        instance: "i".to_string(),
        execution_id: 1,
        name: "Program".to_string(),
        version: String::new(),
        parent: None,
        history,
        last_event_id: 0,
    }
}

#[test]
fn a_cancel_without_a_handler_writes_the_start_the_request_and_the_end() {
    let turn =
        cancel_without_handler(&stored(&[]), "stop", vec![start_by_parent("p", 3, 8), cancel("stop")], 1_000);
    expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 OrchestrationCancelRequested { reason: "stop" }
        3 OrchestrationFailed { details: Application { kind: Cancelled { reason: "stop" }, message: "canceled: stop", retryable: false } }
    "#]].assert_eq(&render_events(&turn.events));
    assert!(matches!(&turn.orchestrator_items[..], [WorkItem::SubOrchFailed { parent_id: 8, .. }]));
    assert_eq!(turn.metadata.orchestration_version.as_deref(), Some("0.0.0"));
}

#[test]
fn an_end_without_a_handler_cancels_what_the_history_left_open() {
    let child = |id: u64| EventKind::SubOrchestrationScheduled {
        name: "Child".to_string(),
        instance: format!("i::sub::{id}"),
        input: String::new(),
    };
    let history = history(vec![
        (None, activity("A", "")),
        (None, activity("B", "")),
        (None, child(4)),
        (None, child(5)),
        (Some(2), EventKind::ActivityCompleted { result: String::new() }),
        (Some(5), EventKind::SubOrchestrationCompleted { result: String::new() }),
    ]);
    let details = ErrorDetails::Configuration {
        kind: ConfigErrorKind::UnsupportedReplayVersion,
        resource: "Program".to_string(),
        message: None,
    };
    let messages = vec![child_completed(4, ""), start_by_parent("p", 3, 8)];
    let turn = end_without_handler(&stored(&history), details, messages, 0);
    expect![[r#"
        8 <- 3 ActivityCancelRequested { reason: "orchestration_terminal_failed" }
        9 <- 4 SubOrchestrationCancelRequested { reason: "orchestration_terminal" }
        10 OrchestrationFailed { details: Configuration { kind: UnsupportedReplayVersion, resource: "Program", message: None } }
    "#]].assert_eq(&render_events(&turn.events));
    assert!(
        matches!(&turn.orchestrator_items[0], WorkItem::SubOrchFailed { parent_id: 8, .. }),
        "the parent of the colliding start is answered: {:?}",
        turn.orchestrator_items
    );
    assert_eq!(turn.dropped, [DropReason::AfterEnd; 2]);
}

#[test]
fn an_undecodable_history_is_ended_from_its_columns() {
    let mut stored = stored(&[]);
    stored.last_event_id = 41;
    stored.parent = Some(ParentLink { instance: "p".to_string(), execution_id: 3, event_id: 8 });
    let turn = end_without_handler(&stored, ErrorDetails::orchestration_failed("corrupt"), vec![], 5);
    let ids: Vec<u64> = turn.events.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, [42]);
    assert!(matches!(&turn.orchestrator_items[..], [WorkItem::SubOrchFailed { parent_id: 8, .. }]));
}

#[test]
fn an_execution_that_has_ended_is_not_ended_again() {
    let history = history(vec![(None, EventKind::OrchestrationCompleted { output: String::new() })]);
    let turn = cancel_without_handler(&stored(&history), "late", vec![cancel("late")], 0);
    assert_eq!((turn.outcome, turn.events), (Outcome::AlreadyEnded, vec![]));
}

#[test]
fn a_failure_returned_by_the_program_is_told_once() {
    let mut driver = Driver::new(handler(|_, _| async { Err("no".to_string()) }));
    driver.turn(vec![start_by_parent("p", 3, 8)]);
    assert_eq!(failure(driver.last()), "no");
    assert_eq!(driver.orchestrator_items().len(), 1);
}
