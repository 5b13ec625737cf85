//! Positional events: the Nth wait for a name gets the Nth event of that name.

use std::panic::AssertUnwindSafe;

use duroxide_core::Outcome;
use expect_test::expect;
use futures::FutureExt;

use crate::build::{completed, handler, raised, start};
use crate::driver::{Driver, check, output, run};

#[test]
fn an_event_goes_to_the_wait_that_is_there() {
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait("go").await) });
    check(
        program,
        vec![raised("other", "x"), raised("go", "now")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ExternalSubscribed { name: "go" }
        3 ExternalEvent { name: "other", data: "x" }
        4 <- 2 ExternalEvent { name: "go", data: "now" }
        5 OrchestrationCompleted { output: "now" }
    "#]],
    );
}

#[test]
fn an_event_that_comes_before_its_wait_goes_to_the_next_wait_of_its_name() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        Ok(ctx.schedule_wait("go").await)
    });
    let driver = check(
        program,
        vec![raised("go", "early"), completed(2, "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 ExternalEvent { name: "go", data: "early" }
        4 <- 2 ActivityCompleted { result: "" }
        5 ExternalSubscribed { name: "go" }
        6 OrchestrationCompleted { output: "early" }
    "#]],
    );
    assert_eq!(output(driver.last()), "early");
}

#[test]
fn an_event_that_comes_before_the_start_is_not_lost() {
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait("go").await) });
    let mut driver = Driver::new(program);
    driver.turn(vec![raised("go", "before the start"), start("")]);
    assert_eq!(output(driver.last()), "before the start");
}

#[test]
fn without_a_start_nothing_is_done() {
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait("go").await) });
    let mut driver = Driver::new(program);
    let turn = driver.turn(vec![raised("go", "x")]);
    assert_eq!(turn.outcome, Outcome::NotStarted);
    assert_eq!((turn.events.len(), turn.dropped.len()), (0, 0));
}

#[test]
fn the_nth_wait_gets_the_nth_event_however_they_are_awaited() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_wait("e");
        let second = ctx.schedule_wait("e");
        let third = ctx.schedule_wait("e");
        let (third, first, second) = ctx.join3(third, first, second).await;
        Ok(format!("{first}{second}{third}"))
    });
    let driver = run(program, vec![raised("e", "1"), raised("e", "2"), raised("e", "3")]);
    assert_eq!(output(driver.last()), "123");
}

#[test]
fn a_dropped_wait_gives_its_place_back() {
    let program = handler(|ctx, _| async move {
        let dropped = ctx.schedule_wait("e");
        ctx.schedule_activity("A", "").await?;
        drop(dropped);
        Ok(ctx.schedule_wait("e").await)
    });
    let driver = check(
        program,
        vec![completed(3, ""), raised("e", "1")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ExternalSubscribed { name: "e" }
        3 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        4 <- 3 ActivityCompleted { result: "" }
        5 <- 2 ExternalSubscribedCancelled { reason: "dropped_future" }
        6 ExternalSubscribed { name: "e" }
        7 <- 6 ExternalEvent { name: "e", data: "1" }
        8 OrchestrationCompleted { output: "1" }
    "#]],
    );
    assert_eq!(output(driver.last()), "1");
}

#[test]
fn an_event_that_was_delivered_and_dropped_unread_goes_to_the_next_wait() {
    let program = handler(|ctx, _| async move {
        let unread = ctx.schedule_wait("e");
        ctx.schedule_activity("A", "").await?;
        drop(unread);
        let first = ctx.schedule_wait("e").await;
        let second = ctx.schedule_wait("e").await;
        Ok(format!("{first}{second}"))
    });
    let driver = check(
        program,
        vec![raised("e", "1"), raised("e", "2"), completed(3, "")],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ExternalSubscribed { name: "e" }
        3 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        4 <- 2 ExternalEvent { name: "e", data: "1" }
        5 ExternalEvent { name: "e", data: "2" }
        6 <- 3 ActivityCompleted { result: "" }
        7 <- 2 ExternalSubscribedCancelled { reason: "dropped_future" }
        8 ExternalSubscribed { name: "e" }
        9 ExternalSubscribed { name: "e" }
        10 OrchestrationCompleted { output: "12" }
    "#]],
    );
    assert_eq!(output(driver.last()), "12");
}

#[test]
fn an_event_given_back_goes_to_the_oldest_wait_that_is_still_there() {
    let program = handler(|ctx, _| async move {
        let unread = ctx.schedule_wait("e");
        let other = ctx.schedule_wait("e");
        ctx.schedule_activity("A", "").await?;
        drop(unread);
        Ok(other.await)
    });
    let driver = run(program, vec![raised("e", "1"), completed(4, "")]);
    assert_eq!(output(driver.last()), "1");
}

#[test]
fn a_wait_scheduled_and_dropped_in_one_turn_does_not_eat_an_early_event() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        drop(ctx.schedule_wait("e"));
        Ok(ctx.schedule_wait("e").await)
    });
    let driver = run(program, vec![raised("e", "1"), completed(2, "")]);
    assert_eq!(output(driver.last()), "1");
}

#[test]
fn a_malformed_payload_of_a_typed_wait_can_be_caught_where_it_is_awaited() {
    let program = handler(|ctx, _| async move {
        let number = AssertUnwindSafe(ctx.schedule_wait_typed::<u32>("n")).catch_unwind().await;
        let second = ctx.schedule_wait_typed::<u32>("n").await;
        Ok(format!("{} {second}", number.is_err()))
    });
    let driver = run(program, vec![raised("n", "not a number"), raised("n", "7")]);
    assert_eq!(output(driver.last()), "true 7");
}

#[test]
fn a_malformed_payload_that_nobody_catches_fails_without_quoting_it() {
    let program = handler(|ctx, _| async move { Ok(ctx.schedule_wait_typed::<u32>("n").await.to_string()) });
    let driver = run(program, vec![raised("n", "secret")]);
    let Outcome::Panicked { message } = &driver.last().outcome else { panic!("it did not panic") };
    assert!(message.starts_with("malformed event: ") && !message.contains("secret"), "{message}");
}

#[test]
fn a_panic_inside_map_can_be_caught_and_leaves_the_context_usable() {
    let program = handler(|ctx, _| async move {
        let mapped = ctx.schedule_activity("A", "").map(|_| -> String { panic!("in map") });
        let caught = AssertUnwindSafe(mapped).catch_unwind().await.is_err();
        let after = ctx.schedule_activity("B", "").await?;
        Ok(format!("{caught} {after}"))
    });
    let driver = run(program, vec![completed(2, "a"), completed(4, "b")]);
    assert_eq!(output(driver.last()), "true b");
}
