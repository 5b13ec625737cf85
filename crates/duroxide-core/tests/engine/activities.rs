//! Activities.

use duroxide_core::{DropReason, ErrorDetails, Outcome, PoisonMessageType, WorkItem};
use expect_test::expect;

use crate::build::{cancel, completed, completed_in, failed, failed_with, handler};
use crate::driver::{check, failure, output, run};

#[test]
fn an_activity_is_scheduled_once_and_its_result_comes_back() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("Greet", "you").await });
    let driver = check(
        program,
        vec![completed(2, "hello")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "Greet", input: "you", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "hello" }
        4 OrchestrationCompleted { output: "hello" }
    "#]],
    );
    assert_eq!(output(driver.last()), "hello");
    assert_eq!(
        driver.worker_items(),
        [&WorkItem::ActivityExecute {
            instance: "i".to_string(),
            execution_id: 1,
            id: 2,
            name: "Greet".to_string(),
            input: "you".to_string(),
            session_id: None,
            tag: None,
        }]
    );
}

#[test]
fn a_failed_activity_comes_back_as_an_error_with_its_text() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_activity("A", "").await;
        Ok(format!("{first:?}"))
    });
    let driver = run(program, vec![failed(2, "no luck")]);
    assert_eq!(output(driver.last()), r#"Err("no luck")"#);
}

#[test]
fn an_error_that_the_program_returns_fails_it() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let driver = run(program, vec![failed(2, "no luck")]);
    assert_eq!(failure(driver.last()), "no luck");
}

#[test]
fn a_typed_activity_encodes_its_input_and_decodes_its_output() {
    let program = handler(|ctx, _| async move {
        let sum: u32 = ctx.schedule_activity_typed("Sum", &vec![1, 2, 3]).await?;
        let text: String = ctx.schedule_activity_typed("Echo", &"plain").await?;
        Ok(format!("{sum} {text}"))
    });
    let driver = check(
        program,
        vec![completed(2, "6"), completed(4, "plain")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "Sum", input: "[1,2,3]", session_id: None, tag: None }
        3 <- 2 ActivityCompleted { result: "6" }
        4 ActivityScheduled { name: "Echo", input: "plain", session_id: None, tag: None }
        5 <- 4 ActivityCompleted { result: "plain" }
        6 OrchestrationCompleted { output: "6 plain" }
    "#]],
    );
    assert_eq!(output(driver.last()), "6 plain");
}

#[test]
fn a_malformed_output_of_a_typed_activity_is_an_error_that_does_not_quote_it() {
    let program = handler(|ctx, _| async move {
        let sum: Result<u32, String> = ctx.schedule_activity_typed("Sum", &1).await;
        sum.map(|sum| sum.to_string())
    });
    let driver = run(program, vec![completed(2, "secret")]);
    let text = failure(driver.last());
    assert!(text.contains("u32") && !text.contains("secret"), "{text}");
}

