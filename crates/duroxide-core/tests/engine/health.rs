//! What a history waits for is queued somewhere, or it is found.

use std::time::Duration;

use duroxide_core::health::{Diagnosis, QueuedFor, QueuedMessage, diagnose};
use duroxide_core::{EventKind, ItemKind, WorkItem, columns_of};

use crate::build::{completed, handler, raised, start};
use crate::driver::{Driver, output};

/// Schedules an activity, a timer and a child, and waits for them and for an event.
fn driver() -> Driver {
    let mut driver = Driver::new(handler(|ctx, _| async move {
        let activity = ctx.schedule_activity("A", "");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        let child = ctx.schedule_sub_orchestration("C", "");
        ctx.schedule_wait("e").await;
        activity.await?;
        timer.await;
        child.await
    }));
    driver.turn(vec![start("")]);
    driver
}

fn message(kind: ItemKind, event_id: u64) -> QueuedMessage {
    QueuedMessage { kind, execution_id: Some(1), event_id: Some(event_id) }
}

fn queued(work: &[u64], messages: Vec<QueuedMessage>) -> QueuedFor {
    QueuedFor {
        execution_id: 1,
        last_event_id: 5,
        is_locked: false,
        work: work.iter().map(|id| (1, *id)).collect(),
        messages,
    }
}

#[test]
fn what_is_queued_or_answered_is_not_missing() {
    let history = driver().history;
    let timer = message(ItemKind::Timer, 3);
    for queued in [
        queued(&[2], vec![timer, message(ItemKind::Completion, 4)]),
        queued(&[], vec![timer, message(ItemKind::Completion, 2), message(ItemKind::Completion, 4)]),
    ] {
        assert_eq!(diagnose(&history, &queued), Diagnosis::default());
    }
}

#[test]
fn what_is_queued_nowhere_is_found_in_the_form_that_is_queued() {
    let driver = driver();
    let found = diagnose(&driver.history, &queued(&[], vec![]));
    let sent: Vec<&WorkItem> = driver.worker_items().into_iter().chain(driver.orchestrator_items()).collect();
    let missing: Vec<&WorkItem> = found.missing.iter().chain(&found.children).collect();
    assert_eq!(missing, sent, "as the turn had queued them");
    assert!(!found.waits_for_nothing, "it waits for an event as well");
}

#[test]
fn work_that_nobody_waits_for_is_an_orphan() {
    let mut driver = driver();
    driver.turn(vec![completed(2, "")]);
    let timer = message(ItemKind::Timer, 3);
    let found = diagnose(&driver.history, &queued(&[2, 9], vec![timer, message(ItemKind::Completion, 4)]));
    assert_eq!(found.orphans, [(1, 2), (1, 9)]);
    assert!(found.missing.is_empty());
}

#[test]
fn a_program_that_waits_for_nothing_durable_is_found() {
    let mut driver = Driver::new(handler(|ctx, _| async move {
        ctx.schedule_wait("e").await;
        std::future::pending().await
    }));
    driver.turn(vec![start("")]);
    assert!(!diagnose(&driver.history, &queued(&[], vec![])).waits_for_nothing);
    driver.turn(vec![raised("e", "")]);
    assert!(diagnose(&driver.history, &queued(&[], vec![])).waits_for_nothing);
    assert!(!diagnose(&driver.history, &queued(&[], vec![message(ItemKind::Event, 0)])).waits_for_nothing);
}

#[test]
fn an_instance_that_nothing_begins_is_found() {
    assert!(diagnose(&[], &queued(&[], vec![])).never_starts);
    assert!(diagnose(&[], &queued(&[], vec![message(ItemKind::Event, 0)])).never_starts);
    assert_eq!(diagnose(&[], &queued(&[], vec![message(ItemKind::Start, 0)])), Diagnosis::default());
}

#[test]
fn nothing_is_said_about_a_turn_under_way_or_an_execution_that_has_ended() {
    let locked = QueuedFor { is_locked: true, ..queued(&[], vec![]) };
    assert_eq!(diagnose(&driver().history, &locked), Diagnosis::default());
    let mut ended = Driver::new(handler(|ctx, _| async move { ctx.schedule_activity("A", "").await }));
    ended.turn(vec![start("")]);
    ended.turn(vec![completed(2, "done")]);
    assert_eq!(output(ended.last()), "done");
    assert_eq!(diagnose(&ended.history, &queued(&[], vec![])), Diagnosis::default());
}

#[test]
fn a_repair_is_recorded_and_changes_nothing_else() {
    let mut driver = driver();
    let note = WorkItem::Repaired { instance: "i".to_string(), put_back: 2, by: "ops".to_string(), at_ms: 5 };
    assert_eq!(columns_of(&note).kind, ItemKind::Note);
    driver.turn(vec![note]);
    let last = driver.last();
    assert!(
        matches!(last.events[..], [ref event] if matches!(event.kind, EventKind::OrchestrationRepaired { put_back: 2, .. }))
    );
    assert!(last.worker_items.is_empty() && last.orchestrator_items.is_empty());
}
