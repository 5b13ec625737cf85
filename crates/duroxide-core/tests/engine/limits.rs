//! Limits: at the limit is fine, above it the execution fails, and what is recorded is never judged again.

use std::sync::Arc;

use duroxide_core::limits::{
    MAX_INSTANCE_ID_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, MAX_SCHEDULES_PER_TURN, MAX_TAG_NAME_BYTES,
};
use duroxide_core::{AppErrorKind, ErrorDetails, EventKind, OrchestrationHandler, Outcome, WorkItem};

use crate::build::{handler, history, start, start_by_parent};
use crate::driver::{Driver, failure, run, run_once};

fn tagged(bytes: usize) -> Arc<dyn OrchestrationHandler> {
    handler(move |ctx, _| async move { ctx.schedule_activity("A", "").with_tag("t".repeat(bytes)).await })
}

#[test]
fn a_limit_violation_in_a_child_tells_its_parent_once_with_one_terminal_event() {
    let mut driver = Driver::new(tagged(MAX_TAG_NAME_BYTES + 1));
    driver.turn(vec![start_by_parent("p", 3, 8)]);
    driver.turn(vec![start_by_parent("p", 3, 8)]);
    assert_eq!(driver.history.iter().filter(|event| event.is_terminal()).count(), 1);
    let [WorkItem::SubOrchFailed { parent_instance, parent_execution_id: 3, parent_id: 8, details }] =
        &driver.orchestrator_items()[..]
    else {
        panic!("not told once: {:?}", driver.orchestrator_items())
    };
    assert_eq!(parent_instance, "p");
    let ErrorDetails::Application { kind: AppErrorKind::OrchestrationFailed, message, retryable: false } =
        details
    else {
        panic!("not an application error: {details:?}")
    };
    assert!(message.starts_with("Activity 'A' tag size (257 bytes) exceeds limit ("), "{message}");
}

#[test]
fn at_the_limit_is_fine() {
    assert_eq!(run(tagged(MAX_TAG_NAME_BYTES), vec![]).last().outcome, Outcome::Waiting);
    let name = handler(|ctx, _| async move { ctx.schedule_activity("n".repeat(MAX_NAME_BYTES), "").await });
    assert_eq!(run(name, vec![]).last().outcome, Outcome::Waiting);
}

#[test]
fn what_is_above_a_limit_fails_with_a_text_that_names_it() {
    let program = handler(|ctx, input| async move {
        let large = || "x".repeat(MAX_PAYLOAD_BYTES + 1);
        let long = "n".repeat(MAX_NAME_BYTES + 1);
        match input.as_str() {
            "activity input" => ctx.schedule_activity("A", large()).await,
            "activity name" => ctx.schedule_activity(long, "").await,
            "empty name" => ctx.schedule_activity(" ", "").await,
            "event name" => Ok(ctx.schedule_wait(long).await),
            "queue name" => Ok(ctx.dequeue_event(long).await),
            "child input" => ctx.schedule_sub_orchestration("C", large()).await,
            "child name" => ctx.schedule_sub_orchestration(long, "").await,
            "child id" => {
                ctx.schedule_sub_orchestration_with_id("C", "i".repeat(MAX_INSTANCE_ID_BYTES + 1), "").await
            }
            "detached input" => {
                ctx.schedule_orchestration("O", "apart", large());
                Ok(String::new())
            }
            "next input" => ctx.continue_as_new(large()).await,
            "output" => Ok(large()),
            "error" => Err(large()),
            "NUL tag" => ctx.schedule_activity("A", "").with_tag("a\0b").await,
            _ => std::panic::resume_unwind(Box::new(large())),
        }
    });
    for (case, word) in [
        ("activity input", "input of activity 'A' ("),
        ("activity name", "activity name (513 bytes)"),
        ("empty name", "activity name is empty"),
        ("event name", "event name (513 bytes)"),
        ("queue name", "queue name (513 bytes)"),
        ("child input", "input of sub-orchestration 'C' ("),
        ("child name", "orchestration name (513 bytes)"),
        ("child id", "sub-orchestration instance id (1025 bytes)"),
        ("detached input", "input of orchestration 'O' ("),
        ("next input", "input of continue_as_new ("),
        ("output", "orchestration output ("),
        ("error", "orchestration error ("),
        ("NUL tag", "contains a NUL character"),
    ] {
        let mut driver = Driver::new(program.clone());
        driver.turn(vec![start(case)]);
        let text = failure(driver.last());
        assert!(text.starts_with(word) || text.ends_with(&format!("{word}: remove it")), "{case}: {text}");
        assert!(text.len() < 200, "{case}: the text has {} bytes", text.len());
    }
    let mut driver = Driver::new(program);
    driver.turn(vec![start("panic")]);
    let Outcome::Panicked { message } = &driver.last().outcome else { panic!("it did not panic") };
    assert!(message.starts_with("panic text (8388609 bytes) exceeds limit"), "{message}");
}

#[test]
fn more_things_in_one_turn_than_the_limit_fail_clearly() {
    let program = handler(|ctx, _| async move {
        for n in 0..=MAX_SCHEDULES_PER_TURN {
            ctx.schedule_orchestration("O", format!("o-{n}"), "");
        }
        Ok(String::new())
    });
    let result = run_once(program, &[], vec![start("")]);
    assert!(failure(&result.turn).starts_with("things scheduled in one turn (200001) exceeds limit"));
}

#[test]
fn what_is_recorded_is_replayed_although_a_limit_was_lowered_since() {
    let long = "n".repeat(10 * MAX_NAME_BYTES);
    let large = "x".repeat(2 * MAX_PAYLOAD_BYTES);
    let (name, input) = (long.clone(), large.clone());
    let program = handler(move |ctx, _| {
        let (long, large) = (name.clone(), input.clone());
        async move {
            let activity = ctx.schedule_activity(long.clone(), large.clone()).with_tag(long.clone());
            let wait = ctx.schedule_wait(long.clone());
            let queue = ctx.dequeue_event(long.clone());
            ctx.schedule_orchestration(long, "apart", large);
            let (result, ..) = ctx.join3(activity, wait, queue).await;
            result
        }
    });
    let recorded = vec![
        (
            None,
            EventKind::ActivityScheduled {
                name: long.clone(),
                input: large.clone(),
                session_id: None,
                tag: Some(long.clone()),
            },
        ),
        (None, EventKind::ExternalSubscribed { name: long.clone() }),
        (None, EventKind::QueueSubscribed { name: long.clone() }),
        (
            None,
            EventKind::OrchestrationChained {
                name: long.clone(),
                instance: "apart".to_string(),
                input: large,
            },
        ),
    ];
    let mut driver = Driver::new(program).with_history(history(recorded));
    driver.turn(vec![]);
    assert_eq!(driver.last().outcome, Outcome::Waiting);
}
