//! From one execution to the next.

use duroxide_core::limits::MAX_MESSAGES_PER_FETCH;
use duroxide_core::{OrchestrationStatus, columns_of};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, completed, completed_event, event, happened, queue_message, start, started,
    timer,
};
use crate::WorkItem;
use crate::{Event, EventKind};

fn continued(event_id: u64) -> Event {
    happened(event_id, "a", EventKind::OrchestrationContinuedAsNew { input: "next".to_string() })
}

/// Begins instance `a` and lets it continue as new; `more` adds to the commit that does so.
async fn continue_a(store: &Store<'_>, more: impl FnOnce(Commit) -> Commit) {
    store.begin_with("a", |commit| commit.pinned("1.0.0")).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let commit = Commit::of(&turn).events([continued(2)]).continues_as_new("a");
    store.commit(&turn, more(commit)).await;
}

fn is_continue_as_new(item: &WorkItem) -> bool {
    columns_of(item).kind == duroxide_core::ItemKind::ContinueAsNew
}

/// Between two executions the instance is running; the old execution is over, the new one is there.
pub async fn an_instance_between_two_executions_is_running(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    continue_a(&store, |commit| commit).await;
    let info = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!((info.status.as_str(), info.current_execution_id), ("Running", 2));
    assert_eq!(store.admin().list_executions("a").await.expect("read"), vec![1, 2]);
    assert_eq!(store.admin().latest_execution_id("a").await.expect("read"), 2);
    let old = store.admin().get_execution_info("a", 1).await.expect("read");
    assert_eq!((old.status.as_str(), old.event_count), ("ContinuedAsNew", 2));
    assert!(old.completed_at.is_some());
    let new = store.admin().get_execution_info("a", 2).await.expect("read");
    assert_eq!((new.status.as_str(), new.event_count, new.completed_at), ("Running", 0, None));
    assert!(new.started_at > 0);
    let seen = store.provider.orchestration_status("a").await.expect("read");
    assert_eq!(seen, OrchestrationStatus::Running { custom_status: None, custom_status_version: 0 });
    assert_eq!(store.history("a").await, vec![]);
    assert_eq!(store.provider.read_with_execution("a", 1).await.expect("read").len(), 2);
}

/// The first turn of the next execution gets its start and an empty history.
pub async fn the_next_execution_begins_with_an_empty_history(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    continue_a(&store, |commit| commit).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.history, vec![]);
    assert_eq!(turn.item.messages.len(), 1);
    assert!(is_continue_as_new(&turn.item.messages[0]));
    store.commit(&turn, Commit::of(&turn).events([started("a", 2)])).await;
    store.send(event("a", "more")).await;
    let history = store.turn_of("a").await.item.history;
    assert_eq!((history.len(), history[0].execution_id), (1, 2));
    assert_eq!(history, store.history("a").await);
}

/// Messages that a turn gives back to its own inbox come before all that waits there, in their order.
pub async fn messages_that_are_put_back_come_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(queue_message("a", "1")).await;
    let turn = store.turn_of("a").await;
    store.send_all([queue_message("a", "4"), event("a", "5"), timer("a", 9, 1)]).await;
    let put_back = [queue_message("a", "1"), event("a", "2"), queue_message("a", "3")];
    let commit = Commit::of(&turn).events([continued(2)]).continues_as_new("a").messages(put_back.clone());
    store.commit(&turn, commit).await;
    let messages = store.turn_of("a").await.item.messages;
    let rest: Vec<WorkItem> = messages.into_iter().filter(|item| !is_continue_as_new(item)).collect();
    assert_eq!(rest[..3], put_back);
    assert_eq!(rest[3..], [queue_message("a", "4"), event("a", "5")]);
}

/// What is put back is first in its own inbox, not among the instances: an endless loop starves no neighbour.
pub async fn an_instance_that_continues_does_not_go_before_the_others(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(queue_message("a", "1")).await;
    let turn = store.turn_of("a").await;
    store.send(start("b")).await;
    factory.advance(std::time::Duration::from_millis(5)).await;
    let put_back = [queue_message("a", "1")];
    store.commit(&turn, Commit::of(&turn).continues_as_new("a").messages(put_back)).await;
    let first = store.fetch().await.expect("two instances are ready");
    assert_eq!(first.item.instance, "b", "it has waited longer");
    store.turn_of("a").await;
}

/// The same again and again: what was put back twice is still first and in order.
pub async fn messages_may_be_put_back_many_times(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let put_back = [queue_message("a", "1"), queue_message("a", "2")];
    store.send_all(put_back.clone()).await;
    for round in 1..=4 {
        let turn = store.turn_of("a").await;
        assert_eq!(turn.item.execution_id, round);
        assert_eq!(turn.attempts, 1, "a message that is put back begins anew");
        let data = round.to_string();
        store.send(event("a", &data)).await;
        let commit = Commit::of(&turn).continues_as_new("a").messages(put_back.clone());
        store.commit(&turn, commit).await;
        let turn = store.turn_of("a").await;
        let rest: Vec<_> =
            turn.item.messages.iter().filter(|item| !is_continue_as_new(item)).cloned().collect();
        assert_eq!(rest[..2], put_back);
        assert_eq!(rest[2], event("a", &data));
        store.abandon_uncounted(&turn).await;
    }
}