#[test]
fn a_tag_is_recorded_and_reaches_the_worker_queue() {
    let program =
        handler(
            |ctx, _| async move { ctx.schedule_activity("A", "").with_tag("gpu").map(|result| result).await },
        );
    let driver = check(
        program,
        vec![completed(2, "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: Some("gpu") }
        3 <- 2 ActivityCompleted { result: "" }
        4 OrchestrationCompleted { output: "" }
    "#]],
    );
    let WorkItem::ActivityExecute { tag, .. } = driver.worker_items()[0] else { panic!("not an activity") };
    assert_eq!(tag.as_deref(), Some("gpu"));
}

#[test]
fn a_tag_on_anything_but_an_activity_panics() {
    for wrong in ["timer", "wait", "queue", "child", "guid", "refused child"] {
        let program = handler(move |ctx, _| async move {
            match wrong {
                "timer" => ctx.schedule_timer(std::time::Duration::ZERO).with_tag("x").await,
                "wait" => drop(ctx.schedule_wait("e").with_tag("x").await),
                "queue" => drop(ctx.dequeue_event("q").with_tag("x").await),
                "child" => drop(ctx.schedule_sub_orchestration("C", "").with_tag("x").await),
                "guid" => drop(ctx.new_guid().with_tag("x").await),
                _ => drop(ctx.schedule_sub_orchestration_with_id("C", "a::sub::b", "").with_tag("x").await),
            }
            Ok(String::new())
        });
        let driver = run(program, vec![]);
        let message = "with_tag is for activities only".to_string();
        assert_eq!(driver.last().outcome, Outcome::Panicked { message }, "{wrong}");
    }
}

#[test]
fn a_tag_after_the_activity_was_recorded_panics() {
    let program = handler(|ctx, _| async move {
        let activity = ctx.schedule_activity("A", "");
        ctx.schedule_activity("B", "").await?;
        activity.with_tag("late").await
    });
    let driver = run(program, vec![completed(3, "")]);
    assert!(
        matches!(&driver.last().outcome, Outcome::Panicked { message } if message.contains("must follow")),
        "{:?}",
        driver.last().outcome
    );
}

#[test]
fn an_activity_dropped_in_a_later_turn_is_cancelled_and_its_result_no_longer_wanted() {
    let program = handler(|ctx, _| async move {
        let slow = ctx.schedule_activity("Slow", "");
        let fast = ctx.schedule_activity("Fast", "").await?;
        drop(slow);
        ctx.schedule_activity("Last", fast).await
    });
    let driver = check(
        program,
        vec![completed(3, "f"), completed(2, "late"), completed(6, "l")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "Slow", input: "", session_id: None, tag: None }
            3 ActivityScheduled { name: "Fast", input: "", session_id: None, tag: None }
            4 <- 3 ActivityCompleted { result: "f" }
            5 <- 2 ActivityCancelRequested { reason: "dropped_future" }
            6 ActivityScheduled { name: "Last", input: "f", session_id: None, tag: None }
            7 <- 6 ActivityCompleted { result: "l" }
            8 OrchestrationCompleted { output: "l" }
        "#]],
    );
    assert_eq!(driver.turns[2].dropped, [DropReason::Cancelled]);
    let cancelled: Vec<u64> =
        driver.turns.iter().flat_map(|turn| &turn.cancelled_activities).map(|id| id.activity_id).collect();
    assert_eq!(cancelled, [2]);
}

#[test]
fn an_activity_scheduled_and_dropped_in_one_turn_never_reaches_a_worker() {
    let program = handler(|ctx, _| async move {
        drop(ctx.schedule_activity("Never", ""));
        ctx.schedule_activity("Once", "").await
    });
    let driver = run(program, vec![completed(4, "")]);
    assert_eq!(driver.worker_items().len(), 1);
    assert_eq!(driver.turns[0].cancelled_activities.len(), 1);
}

#[test]
fn a_completed_activity_that_is_dropped_unread_leaves_no_event() {
    let program = handler(|ctx, _| async move {
        let unread = ctx.schedule_activity("A", "");
        ctx.schedule_activity("B", "").await?;
        drop(unread);
        ctx.schedule_activity("C", "").await
    });
    check(
        program,
        vec![completed(2, "a"), completed(3, "b"), completed(6, "c")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 ActivityScheduled { name: "B", input: "", session_id: None, tag: None }
        4 <- 2 ActivityCompleted { result: "a" }
        5 <- 3 ActivityCompleted { result: "b" }
        6 ActivityScheduled { name: "C", input: "", session_id: None, tag: None }
        7 <- 6 ActivityCompleted { result: "c" }
        8 OrchestrationCompleted { output: "c" }
    "#]],
    );
}

#[test]
fn a_redelivered_completion_or_failure_is_dropped_as_a_duplicate() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_activity("A", "").await;
        ctx.schedule_wait("end").await;
        Ok(format!("{first:?}"))
    });
    for (message, repeated) in [
        (completed(2, "a"), completed(2, "b")),
        (completed(2, "a"), failed(2, "b")),
        (failed(2, "a"), failed(2, "a")),
        (failed(2, "a"), completed(2, "a")),
    ] {
        let driver = run(program.clone(), vec![message, repeated]);
        assert_eq!(driver.last().outcome, Outcome::Waiting);
        assert_eq!(driver.last().dropped, [DropReason::Duplicate]);
        assert_eq!(driver.last().events, []);
    }
}

#[test]
fn a_completion_of_another_execution_is_dropped() {
    let program = handler(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let driver = run(program, vec![completed_in(7, 2, "old"), completed_in(7, 99, "old")]);
    assert_eq!(driver.turns[1].dropped, [DropReason::StaleExecution]);
    assert_eq!(driver.last().dropped, [DropReason::StaleExecution]);
}

#[test]
fn a_poisoned_activity_fails_its_orchestration_with_the_poison_details() {
    let poison = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Activity {
            instance: "i".to_string(),
            execution_id: 1,
            activity_name: "A".to_string(),
            activity_id: 2,
        },
        message: "{}".to_string(),
    };
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await.ok();
        Ok("never".to_string())
    });
    let driver = run(program, vec![failed_with(2, poison.clone()), cancel("late")]);
    assert_eq!(driver.turns[1].outcome, Outcome::Failed { details: poison });
    assert_eq!(driver.last().outcome, Outcome::AlreadyEnded);
}
