//! Filter, then lock, then load: a node gets only executions that it can replay.

use std::time::Duration;

use duroxide_core::DispatcherCapabilityFilter;

use super::ProviderFactory;
use super::fixture::{Commit, Store, below, event, filter, happened, range, scheduled, start_child, started};
use crate::EventKind;

/// Without a filter every instance matches.
pub async fn fetch_with_filter_none_returns_any_item(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.2.3").await;
    assert_eq!(store.fetch().await.expect("ready").item.instance, "a");
}

/// A range that holds the pinned version matches.
pub async fn fetch_with_compatible_filter_returns_item(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.2.3").await;
    let turn = store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.expect("compatible");
    assert_eq!(turn.item.instance, "a");
    assert_eq!(turn.item.messages, vec![event("a", "go")]);
}

/// A range without the pinned version does not match, on either side of it.
pub async fn fetch_with_incompatible_filter_skips_item(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.2.3").await;
    for ranges in
        [below("2.0.0", "3.0.0"), below("1.2.4", "2.0.0"), below("1.0.0", "1.2.3"), below("0.0.0", "1.0.0")]
    {
        assert!(store.fetch_matching(Some(&ranges)).await.is_none(), "{ranges:?}");
    }
    assert_eq!(store.max_attempts("a").await, 0);
}

/// An incompatible instance does not stand in the way of a compatible one behind it.
pub async fn fetch_filter_skips_incompatible_selects_compatible(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("b", |commit| commit.pinned("2.0.0")).await;
    store.begin_pinned("a", "1.0.0").await;
    factory.advance(Duration::from_millis(5)).await;
    store.send(event("b", "go")).await;
    let second = store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.expect("compatible");
    assert_eq!(second.item.instance, "b");
    assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    let first = store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.expect("compatible");
    assert_eq!(first.item.instance, "a");
}

/// A fetch leaves what it skips unlocked and uncounted.
pub async fn fetch_filter_does_not_lock_skipped_instances(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    for _ in 0..3 {
        assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    }
    let turn = store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.expect("not locked");
    assert_eq!((turn.item.instance.as_str(), turn.attempts), ("a", 1));
}

/// An execution that no node has begun is pinned to nothing and matches every filter.
pub async fn fetch_filter_null_pinned_version_always_compatible(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    for narrow in [below("0.0.1", "0.0.2"), below("99.0.0", "100.0.0")] {
        store.send(event("a", "go")).await;
        let turn = store.fetch_matching(Some(&narrow)).await.expect("compatible with all");
        store.pass(&turn).await;
    }
}

/// Both ends of a range belong to it, and nothing beyond them.
pub async fn fetch_filter_boundary_versions(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for (instance, version) in
        [("low", "1.0.0"), ("high", "1.9.99"), ("next", "2.0.0"), ("previous", "0.9.9")]
    {
        store.begin_with(instance, |commit| commit.pinned(version)).await;
    }
    for instance in ["low", "high", "next", "previous"] {
        store.send(event(instance, "go")).await;
    }
    for ones in [below("1.0.0", "2.0.0"), filter([range("1.0.0", "1.9.99")])] {
        let low = store.fetch_matching(Some(&ones)).await.expect("the low end");
        let high = store.fetch_matching(Some(&ones)).await.expect("the high end");
        assert_eq!((low.item.instance.as_str(), high.item.instance.as_str()), ("low", "high"));
        assert!(store.fetch_matching(Some(&ones)).await.is_none());
        store.abandon(&low, None).await;
        store.abandon(&high, None).await;
    }
}

/// The pinned version comes from the ack, not from the events.
pub async fn pinned_version_stored_via_ack_metadata(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "7.8.9").await;
    assert!(store.fetch_matching(Some(&filter([range("7.8.8", "7.8.8")]))).await.is_none());
    assert!(store.fetch_matching(Some(&filter([range("7.8.9", "7.8.9")]))).await.is_some());
}

/// The pinned version stays through later turns, whether they name it or not.
pub async fn pinned_version_immutable_across_ack_cycles(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    for names_it in [true, false, true] {
        let turn = store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.expect("compatible");
        let commit = Commit::of(&turn);
        store.commit(&turn, if names_it { commit.pinned("1.0.0") } else { commit }).await;
        store.send(event("a", "more")).await;
        assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    }
}

/// Begins instance `a` pinned to 1.0.0 and lets it continue as new.
async fn continue_a(store: &Store<'_>) {
    store.begin_pinned("a", "1.0.0").await;
    let turn = store.turn_of("a").await;
    let continued = EventKind::OrchestrationContinuedAsNew { input: "next".to_string() };
    let commit = Commit::of(&turn).events([happened(2, "a", continued)]).continues_as_new("a");
    store.commit(&turn, commit.pinned("1.0.0")).await;
}

