//! The messages that a history holds and the program has not read: as many as the program itself sees.

use std::sync::Arc;

use duroxide_core::{EventKind, OrchestrationContext, OrchestrationHandler, WorkItem, unread_messages};

use crate::build::{completed_in, handler, queued, raised, start};
use crate::driver::Driver;

/// Reads one message, drops two waits (one that has got a message, one that has not), and reads again. After each
/// step it says what it sees, while it waits for activities alone.
fn reader() -> Arc<dyn OrchestrationHandler> {
    async fn say(ctx: &OrchestrationContext) -> Result<(), String> {
        ctx.schedule_activity("A", "").await?;
        let pending = ctx.get_system_stats().expect("always there").queue_pending_count;
        ctx.set_custom_status(pending.to_string());
        ctx.schedule_activity("B", "").await.map(drop)
    }
    handler(|ctx, input| async move {
        say(&ctx).await?;
        ctx.dequeue_event("q").await;
        say(&ctx).await?;
        drop((ctx.dequeue_event("q"), ctx.dequeue_event("empty")));
        say(&ctx).await?;
        ctx.schedule_wait("e").await;
        say(&ctx).await?;
        if input.is_empty() { ctx.continue_as_new("again").await } else { Ok(input) }
    })
}

/// Answers the activity of this name that was scheduled last.
fn answer(driver: &mut Driver, name: &str) {
    let is_it =
        |kind: &EventKind| matches!(kind, EventKind::ActivityScheduled { name: of, .. } if of == name);
    let scheduled = driver.history.iter().rev().find(|event| is_it(&event.kind)).expect("it waits");
    let item = completed_in(scheduled.execution_id, scheduled.event_id, "");
    driver.turn(vec![item]);
}

/// Lets the program say what it sees.
fn said(driver: &mut Driver) -> u64 {
    answer(driver, "A");
    let said = driver.history.iter().rev().find_map(|event| {
        let EventKind::CustomStatusUpdated { status } = &event.kind else { return None };
        status.clone()
    });
    said.expect("it has said something").parse().expect("a number")
}

#[test]
fn a_history_has_as_many_unread_messages_as_the_program_sees() {
    let mut driver = Driver::new(reader());
    driver.turn(vec![start(""), queued("q", "1"), queued("q", "2"), queued("other", "3"), raised("e", "4")]);
    for expected in [4, 3, 3, 2] {
        assert_eq!(said(&mut driver), expected);
        assert_eq!(unread_messages(&driver.history), expected, "{}", driver.render_history());
        answer(&mut driver, "B");
    }
    assert_eq!(unread_messages(&driver.history), 0, "the execution has ended");
    let next =
        driver.last().orchestrator_items.iter().find(|item| matches!(item, WorkItem::ContinueAsNew { .. }));
    let next = next.expect("it continues").clone();
    assert_eq!(duroxide_core::carried_messages(&next), 2);
    let mut second = driver.next_execution();
    second.turn(vec![next]);
    assert_eq!(said(&mut second), 2, "what was carried");
    assert_eq!(unread_messages(&second.history), 2);
}
