//! Histories and messages that nobody wrote: the engine gives an outcome, whatever it is fed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    ActivityDeadlines, Before, ErrorDetails, Event, EventKind, OrchestrationHandler, StoredExecution,
    TurnInput, WorkItem, end_without_handler, run_turn,
};
use proptest::prelude::*;

use crate::build::{
    app_error, cancel, child_completed, child_failed, completed, event, failed, fired, handler, history,
    queued, raised, start, start_by_parent,
};

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..12u64, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1), 1 => Just(1 << 40)]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![Just("A".to_string()), Just("e".to_string()), Just(String::new()), Just("\0".to_string())]
}

fn kind() -> impl Strategy<Value = EventKind> {
    (0..38usize, word(), word(), id()).prop_map(|(variant, name, text, number)| {
        let started = history(vec![]).remove(0).kind;
        let fixed = [
            started,
            EventKind::OrchestrationCompleted { output: text.clone() },
            EventKind::OrchestrationFailed { details: app_error(&text) },
            EventKind::OrchestrationContinuedAsNew { input: text.clone() },
            EventKind::OrchestrationCancelRequested { reason: text.clone() },
            crate::build::activity(&name, &text),
            EventKind::ActivityCompleted { result: text.clone() },
            EventKind::ActivityFailed { details: app_error(&text) },
            EventKind::ErrorRecorded { error: text.clone(), panicked: number % 2 == 0 },
            EventKind::ActivityCancelRequested { reason: "dropped_future".to_string() },
            EventKind::TimerCreated { fire_at_ms: number },
            EventKind::TimerFired { fire_at_ms: number },
            EventKind::TimerCancelled { reason: text.clone() },
            EventKind::ExternalSubscribed { name: name.clone() },
            EventKind::ExternalEvent { name: name.clone(), data: text.clone() },
            EventKind::ExternalSubscribedCancelled { reason: "dropped_future".to_string() },
            EventKind::QueueSubscribed { name: name.clone() },
            EventKind::QueueEventDelivered { name: name.clone(), data: text.clone() },
            EventKind::QueueSubscriptionCancelled { reason: "dropped_future".to_string() },
            EventKind::OrchestrationChained {
                name: name.clone(),
                instance: text.clone(),
                input: text.clone(),
            },
            EventKind::SubOrchestrationScheduled {
                name: name.clone(),
                instance: text.clone(),
                input: text.clone(),
            },
            EventKind::VersionRequested { version: text.clone() },
            EventKind::SubOrchestrationCompleted { result: text.clone() },
            EventKind::SubOrchestrationFailed { details: app_error(&text) },
            EventKind::SubOrchestrationCancelRequested { reason: text.clone() },
            EventKind::CustomStatusUpdated { status: Some(text.clone()) },
            EventKind::KeyValueCleared { key: text.clone() },
            EventKind::KeyValueSet { key: name, value: text.clone(), last_updated_at_ms: number },
            EventKind::KeyValuesCleared,
            EventKind::KeyValuesCarried { values: BTreeMap::new() },
            EventKind::RetryPolicyRecorded { policy: text.clone() },
            EventKind::ActivityDeadlinesRecorded {
                deadlines: ActivityDeadlines {
                    schedule_to_start_ms: Some(number),
                    start_to_close_ms: Some(number),
                },
            },
            EventKind::ActivityBegun,
            EventKind::ActivityStopped,
            EventKind::CancelPolicyRecorded { within_ms: number },
            EventKind::PatchMarked { id: text.clone() },
            EventKind::OrchestrationRepaired { put_back: number, by: text.clone(), at_ms: number },
            EventKind::OrchestrationRedriven { from_execution_id: number, by: text.clone(), at_ms: number },
        ];
        fixed[variant].clone()
    })
}