/// The next execution is pinned by whoever runs its first turn.
pub async fn continue_as_new_execution_gets_own_pinned_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    continue_a(&store).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.execution_id, 2);
    store.commit(&turn, Commit::of(&turn).events([started("a", 2)]).pinned("2.0.0")).await;
    store.send(event("a", "more")).await;
    assert!(store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.is_none());
    assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_some());
}

/// Before its first turn the next execution is pinned to nothing, whatever the previous one was pinned to; an ack
/// that names no version leaves it so.
pub async fn continue_as_new_does_not_inherit_previous_pinned_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    continue_a(&store).await;
    let turn = store.fetch_matching(Some(&below("7.0.0", "8.0.0"))).await.expect("fits every node");
    assert_eq!(turn.item.execution_id, 2);
    store.commit(&turn, Commit::of(&turn).events([started("a", 2)])).await;
    store.send(event("a", "more")).await;
    assert!(store.fetch_matching(Some(&below("7.0.0", "8.0.0"))).await.is_some(), "still pinned to nothing");
}

/// A child is an instance of its own: pinned to nothing before its first turn, and to its own version after it.
pub async fn sub_orchestration_gets_own_pinned_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.pinned("1.0.0").messages([start_child("child", "a", 2)])).await;
    let turn = store.fetch_matching(Some(&below("7.0.0", "8.0.0"))).await.expect("fits every node");
    assert_eq!(turn.item.instance, "child");
    store.commit(&turn, Commit::of(&turn).events([started("child", 1)]).pinned("2.0.0")).await;
    store.send_all([event("child", "go"), event("a", "go")]).await;
    for (ranges, expected) in [(below("2.0.0", "3.0.0"), "child"), (below("1.0.0", "2.0.0"), "a")] {
        let turn = store.fetch_matching(Some(&ranges)).await.expect("compatible");
        assert_eq!(turn.item.instance, expected);
        assert!(store.fetch_matching(Some(&ranges)).await.is_none());
    }
}

/// A node that supports nothing gets nothing, not even what has no version.
pub async fn filter_with_empty_supported_versions_returns_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("unpinned").await;
    store.begin_pinned("pinned", "1.0.0").await;
    store.send(event("unpinned", "go")).await;
    assert!(store.fetch_matching(Some(&filter([]))).await.is_none());
    assert_eq!(store.max_attempts("unpinned").await, 0);
}

/// A range whose end lies before its beginning holds no version, but what is unpinned fits every node.
pub async fn an_empty_range_matches_the_unpinned_only(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("unpinned").await;
    store.begin_pinned("pinned", "1.0.0").await;
    store.send(event("unpinned", "go")).await;
    let nothing = filter([range("2.0.0", "1.0.0")]);
    let turn = store.fetch_matching(Some(&nothing)).await.expect("fits every node");
    assert_eq!(turn.item.instance, "unpinned");
    assert!(store.fetch_matching(Some(&nothing)).await.is_none());
}

/// Filtering does not weaken the lock.
pub async fn concurrent_filtered_fetch_no_double_lock(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    let ones = below("1.0.0", "2.0.0");
    let fetch = || store.fetch_matching(Some(&ones));
    let (first, second) = tokio::join!(fetch(), fetch());
    assert_eq!(usize::from(first.is_some()) + usize::from(second.is_some()), 1);
}

/// What the filter excludes is not decoded; what it admits is, and says what is wrong with it.
pub async fn fetch_corrupted_history_filtered_vs_unfiltered(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "99.0.0").await;
    factory.corrupt_instance_history("a").await;
    assert!(store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.is_none());
    assert_eq!(store.max_attempts("a").await, 0);
    let turn = store.fetch().await.expect("an undecodable history is delivered as such");
    assert!(turn.item.history.is_empty());
    let error = turn.item.history_error.expect("the history does not decode");
    assert!(error.starts_with("event at position 1: "), "{error}");
}

/// The attempt is counted before the history is loaded, so that the poison limit is reached.
pub async fn fetch_deserialization_error_increments_attempt_count(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    factory.corrupt_instance_history("a").await;
    for attempt in 1..=3 {
        let turn = store.fetch().await.expect("delivered as such");
        assert!(turn.item.history_error.is_some());
        assert_eq!(turn.attempts, attempt);
        assert_eq!(store.max_attempts("a").await, attempt);
        store.expire_locks().await;
    }
}

/// A whole history of an excluded version is not loaded either.
pub async fn fetch_filter_applied_before_history_deserialization(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.events([scheduled(2, "a")]).pinned("99.0.0")).await;
    store.send(event("a", "go")).await;
    assert!(store.fetch_matching(Some(&filter([range("1.0.0", "2.0.0")]))).await.is_none());
    assert_eq!(store.fetch().await.expect("ready").item.history.len(), 2);
}

