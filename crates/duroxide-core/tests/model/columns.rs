//! What a store indexes of an item, and what appended events change besides the history.

use duroxide_core::{
    Columns, CustomStatusChange, ErrorDetails, Event, EventKind, ItemKind, KvChange, ParentLink,
    StateChanges, WhenUndecodable, WithoutInstance, WorkItem, columns_of, reply_to_colliding_start,
    state_changes,
};

const NONE: Columns<'static> = Columns {
    kind: ItemKind::Event,
    instance: "order-42",
    execution_id: None,
    event_id: None,
    due_ms: None,
    name: None,
    version: None,
    tag: None,
    session_id: None,
    parent: None,
};

fn check(item: &WorkItem, expected: &Columns<'_>) {
    assert_eq!(&columns_of(item), expected);
}

fn parent() -> ParentLink {
    ParentLink { instance: "shop".into(), execution_id: 3, event_id: 5 }
}

fn start(parent: Option<&ParentLink>) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: "order-42".into(),
        orchestration: "Order".into(),
        input: "in".into(),
        version: Some("1.2.3".into()),
        parent_instance: parent.map(|parent| parent.instance.clone()),
        parent_id: parent.map(|parent| parent.event_id),
        parent_execution_id: parent.map(|parent| parent.execution_id),
        execution_id: 1,
    }
}

#[test]
fn a_start_is_indexed_by_name_version_and_parent() {
    let expected = Columns {
        kind: ItemKind::Start,
        execution_id: Some(1),
        name: Some("Order"),
        version: Some("1.2.3"),
        parent: Some(parent()),
        ..NONE
    };
    check(&start(Some(&parent())), &expected);
    check(&start(None), &Columns { parent: None, ..expected });
}

#[test]
fn a_continue_as_new_is_indexed_like_a_start_and_keeps_the_parent() {
    let item = WorkItem::ContinueAsNew {
        instance: "order-42".into(),
        orchestration: "Order".into(),
        input: "in".into(),
        version: None,
        parent_instance: Some("shop".into()),
        parent_id: Some(5),
        parent_execution_id: Some(3),
        carry_forward_events: vec![("q".into(), "d".into())],
        initial_custom_status: Some("s".into()),
    };
    let kind = ItemKind::ContinueAsNew;
    check(&item, &Columns { kind, name: Some("Order"), parent: Some(parent()), ..NONE });
}

#[test]
fn an_activity_is_indexed_by_name_tag_and_session() {
    let item = WorkItem::ActivityExecute {
        instance: "order-42".into(),
        execution_id: 2,
        id: 7,
        name: "Charge".into(),
        input: "in".into(),
        session_id: Some("session".into()),
        tag: Some("gpu".into()),
    };
    let expected = Columns {
        kind: ItemKind::Activity,
        execution_id: Some(2),
        event_id: Some(7),
        name: Some("Charge"),
        tag: Some("gpu"),
        session_id: Some("session"),
        ..NONE
    };
    check(&item, &expected);
}

#[test]
fn a_completion_is_indexed_by_the_schedule_it_answers() {
    let (instance, parent_instance) = ("order-42".to_string(), "order-42".to_string());
    let details = ErrorDetails::orchestration_failed("x");
    let expected = Columns { kind: ItemKind::Completion, execution_id: Some(2), event_id: Some(7), ..NONE };
    let (execution_id, id, parent_execution_id, parent_id) = (2, 7, 2, 7);
    let result = "ok".to_string();
    check(
        &WorkItem::ActivityCompleted { instance: instance.clone(), execution_id, id, result: result.clone() },
        &expected,
    );
    check(
        &WorkItem::ActivityFailed { instance: instance.clone(), execution_id, id, details: details.clone() },
        &expected,
    );
    let error = "\"x\"".to_string();
    let errored = WorkItem::ActivityErrored {
        instance,
        execution_id,
        id,
        details: details.clone(),
        error: error.clone(),
        panicked: false,
    };
    check(&errored, &expected);
    check(
        &WorkItem::SubOrchCompleted {
            parent_instance: parent_instance.clone(),
            parent_execution_id,
            parent_id,
            result,
        },
        &expected,
    );
    let failed = WorkItem::SubOrchFailed {
        parent_instance: parent_instance.clone(),
        parent_execution_id,
        parent_id,
        details: details.clone(),
    };
    check(&failed, &expected);
    let errored =
        WorkItem::SubOrchErrored { parent_instance, parent_execution_id, parent_id, details, error };
    check(&errored, &expected);
}