fn damaged_history() -> impl Strategy<Value = Vec<Event>> {
    let one = (kind(), proptest::option::of(id()), proptest::option::weighted(0.05, id()), id());
    (proptest::collection::vec(one, 0..12), prop::bool::weighted(0.8)).prop_map(|(events, has_start)| {
        let mut all = if has_start { history(vec![]) } else { Vec::new() };
        for (kind, source, wrong_id, timestamp) in events {
            let position = u64::try_from(all.len()).expect("it is short") + 1;
            let mut event = event(wrong_id.unwrap_or(position), source, kind);
            event.timestamp_ms = timestamp;
            all.push(event);
        }
        all
    })
}

fn message() -> impl Strategy<Value = WorkItem> {
    (0..15usize, id(), word(), word()).prop_map(|(variant, id, name, text)| match variant {
        0 => completed(id, &text),
        1 => failed(id, &text),
        2 => fired(id),
        3 => raised(&name, &text),
        4 => queued(&name, &text),
        5 => cancel(&text),
        6 => child_completed(id, &text),
        7 => child_failed(id, &text),
        8 => start(&text),
        10 => WorkItem::ActivityBegun { instance: "i".to_string(), execution_id: 1, id },
        9 => start_by_parent(&name, id, id),
        13 => WorkItem::ActivityStopped { instance: "i".to_string(), execution_id: 1, id },
        11 => crate::build::errored(id, &text, &name),
        12 => crate::build::child_errored(id, &text, &name),
        _ => crate::build::completed_in(id, id, &text),
    })
}

fn programs() -> Vec<Arc<dyn OrchestrationHandler>> {
    vec![
        handler(|ctx, _| async move { ctx.schedule_activity("A", "").await }),
        handler(|ctx, _| async move {
            ctx.schedule_activity("A", "").with_schedule_to_start(Duration::from_secs(1)).await
        }),
        handler(|ctx, _| async move {
            loop {
                let (event, timer) = (ctx.schedule_wait("e"), ctx.schedule_timer(Duration::MAX));
                if ctx.select2(event, timer).await.is_second() {
                    ctx.new_guid().await?;
                }
            }
        }),
        handler(|ctx, _| async move {
            let child = ctx.schedule_sub_orchestration("A", "");
            let first = ctx.dequeue_event("A").await;
            drop(child);
            let second = ctx.schedule_activity("A", first).await?;
            ctx.continue_as_new(second).await
        }),
        handler(|ctx, _| async move {
            ctx.deprecate_patch("e");
            if ctx.patched("A") { ctx.schedule_activity("A", "").await } else { Ok(String::new()) }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_and_no_message_makes_the_engine_panic_or_hang(
        history in damaged_history(),
        messages in proptest::collection::vec(message(), 0..6),
        more in proptest::collection::vec(message(), 0..6),
        execution_id in prop_oneof![4 => Just(1u64), 1 => id()],
        now_ms in id(),
        program in 0..4usize,
    ) {
        let input = |messages: &[WorkItem]| TurnInput {
            instance: "i".to_string(),
            execution_id,
            now_ms,
            entropy: u128::MAX,
            messages: messages.to_vec(),
            kv: BTreeMap::new(),
        };
        let handler = programs().swap_remove(program);
        let before = Before::Stored { handler, version: String::new(), history: &history };
        let result = run_turn(before, input(&messages));
        if history.iter().any(Event::is_terminal) {
            prop_assert_eq!(&result.turn.events, &vec![]);
        }
        if let Some(execution) = result.execution {
            run_turn(Before::Held(execution), input(&more));
        }
        let stored = StoredExecution {
            instance: "i".to_string(),
            execution_id,
            name: String::new(),
            version: String::new(),
            parent: None,
            history: &history,
            last_event_id: now_ms,
        };
        let ended = end_without_handler(&stored, ErrorDetails::orchestration_failed("x"), messages, now_ms);
        let terminal = history.iter().chain(&ended.events).filter(|event| event.is_terminal()).count();
        prop_assert!(terminal >= 1);
    }
}
