//! Children and detached starts.

use duroxide_core::{DropReason, Outcome, WorkItem};
use expect_test::expect;

use crate::build::{child_completed, child_failed, completed, handler, queued, start, start_by_parent};
use crate::driver::{Driver, check, failure, output, run};

fn starts(driver: &Driver) -> Vec<(String, Option<String>, Option<u64>)> {
    let mut found = Vec::new();
    for item in driver.orchestrator_items() {
        if let WorkItem::StartOrchestration { instance, version, parent_id, .. } = item {
            found.push((instance.clone(), version.clone(), *parent_id));
        }
    }
    found
}

#[test]
fn a_child_gets_an_id_from_its_parent_and_its_schedule() {
    let program = handler(|ctx, _| async move { ctx.schedule_sub_orchestration("Child", "in").await });
    let driver = check(
        program,
        vec![child_completed(2, "out")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 SubOrchestrationScheduled { name: "Child", instance: "sub::2", input: "in" }
            3 <- 2 SubOrchestrationCompleted { result: "out" }
            4 OrchestrationCompleted { output: "out" }
        "#]],
    );
    assert_eq!(output(driver.last()), "out");
    assert_eq!(starts(&driver), [("i::sub::2".to_string(), None, Some(2))]);
}

#[test]
fn from_execution_2_on_a_childs_id_names_the_execution_as_well() {
    let program = handler(|ctx, input| async move {
        if input.is_empty() {
            ctx.continue_as_new("again").await?;
        }
        ctx.schedule_sub_orchestration("Child", "").await
    });
    let first = run(program, vec![]);
    let mut second = first.next_execution();
    second.turn(first.last().orchestrator_items.clone());
    assert_eq!(starts(&second), [("i::sub::2_2".to_string(), None, Some(2))]);
}

#[test]
fn a_failed_child_comes_back_as_an_error_with_its_text() {
    let program =
        handler(
            |ctx, _| async move { Ok(format!("{:?}", ctx.schedule_sub_orchestration("Child", "").await)) },
        );
    let driver = run(program, vec![child_failed(2, "broken")]);
    assert_eq!(output(driver.last()), r#"Err("broken")"#);
}

#[test]
fn a_child_with_an_id_and_a_version_records_both() {
    let program = handler(|ctx, _| async move {
        let version = Some("2.1.0".to_string());
        let child = ctx.schedule_sub_orchestration_versioned_with_id("Child", version, "mine", "in");
        let typed = ctx.schedule_sub_orchestration_with_id_typed::<_, u32>("Child", "typed", &1);
        ctx.schedule_orchestration_versioned("Other", Some("3.0.0".to_string()), "apart", "");
        let (child, typed) = ctx.join2(child, typed).await;
        Ok(format!("{child:?} {typed:?}"))
    });
    let driver = check(
        program,
        vec![child_completed(4, "5"), child_completed(2, "x")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 SubOrchestrationScheduled { name: "Child", instance: "mine", input: "in" }
        3 <- 2 VersionRequested { version: "2.1.0" }
        4 SubOrchestrationScheduled { name: "Child", instance: "typed", input: "1" }
        5 OrchestrationChained { name: "Other", instance: "apart", input: "" }
        6 <- 5 VersionRequested { version: "3.0.0" }
        7 <- 4 SubOrchestrationCompleted { result: "5" }
        8 <- 2 SubOrchestrationCompleted { result: "x" }
        9 OrchestrationCompleted { output: "Ok(\"x\") Ok(5)" }
    "#]],
    );
    let version = |text: &str| Some(text.to_string());
    assert_eq!(
        starts(&driver),
        [
            ("mine".to_string(), version("2.1.0"), Some(2)),
            ("typed".to_string(), None, Some(4)),
            ("apart".to_string(), version("3.0.0"), None),
        ]
    );
}

#[test]
fn a_child_id_with_the_reserved_marker_fails_the_call_and_creates_nothing() {
    for id in ["sub::1", "a::sub::b"] {
        let program = handler(move |ctx, _| async move {
            let refused = ctx.schedule_sub_orchestration_with_id("Child", id, "").await;
            ctx.schedule_activity("A", refused.expect_err("the id is refused")).await
        });
        let driver = run(program, vec![]);
        assert_eq!(starts(&driver), []);
        let WorkItem::ActivityExecute { input, .. } = driver.worker_items()[0] else { panic!("no activity") };
        assert!(input.contains("reserved marker"), "{input}");
    }
}

#[test]
fn a_child_version_that_is_none_fails_the_call() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_sub_orchestration_versioned("Child", Some("new".to_string()), "").await
    });
    assert!(failure(run(program, vec![]).last()).contains("not valid semver"));
}