#[test]
fn a_timer_is_indexed_by_its_due_time() {
    let item = WorkItem::TimerFired { instance: "order-42".into(), execution_id: 2, id: 7, fire_at_ms: 99 };
    let kind = ItemKind::Timer;
    check(&item, &Columns { kind, execution_id: Some(2), event_id: Some(7), due_ms: Some(99), ..NONE });
}

#[test]
fn events_messages_and_cancels_are_indexed_by_their_instance_alone() {
    let (instance, name, data) = ("order-42".to_string(), "n".to_string(), "d".to_string());
    check(
        &WorkItem::ExternalRaised { instance: instance.clone(), name: name.clone(), data: data.clone() },
        &NONE,
    );
    check(&WorkItem::QueueMessage { instance: instance.clone(), name, data }, &NONE);
    let cancel = WorkItem::CancelInstance { instance, reason: "r".into() };
    check(&cancel, &Columns { kind: ItemKind::Cancel, ..NONE });
}

#[test]
fn notes_are_facts_for_the_history() {
    let instance = "order-42".to_string();
    let begun = WorkItem::ActivityBegun { instance: instance.clone(), execution_id: 2, id: 7 };
    let columns = Columns { kind: ItemKind::Note, execution_id: Some(2), event_id: Some(7), ..NONE };
    check(&begun, &columns);
    let redriven = WorkItem::Redriven { instance, from_execution_id: 1, by: "ops".into(), at_ms: 5 };
    check(&redriven, &Columns { kind: ItemKind::Note, ..NONE });
}

#[test]
fn the_number_of_a_kind_is_forever() {
    let expected = [
        (ItemKind::Start, 1),
        (ItemKind::ContinueAsNew, 2),
        (ItemKind::Activity, 3),
        (ItemKind::Completion, 4),
        (ItemKind::Timer, 5),
        (ItemKind::Event, 6),
        (ItemKind::Cancel, 7),
        (ItemKind::Note, 8),
    ];
    for (kind, code) in expected {
        assert_eq!(kind.code(), code);
        assert_eq!(ItemKind::from_code(code), Some(kind));
    }
    for unknown in [i64::MIN, -1, 0, 9, i64::MAX] {
        assert_eq!(ItemKind::from_code(unknown), None);
    }
}

#[test]
fn without_an_instance_a_start_creates_it_events_wait_and_the_rest_is_dropped() {
    assert_eq!(ItemKind::Start.without_instance(), WithoutInstance::Create);
    assert_eq!(ItemKind::Event.without_instance(), WithoutInstance::Keep);
    for kind in [
        ItemKind::ContinueAsNew,
        ItemKind::Activity,
        ItemKind::Completion,
        ItemKind::Timer,
        ItemKind::Cancel,
        ItemKind::Note,
    ] {
        assert_eq!(kind.without_instance(), WithoutInstance::Drop, "{kind:?}");
    }
}

#[test]
fn an_instance_goes_on_without_an_undecodable_event_cancel_or_note_and_without_nothing_else() {
    for kind in [ItemKind::Event, ItemKind::Cancel, ItemKind::Note] {
        assert_eq!(kind.when_undecodable(), WhenUndecodable::SetAside, "{kind:?}");
    }
    for kind in
        [ItemKind::Start, ItemKind::ContinueAsNew, ItemKind::Activity, ItemKind::Completion, ItemKind::Timer]
    {
        assert_eq!(kind.when_undecodable(), WhenUndecodable::Poison, "{kind:?}");
    }
}

#[test]
fn a_parent_link_needs_instance_and_event_and_assumes_the_first_execution() {
    assert_eq!(ParentLink::from_fields(Some("shop"), Some(3), Some(5)), Some(parent()));
    let older = ParentLink { execution_id: 1, ..parent() };
    assert_eq!(ParentLink::from_fields(Some("shop"), None, Some(5)), Some(older));
    assert_eq!(ParentLink::from_fields(None, Some(3), Some(5)), None);
    assert_eq!(ParentLink::from_fields(Some("shop"), Some(3), None), None);
}

