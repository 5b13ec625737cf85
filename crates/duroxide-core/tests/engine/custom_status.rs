//! The custom status: recorded each time it is set, and carried into the next execution.

use duroxide_core::limits::MAX_CUSTOM_STATUS_BYTES;
use duroxide_core::{WorkItem, state_changes};
use expect_test::expect;

use crate::build::{handler, raised, start, start_by_parent};
use crate::driver::{Driver, check, failure, output, run};

#[test]
fn each_change_is_recorded_and_read_back_at_once() {
    let program = handler(|ctx, _| async move {
        let before = ctx.get_custom_status();
        ctx.set_custom_status("one");
        ctx.set_custom_status("two");
        let now = ctx.get_custom_status();
        ctx.schedule_wait("e").await;
        ctx.reset_custom_status();
        Ok(format!("{before:?} {now:?} {:?}", ctx.get_custom_status()))
    });
    let driver = check(
        program,
        vec![raised("e", "")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 CustomStatusUpdated { status: Some("one") }
            3 CustomStatusUpdated { status: Some("two") }
            4 ExternalSubscribed { name: "e" }
            5 <- 4 ExternalEvent { name: "e", data: "" }
            6 CustomStatusUpdated { status: None }
            7 OrchestrationCompleted { output: "None Some(\"two\") None" }
        "#]],
    );
    let change = state_changes(&driver.turns[0].events).custom_status.expect("it was set");
    assert_eq!((change.status, change.times), (Some("two"), 2), "the version counts every change");
}

#[test]
fn the_next_execution_has_the_status_without_setting_it_again() {
    let program = handler(|ctx, _| async move {
        if ctx.execution_id() == 1 {
            ctx.set_custom_status("carried");
            ctx.continue_as_new("").await?;
        }
        ctx.schedule_wait("e").await;
        Ok(format!("{:?}", ctx.get_custom_status()))
    });
    let driver = run(program, vec![]);
    let next = driver.last().orchestrator_items.clone();
    let WorkItem::ContinueAsNew { initial_custom_status, .. } = &next[0] else { panic!("{next:?}") };
    assert_eq!(initial_custom_status.as_deref(), Some("carried"));
    let mut second = driver.next_execution();
    second.turn(next);
    assert_eq!(state_changes(&second.last().events).custom_status, None, "carried is not set");
    second.turn(vec![raised("e", "")]);
    assert_eq!(output(second.last()), r#"Some("carried")"#);
}

#[test]
fn what_is_set_after_continue_as_new_has_no_effect() {
    let program = handler(|ctx, _| async move {
        ctx.set_custom_status("before");
        ctx.continue_as_new("");
        ctx.set_custom_status("after");
        ctx.schedule_wait("never").await;
        Ok(String::new())
    });
    let driver = run(program, vec![]);
    let WorkItem::ContinueAsNew { initial_custom_status, .. } = &driver.last().orchestrator_items[0] else {
        panic!("not a continue-as-new")
    };
    assert_eq!(initial_custom_status.as_deref(), Some("before"));
}

#[test]
fn a_status_at_the_limit_is_fine_and_one_above_it_fails_and_tells_the_parent_once() {
    let program = handler(|ctx, input| async move {
        let over: usize = input.parse().unwrap_or(1);
        ctx.set_custom_status("x".repeat(MAX_CUSTOM_STATUS_BYTES + over));
        Ok("fine".to_string())
    });
    let mut fits = Driver::new(program.clone());
    fits.turn(vec![start("0")]);
    assert_eq!(output(fits.last()), "fine");
    let mut driver = Driver::new(program);
    driver.turn(vec![start_by_parent("p", 1, 9)]);
    let text = failure(driver.last());
    assert_eq!(text, "Custom status size (262145 bytes) exceeds limit (262144 bytes)");
    let [WorkItem::SubOrchFailed { parent_id: 9, details, .. }] = &driver.last().orchestrator_items[..]
    else {
        panic!("the parent is told once: {:?}", driver.last().orchestrator_items)
    };
    assert_eq!(details.display_message(), text);
}