/// Every range of a filter counts, not only the first.
pub async fn fetch_uses_every_range_of_the_filter(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for (instance, version) in [("a", "1.0.0"), ("between", "2.0.0"), ("b", "3.0.0"), ("c", "5.5.5")] {
        store.begin_with(instance, |commit| commit.pinned(version)).await;
    }
    for instance in ["b", "between", "c", "a"] {
        store.send(event(instance, "go")).await;
        factory.advance(Duration::from_millis(5)).await;
    }
    let ranges = filter([range("1.0.0", "1.5.0"), range("3.0.0", "3.5.0"), range("5.5.5", "5.5.5")]);
    for expected in ["b", "c", "a"] {
        let turn = store.fetch_matching(Some(&ranges)).await.expect("in one of the ranges");
        assert_eq!(turn.item.instance, expected, "the one that has been ready longest, whatever its range");
    }
    assert!(store.fetch_matching(Some(&ranges)).await.is_none());
}

/// An execution without a pinned version gets one by an ack that names it.
pub async fn ack_stores_pinned_version_via_metadata_update(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).pinned("1.2.3")).await;
    store.send(event("a", "more")).await;
    assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    assert!(store.fetch_matching(Some(&filter([range("1.2.3", "1.2.3")]))).await.is_some());
}

/// The store writes the version it is told; that it does not change is the runtime's affair.
pub async fn provider_updates_pinned_version_when_told(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).pinned("2.0.0")).await;
    store.send(event("a", "more")).await;
    assert!(store.fetch_matching(Some(&filter([range("1.0.0", "1.0.0")]))).await.is_none());
    assert!(store.fetch_matching(Some(&filter([range("2.0.0", "2.0.0")]))).await.is_some());
}

/// An instance keeps its version while it is locked, backs off and expires.
pub async fn the_filter_holds_for_expired_and_abandoned_instances(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, None).await;
    assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    store.turn_of("a").await;
    store.expire_locks().await;
    assert!(store.fetch_matching(Some(&below("2.0.0", "3.0.0"))).await.is_none());
    assert!(store.fetch_matching(Some(&below("1.0.0", "2.0.0"))).await.is_some());
}

/// Versions are compared as numbers, also large ones, and without their pre-release part.
pub async fn versions_compare_by_their_numbers(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("ten", "1.10.0").await;
    assert!(store.fetch_matching(Some(&filter([range("1.2.0", "1.9.0")]))).await.is_none());
    assert!(store.fetch_matching(Some(&filter([range("1.9.0", "1.11.0")]))).await.is_some());
    store.begin_pinned("pre", "3.0.0-beta.1").await;
    assert!(store.fetch_matching(Some(&filter([range("3.0.0", "3.0.0")]))).await.is_some());
    store.begin_pinned("large", "4.100000.200000").await;
    assert!(
        store.fetch_matching(Some(&filter([range("4.100000.200001", "4.100000.300000")]))).await.is_none()
    );
    assert!(
        store.fetch_matching(Some(&filter([range("4.100000.200000", "4.100000.200000")]))).await.is_some()
    );
}

/// What is ready and left out by a filter is counted by version; what backs off, waits or is locked is not ready.
pub async fn what_a_filter_leaves_out_is_counted_by_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for (instance, version) in
        [("a", "2.0.0"), ("b", "10.0.1"), ("c", "2.0.0"), ("d", "2.0.0"), ("fits", "1.0.0")]
    {
        store.begin_with(instance, |commit| commit.pinned(version)).await;
    }
    store.begin("unpinned").await;
    for instance in ["a", "b", "c", "fits", "unpinned"] {
        store.send(event(instance, "go")).await;
    }
    store.send_after(event("d", "later"), store.lock).await;
    let left_out = |filter: DispatcherCapabilityFilter| {
        let store = &store;
        async move {
            let counted = store.admin().filtered_out(&filter).await.expect("counted");
            let text = |version: Option<semver::Version>| version.map(|version| version.to_string());
            counted.into_iter().map(|each| (text(each.pinned_version), each.instances)).collect::<Vec<_>>()
        }
    };
    let version = |text: &str| Some(text.to_string());
    let ones = below("1.0.0", "2.0.0");
    assert_eq!(left_out(ones.clone()).await, [(version("2.0.0"), 2), (version("10.0.1"), 1)]);
    assert_eq!(left_out(below("0.0.0", "99.0.0")).await, []);
    let nothing = [(None, 1), (version("1.0.0"), 1), (version("2.0.0"), 2), (version("10.0.1"), 1)];
    assert_eq!(left_out(filter([])).await, nothing);
    let turn = store.fetch_matching(Some(&filter([range("10.0.0", "11.0.0")]))).await.expect("ready");
    assert_eq!(turn.item.instance, "b");
    assert_eq!(left_out(ones).await, [(version("2.0.0"), 2)], "a node has it");
}
