//! Timers.

use std::time::Duration;

use duroxide_core::{DropReason, Either2, WorkItem};
use expect_test::expect;

use crate::build::{completed, fired, handler};
use crate::driver::{check, output, run};

#[test]
fn a_timer_is_due_at_the_time_of_its_turn_and_its_delay() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_timer(Duration::from_secs(3)).await;
        Ok("woke".to_string())
    });
    let driver = check(
        program,
        vec![fired(2)],
        expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 TimerCreated { fire_at_ms: 5000 }
        3 <- 2 TimerFired { fire_at_ms: 5000 }
        4 OrchestrationCompleted { output: "woke" }
    "#]],
    );
    let due = WorkItem::TimerFired { instance: "i".to_string(), execution_id: 1, id: 2, fire_at_ms: 5_000 };
    assert_eq!(driver.orchestrator_items(), [&due]);
}

#[test]
fn a_timer_that_lost_is_cancelled_and_its_firing_dropped() {
    let program = handler(|ctx, _| async move {
        let timeout = ctx.schedule_timer(Duration::from_secs(3));
        match ctx.select2(ctx.schedule_activity("A", ""), timeout).await {
            Either2::First(result) => ctx.schedule_activity("B", result?).await,
            Either2::Second(()) => Ok("timeout".to_string()),
        }
    });
    let driver = check(
        program,
        vec![completed(3, "a"), fired(2), completed(6, "b")],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 TimerCreated { fire_at_ms: 5000 }
            3 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
            4 <- 3 ActivityCompleted { result: "a" }
            5 <- 2 TimerCancelled { reason: "dropped_future" }
            6 ActivityScheduled { name: "B", input: "a", session_id: None, tag: None }
            7 <- 6 ActivityCompleted { result: "b" }
            8 OrchestrationCompleted { output: "b" }
        "#]],
    );
    assert_eq!(driver.turns[2].dropped, [DropReason::Cancelled]);
}

#[test]
fn a_timer_that_is_not_wanted_after_its_turn_never_reaches_the_queue() {
    let cancelled = handler(|ctx, _| async move {
        drop(ctx.schedule_timer(Duration::from_secs(3)));
        ctx.schedule_activity("A", "").await
    });
    assert_eq!(run(cancelled, vec![]).orchestrator_items(), Vec::<&WorkItem>::new());
    let ended = handler(|ctx, _| async move {
        std::mem::forget(ctx.schedule_timer(Duration::from_secs(3)));
        Ok(String::new())
    });
    assert_eq!(run(ended, vec![]).orchestrator_items(), Vec::<&WorkItem>::new());
}

#[test]
fn the_longest_timer_fits_into_a_stored_time() {
    let program = handler(|ctx, _| async move {
        ctx.schedule_timer(Duration::MAX).await;
        Ok(String::new())
    });
    let driver = run(program, vec![]);
    let WorkItem::TimerFired { fire_at_ms, .. } = driver.orchestrator_items()[0] else { panic!("no timer") };
    assert!(i64::try_from(*fire_at_ms).is_ok());
}

#[test]
fn two_timers_fire_in_any_order() {
    let program = handler(|ctx, _| async move {
        let first = ctx.schedule_timer(Duration::from_secs(1)).map(|()| "first");
        let second = ctx.schedule_timer(Duration::from_secs(2)).map(|()| "second");
        let (index, word) = ctx.select2(first, second).await.into_tuple();
        Ok(format!("{index} {word}"))
    });
    assert_eq!(output(run(program.clone(), vec![fired(2)]).last()), "0 first");
    assert_eq!(output(run(program, vec![fired(3)]).last()), "1 second");
}
