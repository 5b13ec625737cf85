//! What an instance shows of itself while it runs and afterwards: its custom status and its KV store.

use std::collections::{BTreeMap, HashMap};

use duroxide_core::limits::MAX_KV_KEYS;

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, Turn, completed_event, event, expect_invalid, expect_lock_lost, scheduled, started,
};
use crate::{Event, EventKind, PruneOptions};

fn set(key: &str, value: &str, at: u64) -> EventKind {
    EventKind::KeyValueSet { key: key.to_string(), value: value.to_string(), last_updated_at_ms: at }
}

fn clear(key: &str) -> EventKind {
    EventKind::KeyValueCleared { key: key.to_string() }
}

fn custom(status: Option<&str>) -> EventKind {
    EventKind::CustomStatusUpdated { status: status.map(str::to_string) }
}

/// What the events of one turn add to an execution's history.
fn events(turn: &Turn, kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    let item = &turn.item;
    let next = item.history.last().map_or(1, |event| event.event_id + 1);
    let begin = (next == 1).then(|| started(&item.instance, item.execution_id));
    let happened = |(id, kind)| Event::with_event_id(id, &*item.instance, item.execution_id, None, kind);
    let first = next + u64::from(begin.is_some());
    begin.into_iter().chain((first..).zip(kinds).map(happened)).collect()
}

/// Wakes the instance and locks it.
async fn next_turn(store: &Store<'_>, instance: &str) -> Turn {
    store.send(event(instance, "go")).await;
    store.turn_of(instance).await
}

/// Commits one more turn with these events.
async fn turn_with(store: &Store<'_>, instance: &str, kinds: impl IntoIterator<Item = EventKind>) {
    let turn = next_turn(store, instance).await;
    let events = events(&turn, kinds);
    store.commit(&turn, Commit::of(&turn).events(events)).await;
}

/// Ends the execution, and begins the next one with these events.
async fn continue_with(store: &Store<'_>, instance: &str, kinds: impl IntoIterator<Item = EventKind>) {
    let turn = next_turn(store, instance).await;
    let last = events(&turn, [EventKind::OrchestrationContinuedAsNew { input: "next".to_string() }]);
    store.commit(&turn, Commit::of(&turn).events(last).continues_as_new(instance)).await;
    let turn = store.turn_of(instance).await;
    let first = events(&turn, kinds);
    store.commit(&turn, Commit::of(&turn).events(first)).await;
}

async fn status(store: &Store<'_>, instance: &str, last_seen: u64) -> Option<(Option<String>, u64)> {
    store.provider.get_custom_status(instance, last_seen).await.expect("read")
}

async fn values(store: &Store<'_>, instance: &str) -> BTreeMap<String, String> {
    store.provider.get_kv_all_values(instance).await.expect("read").into_iter().collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The version of the custom status goes on counting in the next execution, which does not set it anew.
pub async fn the_version_of_the_custom_status_counts_over_executions(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    turn_with(&store, "a", [custom(Some("one")), custom(Some("two"))]).await;
    continue_with(&store, "a", []).await;
    assert_eq!(status(&store, "a", 0).await, Some((Some("two".to_string()), 2)), "it survives, once");
    assert_eq!(status(&store, "a", 2).await, None, "and is nothing new");
    turn_with(&store, "a", [custom(Some("two"))]).await;
    assert_eq!(status(&store, "a", 2).await, Some((Some("two".to_string()), 3)), "set again to the same");
    continue_with(&store, "a", [custom(None)]).await;
    assert_eq!(status(&store, "a", 3).await, Some((None, 4)));
    continue_with(&store, "a", []).await;
    assert_eq!(status(&store, "a", 0).await, Some((None, 4)), "that it was taken back survives too");
}

/// A reader gets the custom status if it has not seen that version, and nothing otherwise.
pub async fn a_custom_status_is_told_to_who_has_not_seen_it(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.begin("b").await;
    turn_with(&store, "a", (1..=5).map(|n| custom(Some(&n.to_string())))).await;
    let current = Some((Some("5".to_string()), 5));
    for last_seen in 0..5 {
        assert_eq!(status(&store, "a", last_seen).await, current, "last seen {last_seen}");
    }
    for last_seen in [5, 6, u64::MAX] {
        assert_eq!(status(&store, "a", last_seen).await, None, "last seen {last_seen}");
    }
    assert_eq!(status(&store, "b", 0).await, None, "its neighbour has none");
    let turn = next_turn(&store, "a").await;
    let end = events(&turn, [custom(Some("last"))]).into_iter().chain([completed_event(8, "a", 1, "done")]);
    store.commit(&turn, Commit::of(&turn).events(end).completes("done")).await;
    assert_eq!(status(&store, "a", 5).await, Some((Some("last".to_string()), 6)), "set in the last turn");
    assert_eq!(status(&store, "a", 6).await, None);
}

/// A value that is replaced, or removed and set again, has the time at which it was set last.
pub async fn removing_and_setting_values_keeps_its_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    turn_with(&store, "a", [set("old", "1", 10), set("new", "2", 20), set("kept", "3", 15)]).await;
    // What prunes removes key by key.
    turn_with(&store, "a", [clear("old"), clear("kept"), set("old", "again", 30), set("new", "3", 25)]).await;
    assert_eq!(values(&store, "a").await, map(&[("new", "3"), ("old", "again")]));
    let turn = next_turn(&store, "a").await;
    let stamp = |key: &str| turn.item.kv_snapshot.get(key).map(|entry| entry.last_updated_at_ms);
    assert_eq!((stamp("old"), stamp("new"), stamp("kept")), (Some(30), Some(25), None));
    let kinds = [
        set("x", "1", 40),
        EventKind::KeyValuesCleared,
        EventKind::KeyValuesCleared,
        set("y", "1", 41),
        set("y", "2", 42),
        clear("x"),
    ];
    let all = events(&turn, kinds);
    store.commit(&turn, Commit::of(&turn).events(all)).await;
    assert_eq!(values(&store, "a").await, map(&[("y", "2")]));
    continue_with(&store, "a", [set("z", "1", 50), clear("y")]).await;
    assert_eq!(values(&store, "a").await, map(&[("z", "1")]), "the next execution changes the same values");
    let turn = next_turn(&store, "a").await;
    assert_eq!(turn.item.kv_snapshot.keys().collect::<Vec<_>>(), ["z"]);
}

