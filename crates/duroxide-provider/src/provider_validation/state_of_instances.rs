//! Custom status, KV store, histories and sizes: what can be read of an instance.

use std::collections::HashMap;

use duroxide_core::{ErrorDetails, OrchestrationStatus};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, completed_event, event, expect_invalid, expect_not_found, failed_event, happened,
    queue_message, scheduled, start, started,
};
use crate::EventKind;

fn set(key: &str, value: &str, at: u64) -> EventKind {
    EventKind::KeyValueSet { key: key.to_string(), value: value.to_string(), last_updated_at_ms: at }
}

fn custom(status: Option<&str>) -> EventKind {
    EventKind::CustomStatusUpdated { status: status.map(str::to_string) }
}

/// Commits one more turn with these events.
async fn turn_with(store: &Store<'_>, first_id: u64, kinds: impl IntoIterator<Item = EventKind>) {
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let events = (first_id..).zip(kinds).map(|(id, kind)| happened(id, "a", kind));
    store.commit(&turn, Commit::of(&turn).events(events)).await;
}

/// The version of the custom status grows by one each time it is set, also within one turn.
pub async fn the_custom_status_counts_its_versions(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let seen = |last| {
        let provider = store.provider.clone();
        async move { provider.get_custom_status("a", last).await.expect("read") }
    };
    assert_eq!(seen(0).await, None, "an unknown instance has none");
    store.begin("a").await;
    assert_eq!(seen(0).await, None, "it was never set");
    turn_with(&store, 2, [custom(Some("one")), custom(Some("two"))]).await;
    assert_eq!(seen(0).await, Some((Some("two".to_string()), 2)));
    assert_eq!(seen(1).await, Some((Some("two".to_string()), 2)));
    assert_eq!(seen(2).await, None, "nothing new");
    assert_eq!(seen(9).await, None);
    turn_with(&store, 4, [custom(None)]).await;
    assert_eq!(seen(2).await, Some((None, 3)), "taken back");
    let status = store.provider.orchestration_status("a").await.expect("read");
    assert_eq!(status, OrchestrationStatus::Running { custom_status: None, custom_status_version: 3 });
}

/// Values are set, replaced and removed in the order of the events.
pub async fn kv_changes_apply_in_their_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let clear = |key: &str| EventKind::KeyValueCleared { key: key.to_string() };
    turn_with(
        &store,
        2,
        [set("x", "1", 10), set("y", "1", 10), set("x", "2", 20), clear("y"), clear("none")],
    )
    .await;
    let all = store.provider.get_kv_all_values("a").await.expect("read");
    assert_eq!(all, HashMap::from([("x".to_string(), "2".to_string())]));
    assert_eq!(store.provider.get_kv_value("a", "y").await.expect("read"), None);
    turn_with(&store, 7, [set("z", "é", 30), EventKind::KeyValuesCleared, set("w", "", 40)]).await;
    let all = store.provider.get_kv_all_values("a").await.expect("read");
    assert_eq!(all, HashMap::from([("w".to_string(), String::new())]));
    assert_eq!(store.provider.get_kv_value("a", "w").await.expect("read"), Some(String::new()));
}

/// The turn gets the values with the times at which they were set.
pub async fn a_turn_gets_the_kv_store(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.begin("b").await;
    turn_with(&store, 2, [set("x", "1", 10), set("y", "2", 20)]).await;
    store.send_all([event("a", "go"), event("b", "go")]).await;
    let kv = store.turn_of("a").await.item.kv_snapshot;
    assert_eq!(kv.len(), 2);
    assert_eq!((kv["x"].value.as_str(), kv["x"].last_updated_at_ms), ("1", 10));
    assert_eq!((kv["y"].value.as_str(), kv["y"].last_updated_at_ms), ("2", 20));
    assert!(store.turn_of("b").await.item.kv_snapshot.is_empty(), "each instance has its own");
}

/// Values and custom status can be read after the end.
pub async fn state_can_be_read_after_the_end(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let details = ErrorDetails::orchestration_failed("no luck");
    let events = [
        happened(2, "a", set("k", "v", 1)),
        happened(3, "a", custom(Some("last"))),
        failed_event(4, "a", &details),
    ];
    store.commit(&turn, Commit::of(&turn).events(events).fails("no luck")).await;
    assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), Some("v".to_string()));
    let seen = store.provider.orchestration_status("a").await.expect("read");
    let custom_status = Some("last".to_string());
    assert_eq!(seen, OrchestrationStatus::Failed { details, custom_status, custom_status_version: 1 });
}

/// The status of an instance, from unknown to completed.
pub async fn the_status_follows_the_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let status = || store.provider.orchestration_status("a");
    assert_eq!(status().await.expect("read"), OrchestrationStatus::NotFound);
    let running = OrchestrationStatus::Running { custom_status: None, custom_status_version: 0 };
    store.send(start("a")).await;
    assert_eq!(status().await.expect("read"), running);
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([started("a", 1)])).await;
    assert_eq!(status().await.expect("read"), running);
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([completed_event(2, "a", 1, "out")]).completes("out")).await;
    let output = "out".to_string();
    let completed = OrchestrationStatus::Completed { output, custom_status: None, custom_status_version: 0 };
    assert_eq!(status().await.expect("read"), completed);
}