#[test]
fn a_detached_start_with_the_reserved_marker_fails_the_orchestration() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_orchestration("Other", "a::sub::b", "");
        Ok("never".to_string())
    });
    let driver = run(program, vec![]);
    assert!(failure(driver.last()).contains("reserved sub-orchestration marker"));
    assert_eq!(starts(&driver), []);
}

#[test]
fn a_dropped_child_is_cancelled_with_the_reason() {
    let program = handler(|ctx, _| async move {
        let child = ctx.schedule_sub_orchestration("Child", "");
        ctx.schedule_activity("A", "").await?;
        drop(child);
        ctx.schedule_activity("B", "").await
    });
    let driver = check(
        program,
        vec![completed(3, ""), child_completed(2, "late")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 SubOrchestrationScheduled { name: "Child", instance: "sub::2", input: "" }
            3 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
            4 <- 3 ActivityCompleted { result: "" }
            5 <- 2 SubOrchestrationCancelRequested { reason: "dropped_future" }
            6 ActivityScheduled { name: "B", input: "", session_id: None, tag: None }
        "#]],
    );
    assert_eq!(driver.last().dropped, [DropReason::Cancelled]);
    let cancel = WorkItem::CancelInstance {
        instance: "i::sub::2".to_string(),
        reason: "parent dropped sub-orchestration future".to_string(),
    };
    assert_eq!(driver.turns[1].orchestrator_items, [cancel]);
}

fn collision(parent_id: u64) -> WorkItem {
    let WorkItem::SubOrchFailed { details, .. } =
        child_failed(parent_id, "sub-orchestration instance id 'i' already exists")
    else {
        unreachable!("the builder builds a failure")
    };
    WorkItem::SubOrchFailed { parent_instance: "p".to_string(), parent_execution_id: 3, parent_id, details }
}

#[test]
fn a_colliding_child_start_is_answered_while_the_instance_runs() {
    let program = handler(|ctx, _| async move { Ok(ctx.dequeue_event("q").await) });
    let driver = run(program, vec![start_by_parent("p", 3, 8), start("again")]);
    assert_eq!(driver.turns[1].orchestrator_items, [collision(8)]);
    assert_eq!(driver.turns[1].dropped, [DropReason::AlreadyStarted]);
    assert_eq!(driver.turns[2].orchestrator_items, []);
}

#[test]
fn a_colliding_child_start_is_answered_when_the_instance_ends_in_the_same_turn() {
    let program = handler(|ctx, _| async move { Ok(ctx.dequeue_event("q").await) });
    let mut driver = Driver::new(program);
    driver.turn(vec![start(""), queued("q", ""), start_by_parent("p", 3, 8)]);
    assert_eq!(driver.last().orchestrator_items, [collision(8)]);
    assert_eq!(driver.last().dropped, [DropReason::AfterEnd]);
}

#[test]
fn a_colliding_child_start_is_answered_after_the_instance_has_ended() {
    let driver = run(handler(|_, _| async { Ok(String::new()) }), vec![start_by_parent("p", 3, 8)]);
    assert_eq!(driver.last().outcome, Outcome::AlreadyEnded);
    assert_eq!(driver.last().orchestrator_items, [collision(8)]);
}

#[test]
fn a_colliding_child_start_does_not_start_the_next_execution() {
    let program = handler(|ctx, input| async move {
        match input.as_str() {
            "" => ctx.continue_as_new("second").await,
            _ => Ok(input + &ctx.dequeue_event("q").await),
        }
    });
    let first = run(program, vec![]);
    let mut second = first.next_execution();
    let next = first.last().orchestrator_items.iter().cloned();
    second.turn(std::iter::once(start_by_parent("p", 3, 8)).chain(next).collect());
    assert_eq!(second.last().orchestrator_items, [collision(8)]);
    second.turn(vec![queued("q", "!")]);
    assert_eq!(output(second.last()), "second!");
}

#[test]
fn the_same_parents_repeated_start_gets_no_answer() {
    let program = handler(|ctx, _| async move { Ok(ctx.dequeue_event("q").await) });
    let mut driver = Driver::new(program);
    driver.turn(vec![start_by_parent("p", 3, 8), start_by_parent("p", 3, 8)]);
    assert_eq!(driver.last().orchestrator_items, []);
}

#[test]
fn a_child_tells_its_parent_its_result_or_its_failure_once() {
    for (result, is_failure) in [(Ok("o".to_string()), false), (Err("e".to_string()), true)] {
        let program = handler(move |_, _| {
            let result = result.clone();
            async move { result }
        });
        let mut driver = Driver::new(program);
        driver.turn(vec![start_by_parent("p", 3, 8)]);
        driver.turn(vec![start_by_parent("p", 3, 8), queued("q", "")]);
        let told = driver.orchestrator_items();
        assert_eq!(told.len(), 1);
        assert_eq!(matches!(told[0], WorkItem::SubOrchFailed { .. }), is_failure);
        assert_eq!(told[0].instance(), "p");
    }
}