/// As many values as an instance may have, with keys of every kind, are read at once as well as one by one.
pub async fn all_values_are_read_at_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.begin("a%").await;
    let odd = ["", " ", "A", "a", "%", "_", "'", "\"", "\\", "é", "e\u{301}", "\u{1F980}", "a\nb", "null"];
    let keys = odd.map(str::to_string).into_iter().chain((odd.len()..MAX_KV_KEYS).map(|n| format!("k{n}")));
    let expected: HashMap<String, String> = keys.enumerate().map(|(n, key)| (key, n.to_string())).collect();
    turn_with(&store, "a", expected.iter().map(|(key, value)| set(key, value, 1))).await;
    turn_with(&store, "a%", [set("a", "of another", 1)]).await;
    assert_eq!(store.provider.get_kv_all_values("a").await.expect("read"), expected);
    for key in odd {
        let value = store.provider.get_kv_value("a", key).await.expect("read");
        assert_eq!(value.as_ref(), expected.get(key), "{key:?}");
    }
    assert_eq!(store.provider.get_kv_value("a", "none").await.expect("read"), None);
    assert_eq!(values(&store, "a%").await, map(&[("a", "of another")]));
    assert_eq!(values(&store, "unknown").await, map(&[]));
    let stats = store.provider.get_instance_stats("a").await.expect("read").expect("it exists");
    assert_eq!(stats.kv_user_key_count, MAX_KV_KEYS as u64);
}

/// A turn that is not committed changes neither a value nor the custom status, for whatever reason it is refused.
pub async fn a_turn_that_is_not_committed_shows_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    turn_with(&store, "a", [set("k", "before", 1), custom(Some("before"))]).await;
    let kinds = || [set("k", "after", 2), set("more", "1", 2), clear("none"), custom(Some("after"))];
    let late = next_turn(&store, "a").await;
    let stats = || async { store.provider.get_instance_stats("a").await.expect("read").expect("it exists") };
    let before = stats().await;
    let check = async || {
        assert_eq!(values(&store, "a").await, map(&[("k", "before")]));
        assert_eq!(status(&store, "a", 0).await, Some((Some("before".to_string()), 1)));
        assert_eq!(stats().await, before);
    };
    let repeats = events(&late, kinds()).into_iter().chain([scheduled(1, "a")]);
    expect_invalid(store.try_commit(&late, Commit::of(&late).events(repeats)).await);
    check().await;
    store.expire_locks().await;
    expect_lock_lost(store.try_commit(&late, Commit::of(&late).events(events(&late, kinds()))).await);
    let ends =
        events(&late, [EventKind::KeyValuesCleared]).into_iter().chain([completed_event(5, "a", 1, "x")]);
    expect_lock_lost(store.try_commit(&late, Commit::of(&late).events(ends).completes("x")).await);
    check().await;
    // The new holder commits; the former one changes nothing after it either.
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events(events(&turn, [set("k", "by the holder", 3)]))).await;
    expect_lock_lost(store.try_commit(&late, Commit::of(&late).events(events(&late, kinds()))).await);
    assert_eq!(values(&store, "a").await, map(&[("k", "by the holder")]));
    assert_eq!(status(&store, "a", 1).await, None);
}

/// What an instance showed can be read after its end, also without its older executions, until it is deleted.
/// An id that is started again begins with nothing.
pub async fn what_is_shown_stays_until_the_deletion(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    turn_with(&store, "a", [set("k", "v", 1), custom(Some("shown"))]).await;
    continue_with(&store, "a", [set("l", "w", 2)]).await;
    let turn = next_turn(&store, "a").await;
    let end = completed_event(3, "a", 2, "done");
    store.commit(&turn, Commit::of(&turn).events([end]).completes("done")).await;
    let pruned = store.admin().prune_executions("a", PruneOptions::default()).await.expect("pruned");
    assert_eq!(pruned.executions_deleted, 1);
    assert_eq!(values(&store, "a").await, map(&[("k", "v"), ("l", "w")]));
    assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), Some("v".to_string()));
    assert_eq!(status(&store, "a", 0).await, Some((Some("shown".to_string()), 1)));
    store.admin().delete_instance("a", false).await.expect("deleted");
    let check = async || {
        assert_eq!(values(&store, "a").await, map(&[]));
        assert_eq!(store.provider.get_kv_value("a", "k").await.expect("read"), None);
        assert_eq!(status(&store, "a", 0).await, None);
    };
    check().await;
    store.begin("a").await;
    check().await;
    turn_with(&store, "a", [custom(Some("anew"))]).await;
    assert_eq!(status(&store, "a", 0).await, Some((Some("anew".to_string()), 1)), "it counts from one again");
}