/// The last events of the latest execution are read by themselves, in the order of the event ids.
pub async fn the_last_events_come_back_alone_and_in_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    assert_eq!(store.provider.last_events("a", 2).await.expect("read"), vec![]);
    store.begin("a").await;
    turn_with(&store, 2, (0..30).map(|n| custom(Some(&n.to_string())))).await;
    let whole = store.provider.read("a").await.expect("read");
    assert_eq!(store.provider.last_events("a", 2).await.expect("read"), whole[whole.len() - 2..]);
    assert_eq!(store.provider.last_events("a", 0).await.expect("read"), vec![]);
    assert_eq!(store.provider.last_events("a", u32::MAX).await.expect("read"), whole);
}

/// A turn gets the whole history in the order of the event ids, and so does a reader.
pub async fn histories_come_back_whole_and_in_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    turn_with(&store, 2, (0..30).map(|n| custom(Some(&n.to_string())))).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let ids: Vec<u64> = turn.item.history.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, (1..=31).collect::<Vec<u64>>());
    assert_eq!(store.history("a").await, turn.item.history);
    assert_eq!(store.provider.read_with_execution("a", 1).await.expect("read"), turn.item.history);
    assert_eq!(store.provider.read_with_execution("a", 2).await.expect("read"), vec![]);
    assert_eq!(store.provider.read("unknown").await.expect("read"), vec![]);
    assert_eq!(store.provider.read_with_execution("unknown", 1).await.expect("read"), vec![]);
}

/// Tools append without a lock; an event without an id gets the next one, one that is stored is refused.
pub async fn events_can_be_appended_without_a_lock(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let unnumbered = crate::Event::new("a", 1, None, custom(Some("x")));
    store
        .provider
        .append_with_execution("a", 1, vec![unnumbered.clone(), unnumbered, scheduled(4, "a")])
        .await
        .expect("appended");
    let ids: Vec<u64> = store.history("a").await.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, vec![1, 2, 3, 4]);
    expect_invalid(store.provider.append_with_execution("a", 1, vec![scheduled(4, "a")]).await);
    assert_eq!(store.history("a").await.len(), 4);
    expect_not_found(store.provider.append_with_execution("unknown", 1, vec![started("unknown", 1)]).await);
}

/// The size of an instance is that of its current execution, its inbox and its KV store.
pub async fn stats_tell_the_size_of_an_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    assert_eq!(store.provider.get_instance_stats("a").await.expect("read"), None);
    store.begin("a").await;
    turn_with(&store, 2, [set("x", "123", 1), set("y", "é", 1)]).await;
    store.send_all([event("a", "1"), event("a", "2")]).await;
    let stats = store.provider.get_instance_stats("a").await.expect("read").expect("it exists");
    assert_eq!((stats.history_event_count, stats.queue_pending_count), (3, 2));
    assert_eq!((stats.kv_user_key_count, stats.kv_total_value_bytes), (2, 5));
    let size = stats.history_size_bytes;
    assert!(size > 100, "three events are more than {size} bytes");
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("a")).await;
    let stats = store.provider.get_instance_stats("a").await.expect("read").expect("it exists");
    assert_eq!((stats.history_event_count, stats.history_size_bytes), (0, 0));
    assert_eq!(stats.kv_user_key_count, 2);
}

/// A message stays pending until the program reads it: in the inbox, in the history, and carried by continue-as-new.
pub async fn stats_count_messages_until_they_are_read(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let pending = async || {
        let stats = store.provider.get_instance_stats("a").await.expect("read");
        stats.expect("it exists").queue_pending_count
    };
    let delivered =
        |data: &str| EventKind::QueueEventDelivered { name: "q".to_string(), data: data.to_string() };
    let subscribed = || EventKind::QueueSubscribed { name: "q".to_string() };
    store.begin("a").await;
    store.send_all([queue_message("a", "1"), queue_message("a", "2")]).await;
    assert_eq!(pending().await, 2, "in the inbox");
    turn_with(&store, 2, [delivered("1"), delivered("2")]).await;
    assert_eq!(pending().await, 2, "in the history, and no wait has got them");
    turn_with(&store, 4, [subscribed()]).await;
    assert_eq!(pending().await, 1, "a wait has got the first");
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let carried: Vec<(String, String)> =
        ["2", "3", "4"].map(|data| ("q".to_string(), data.to_string())).to_vec();
    store.commit(&turn, Commit::of(&turn).continues_as_new_with("a", carried.clone())).await;
    assert_eq!(pending().await, 4, "the start of the next execution, and what it carries");
    let turn = store.turn_of("a").await;
    let mut first = started("a", 2);
    if let EventKind::OrchestrationStarted { carry_forward_events, .. } = &mut first.kind {
        *carry_forward_events = Some(carried);
    }
    let of_second = |event_id, source, kind| crate::Event::with_event_id(event_id, "a", 2, source, kind);
    let events = [first, of_second(2, None, subscribed())];
    store.commit(&turn, Commit::of(&turn).events(events)).await;
    assert_eq!(pending().await, 2, "carried, and a wait has got the first");
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let dropped = EventKind::QueueSubscriptionCancelled { reason: "dropped_future".to_string() };
    store.commit(&turn, Commit::of(&turn).events([of_second(3, Some(2), dropped)])).await;
    assert_eq!(pending().await, 3, "a wait that was dropped gives its message back");
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let ended = completed_event(4, "a", 2, "out");
    store.commit(&turn, Commit::of(&turn).events([ended]).completes("out")).await;
    assert_eq!(pending().await, 0, "nothing will read them");
}