#[test]
fn a_colliding_start_by_another_parent_fails_there() {
    let expected = WorkItem::SubOrchFailed {
        parent_instance: "shop".into(),
        parent_execution_id: 3,
        parent_id: 5,
        details: ErrorDetails::orchestration_failed(
            "sub-orchestration instance id 'order-42' already exists",
        ),
    };
    let others = [
        ParentLink { instance: "other".into(), ..parent() },
        ParentLink { execution_id: 4, ..parent() },
        ParentLink { event_id: 6, ..parent() },
    ];
    for other in others {
        assert_eq!(reply_to_colliding_start(&start(Some(&parent())), Some(&other)), Some(expected.clone()));
    }
    assert_eq!(reply_to_colliding_start(&start(Some(&parent())), None), Some(expected));
}

#[test]
fn a_repeated_start_by_the_same_parent_or_by_a_client_is_not_answered() {
    assert_eq!(reply_to_colliding_start(&start(Some(&parent())), Some(&parent())), None);
    assert_eq!(reply_to_colliding_start(&start(None), None), None);
    assert_eq!(reply_to_colliding_start(&start(None), Some(&parent())), None);
}

fn events(kinds: Vec<EventKind>) -> Vec<Event> {
    let numbered = kinds.into_iter().zip(1..);
    numbered
        .map(|(kind, event_id)| Event::with_event_id(event_id, "i", 1, Some(40 + event_id), kind))
        .collect()
}

fn status(status: Option<&str>) -> EventKind {
    EventKind::CustomStatusUpdated { status: status.map(Into::into) }
}

#[test]
fn the_last_custom_status_counts_and_each_raises_the_version() {
    let changes = |kinds| {
        state_changes(&events(kinds)).custom_status.map(|change| (change.status.is_some(), change.times))
    };
    assert_eq!(changes(vec![]), None);
    assert_eq!(changes(vec![status(Some("a"))]), Some((true, 1)));
    assert_eq!(changes(vec![status(Some("a")), status(Some("b")), status(None)]), Some((false, 3)));
    let history = events(vec![status(None), EventKind::KeyValuesCleared, status(Some("b"))]);
    let expected = CustomStatusChange { status: Some("b"), times: 2 };
    assert_eq!(state_changes(&history).custom_status, Some(expected));
}

#[test]
fn kv_changes_keep_their_order() {
    let set =
        |value: &str| EventKind::KeyValueSet { key: "k".into(), value: value.into(), last_updated_at_ms: 9 };
    let history = events(vec![
        set("1"),
        EventKind::KeyValueCleared { key: "k".into() },
        EventKind::KeyValuesCleared,
        set("2"),
    ]);
    let set = |value| KvChange::Set { key: "k", value, last_updated_at_ms: 9 };
    let expected = vec![set("1"), KvChange::Clear { key: "k" }, KvChange::ClearAll, set("2")];
    assert_eq!(state_changes(&history), StateChanges { kv: expected, ..StateChanges::default() });
}

#[test]
fn a_cancelled_timer_gives_back_the_row_of_its_schedule() {
    let cancelled = EventKind::TimerCancelled { reason: "dropped_future".into() };
    let history = events(vec![EventKind::TimerCreated { fire_at_ms: 1 }, cancelled.clone(), cancelled]);
    let expected = StateChanges { cancelled_timers: vec![42, 43], ..StateChanges::default() };
    assert_eq!(state_changes(&history), expected);
}

#[test]
fn the_end_of_an_execution_drops_its_timers_and_a_failure_says_why() {
    let details = ErrorDetails::orchestration_failed("x");
    let failed = events(vec![EventKind::OrchestrationFailed { details: details.clone() }]);
    let expected =
        StateChanges { failure: Some(&details), drops_all_timers: true, ..StateChanges::default() };
    assert_eq!(state_changes(&failed), expected);
    for end in [
        EventKind::OrchestrationCompleted { output: "o".into() },
        EventKind::OrchestrationContinuedAsNew { input: "i".into() },
    ] {
        let expected = StateChanges { drops_all_timers: true, ..StateChanges::default() };
        assert_eq!(state_changes(&events(vec![end])), expected);
    }
}

#[test]
fn failures_inside_a_running_execution_change_nothing_outside_the_history() {
    let details = ErrorDetails::orchestration_failed("x");
    let history = events(vec![
        EventKind::ErrorRecorded { error: "1".into(), panicked: false },
        EventKind::ActivityFailed { details: details.clone() },
        EventKind::SubOrchestrationFailed { details },
        EventKind::OrchestrationCancelRequested { reason: "r".into() },
        EventKind::ExternalEvent { name: "n".into(), data: "d".into() },
    ]);
    assert_eq!(state_changes(&history), StateChanges::default());
}