/// What is put back goes before what was put back earlier and has not been fetched yet.
pub async fn messages_put_back_again_come_before_the_rest(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let many = (0..=MAX_MESSAGES_PER_FETCH).map(|n| queue_message("a", &n.to_string()));
    store.commit(&turn, Commit::of(&turn).messages(many)).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages.len(), MAX_MESSAGES_PER_FETCH);
    store.commit(&turn, Commit::of(&turn).messages([queue_message("a", "again"), event("a", "too")])).await;
    let last = queue_message("a", &MAX_MESSAGES_PER_FETCH.to_string());
    let expected = vec![queue_message("a", "again"), event("a", "too"), last];
    assert_eq!(store.turn_of("a").await.item.messages, expected);
}

/// A timer of the ended execution is gone, whether an event or only the status says that it ended.
pub async fn timers_of_the_ended_execution_are_dropped(factory: &dyn ProviderFactory) {
    for events in [vec![continued(4)], vec![]] {
        let store = Store::new(factory).await;
        let timers = [timer("a", 2, u64::MAX), timer("a", 3, u64::MAX)];
        store.begin_with("a", |commit| commit.messages(timers)).await;
        assert_eq!(store.admin().get_queue_depths().await.expect("read").timer_queue, 2);
        store.send(event("a", "go")).await;
        let turn = store.turn_of("a").await;
        store.commit(&turn, Commit::of(&turn).events(events).continues_as_new("a")).await;
        assert_eq!(store.admin().get_queue_depths().await.expect("read").timer_queue, 0);
    }
}

/// The start of the next execution comes before all that waits, however much that is: without it the node
/// that fetches could not begin.
pub async fn the_next_execution_s_start_is_never_left_behind(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("sender").await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let many = (0..=MAX_MESSAGES_PER_FETCH).map(|n| queue_message("a", &n.to_string()));
    store.send(event("sender", "go")).await;
    let sender = store.turn_of("sender").await;
    store.commit(&sender, Commit::of(&sender).messages(many)).await;
    let put_back = (0..=MAX_MESSAGES_PER_FETCH).map(|n| event("a", &n.to_string()));
    store.commit(&turn, Commit::of(&turn).continues_as_new("a").messages(put_back)).await;
    let messages = store.turn_of("a").await.item.messages;
    assert_eq!(messages.len(), MAX_MESSAGES_PER_FETCH);
    assert!(is_continue_as_new(&messages[0]), "{:?}", messages[0]);
    assert_eq!(messages[1], event("a", "0"));
}

/// Messages that waited for the old execution reach the new one; completions say which they are for.
pub async fn what_waits_in_the_inbox_reaches_the_next_execution(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "for the next")).await;
    let work = store.work().await;
    store.complete(&work).await;
    store.commit(&turn, Commit::of(&turn).events([continued(2)]).continues_as_new("a")).await;
    let messages = store.turn_of("a").await.item.messages;
    assert_eq!(messages.len(), 3);
    assert!(messages.contains(&event("a", "for the next")));
    assert!(messages.contains(&completed("a", 2)), "that it is stale is for the engine to say");
}

/// Custom status and KV store belong to the instance and survive.
pub async fn state_survives_continue_as_new(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let set = EventKind::KeyValueSet { key: "k".into(), value: "v".into(), last_updated_at_ms: 7 };
    let custom = EventKind::CustomStatusUpdated { status: Some("half".into()) };
    let events = [happened(2, "a", set), happened(3, "a", custom), continued(4)];
    store.commit(&turn, Commit::of(&turn).events(events).continues_as_new("a")).await;
    let turn = store.turn_of("a").await;
    let entry = turn.item.kv_snapshot.get("k").expect("kept");
    assert_eq!((entry.value.as_str(), entry.last_updated_at_ms), ("v", 7));
    let custom = store.provider.get_custom_status("a", 0).await.expect("read");
    assert_eq!(custom, Some((Some("half".to_string()), 1)));
}

/// The last execution ends the instance with its own output.
pub async fn the_last_execution_ends_the_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    continue_a(&store, |commit| commit).await;
    let turn = store.turn_of("a").await;
    let events = [started("a", 2), completed_event(2, "a", 2, "at last")];
    store.commit(&turn, Commit::of(&turn).events(events).completes("at last")).await;
    let info = store.admin().get_instance_info("a").await.expect("read");
    assert_eq!((info.status.as_str(), info.output.as_deref()), ("Completed", Some("at last")));
    assert_eq!(store.admin().get_execution_info("a", 1).await.expect("read").status, "ContinuedAsNew");
    store.send(start("a")).await;
    store.expect_no_turn().await;
}
