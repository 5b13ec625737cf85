//! Work that no node can do: it is found and named, and locked to be ended only when nobody could be wronged.

use std::time::Duration;

use duroxide_core::{MissingCapability, Need, NodeInfo, Route, RoutingKey, UnprocessableWork, pack_version};

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, cancel, event, routed_activity, semver, start, timer};
use super::node_registry::node;
use crate::{FetchedTurn, FetchedWork, SweepRequest, WorkItem};

/// A little, so that times differ.
const MOMENT: Duration = Duration::from_millis(5);

impl Store<'_> {
    /// Whether the store sweeps. One that does not says so at every call.
    async fn has_sweeper(&self) -> bool {
        if self.provider.sweeps() {
            return true;
        }
        for refused in [
            self.provider.find_unprocessable_work().await.map(drop),
            self.provider.fetch_unprocessable_turns(self.sweep(1)).await.map(drop),
            self.provider.fetch_unprocessable_work(self.sweep(1)).await.map(drop),
        ] {
            let error = refused.expect_err("a store that does not sweep says so");
            assert!(!error.is_retryable(), "{error}");
        }
        false
    }

    /// Asks for what has waited as long as a lock lasts, which is a heartbeat of [`node`].
    fn sweep(&self, max_items: usize) -> SweepRequest {
        SweepRequest { end_after: self.lock, lock_timeout: self.lock, max_items }
    }

    async fn findings(&self) -> Vec<UnprocessableWork> {
        self.provider.find_unprocessable_work().await.expect("a look does not fail")
    }

    async fn found(&self) -> Vec<(Need, u64, MissingCapability)> {
        let mut found: Vec<_> =
            self.findings().await.into_iter().map(|work| (work.what, work.count, work.missing)).collect();
        found.sort();
        found
    }

    async fn waits_for(&self, name: &str) -> Duration {
        let found = self.findings().await;
        let of_name = found.iter().find(|work| work.what == work_need(name, None));
        of_name.expect("it waits").oldest_age
    }

    async fn swept_turns(&self, max_items: usize) -> Vec<FetchedTurn> {
        let request = self.sweep(max_items);
        self.provider.fetch_unprocessable_turns(request).await.expect("a sweep does not fail")
    }

    async fn swept_work(&self, max_items: usize) -> Vec<FetchedWork> {
        let request = self.sweep(max_items);
        self.provider.fetch_unprocessable_work(request).await.expect("a sweep does not fail")
    }

    async fn expect_nothing_swept(&self, why: &str) {
        let (turns, work) = (self.swept_turns(9).await, self.swept_work(9).await);
        assert!(turns.is_empty() && work.is_empty(), "{why}: {turns:?} {work:?}");
    }

    /// Lets pass what a sweep asks for, with these nodes beating before and after.
    async fn wait_long_enough(&self, nodes: &[&NodeInfo]) {
        for _ in 0..2 {
            for node in nodes {
                self.beat(node).await;
            }
            self.factory.advance(self.lock + MOMENT).await;
        }
        for node in nodes {
            self.beat(node).await;
        }
    }
}

fn named(mut item: WorkItem, name: &str, asked: Option<&str>) -> WorkItem {
    if let WorkItem::StartOrchestration { orchestration, version, .. } = &mut item {
        *orchestration = name.to_string();
        *version = asked.map(str::to_string);
    } else if let WorkItem::ActivityExecute { name: activity, .. } = &mut item {
        *activity = name.to_string();
    }
    item
}

fn turn_need(pinned: Option<&str>, route: Route) -> Need {
    Need::Turn(RoutingKey { pinned: pinned.map(|version| pack_version(&semver(version))), route })
}

fn work_need(name: &str, tag: Option<&str>) -> Need {
    Need::Activity { name: name.to_string(), tag: tag.map(str::to_string) }
}

/// What waits is named with what is missing; what a live node can do is not.
pub async fn what_no_live_node_can_do_is_named(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    store.begin_with("future", |commit| commit.pinned("99.0.0")).await;
    store.begin_pinned("fine", "1.0.0").await;
    store.send(event("future", "go")).await;
    store
        .send_all([
            named(start("unknown 1"), "Unknown", None),
            named(start("unknown 2"), "Unknown", None),
            named(start("later"), "Validate", Some("9.9.9")),
            named(start("also fine"), "Validate", None),
        ])
        .await;
    store.queue_work(named(activity("a", 1), "Other", None)).await;
    store.queue_work(named(routed_activity("a", 2, Some("s"), None), "Other", None)).await;
    store.queue_work(routed_activity("a", 3, None, Some("disk"))).await;
    store.queue_work(routed_activity("a", 4, Some("s"), Some("gpu"))).await;
    store.queue_work(activity("a", 5)).await;
    store.beat(&node(&store, "n")).await;
    let exact = |version: &str| Route::new("Validate", Some(version));
    let mut expected = vec![
        (turn_need(None, Route::new("Unknown", None)), 2, MissingCapability::Orchestration),
        (turn_need(None, exact("9.9.9")), 1, MissingCapability::OrchestrationVersion),
        (turn_need(Some("99.0.0"), exact("1.0.0")), 1, MissingCapability::ReplayVersion),
        (work_need("Act", Some("disk")), 1, MissingCapability::Tag),
        (work_need("Other", None), 2, MissingCapability::Activity),
    ];
    expected.sort();
    assert_eq!(store.found().await, expected);
    let mut with_rest = node(&store, "rest");
    with_rest.activities = ["Other".to_string()].into();
    with_rest.tags =
        duroxide_core::AcceptedTags::These { untagged: false, tags: ["disk".to_string()].into() };
    store.beat(&with_rest).await;
    let found = store.found().await;
    assert!(
        found.contains(&(work_need("Act", Some("disk")), 1, MissingCapability::OneNodeWithAll)),
        "{found:?}"
    );
}

/// Without a live node nothing can be done, and that is what is missing.
pub async fn without_a_live_node_everything_is_named(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    assert_eq!(store.findings().await, vec![]);
    store.send(start("a")).await;
    store.queue_work(activity("a", 1)).await;
    let mut expected = vec![
        (turn_need(None, Route::new("Validate", None)), 1, MissingCapability::LiveNode),
        (work_need("Act", None), 1, MissingCapability::LiveNode),
    ];
    expected.sort();
    assert_eq!(store.found().await, expected);
    store.beat(&node(&store, "n")).await;
    assert_eq!(store.found().await, vec![]);
    store.provider.node_left("n").await.expect("noted");
    assert_eq!(store.found().await, expected);
}

/// What is locked, or not due, does not wait. The age is that of the wait, not of the instance.
pub async fn only_what_waits_is_counted_and_since_then(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    store.begin("a").await;
    store.send(timer("a", 2, u64::MAX)).await;
    store.send_after(start("later"), Duration::from_secs(60 * 60)).await;
    store.queue_work(activity("a", 1)).await;
    let work = store.work().await;
    assert_eq!(store.found().await, vec![], "locked, or due in the far future");
    store.complete(&work).await;
    store.pass(&store.turn_of("a").await).await;
    factory.advance(store.lock).await;
    store.send(event("a", "go")).await;
    factory.advance(MOMENT).await;
    let found = store.findings().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found.iter().all(|work| work.oldest_age >= MOMENT && work.oldest_age < store.lock), "{found:?}");
    let turn = store.turn_of("a").await;
    assert_eq!(store.found().await, vec![], "a turn is under way");
    store.abandon(&turn, Some(Duration::from_secs(60))).await;
    assert_eq!(store.found().await.len(), 1, "one that backs off waits");
}

/// An activity that was given back with a delay is found at every moment of it, and its wait goes on. Only while an
/// attempt is under way it does not wait.
pub async fn an_activity_that_backs_off_waits_since_it_was_queued(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    store.queue_work(activity("a", 1)).await;
    store.queue_work(named(routed_activity("a", 2, Some("s"), None), "Other", None)).await;
    factory.advance(MOMENT).await;
    let other = (work_need("Other", None), 1, MissingCapability::LiveNode);
    let backs_off = (work_need("Act", None), 1, MissingCapability::LiveNode);
    for attempt in 1..=3 {
        let work = store.work().await;
        assert_eq!((store.found().await, work.attempts), (vec![other.clone()], attempt), "under way");
        store.abandon_work(&work, Some(store.lock), false).await;
        for _ in 0..2 {
            assert_eq!(store.found().await, [backs_off.clone(), other.clone()], "after {attempt} attempts");
            let waited = store.waits_for("Act").await;
            assert!(waited >= MOMENT + store.lock * (attempt - 1), "{waited:?} after {attempt} attempts");
            factory.advance(store.lock / 2).await;
        }
    }
    let work = store.work().await;
    store.abandon_work(&work, None, true).await;
    assert!(store.waits_for("Act").await >= MOMENT + store.lock * 3, "given back without a delay");
}

/// An instance with a cancel needs no handler: any node that replays it will do.
pub async fn a_cancelled_instance_is_anybody_s(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    let nobody = NodeInfo { orchestrations: Default::default(), ..node(&store, "n") };
    store.beat(&nobody).await;
    store.begin_with("a", |commit| commit.pinned("1.0.0")).await;
    store.begin_pinned("b", "99.0.0").await;
    store.send(event("a", "go")).await;
    assert_eq!(store.found().await.len(), 2);
    store.send_all([cancel("a"), cancel("b")]).await;
    let expected = (turn_need(Some("99.0.0"), Route::AnyNode), 1, MissingCapability::ReplayVersion);
    assert_eq!(store.found().await, vec![expected]);
}

/// Nothing is ended without a live node, nor soon after one joined, nor while one could do it.
pub async fn nothing_is_swept_while_somebody_may_come(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    store.send(named(start("a"), "Unknown", None)).await;
    store.queue_work(named(activity("a", 1), "Other", None)).await;
    factory.advance(store.lock + MOMENT).await;
    store.expect_nothing_swept("there is no node").await;
    let here = node(&store, "here");
    store.beat(&here).await;
    store.expect_nothing_swept("a node joined just now").await;
    store.wait_long_enough(&[&here]).await;
    let mut able = node(&store, "able");
    able.activities = ["Other".to_string()].into();
    able.orchestrations.orchestrations.insert("Unknown".to_string(), here_versions(&here));
    store.wait_long_enough(&[&here, &able]).await;
    store.expect_nothing_swept("a live node can do it").await;
    store.provider.node_left("able").await.expect("noted");
    factory.advance(store.lock + MOMENT).await;
    store.beat(&here).await;
    store.expect_nothing_swept("a node that could do it was here just now").await;
    store.wait_long_enough(&[&here]).await;
    let again = NodeInfo { start_id: "again".to_string(), ..here.clone() };
    store.beat(&again).await;
    store.expect_nothing_swept("a node started again").await;
    store.wait_long_enough(&[&again]).await;
    let (turns, work) = (store.swept_turns(9).await, store.swept_work(9).await);
    assert_eq!((turns.len(), work.len()), (1, 1), "and now nobody can be wronged");
}

fn here_versions(here: &NodeInfo) -> duroxide_core::HandlerVersions {
    here.orchestrations.orchestrations.get("Validate").cloned().expect("the node has it")
}

/// What is swept is locked and counted as by a fetch, and ended by the ordinary ack.
pub async fn what_is_swept_is_locked_and_can_be_ended(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    let here = node(&store, "here");
    store.begin_with("future", |commit| commit.pinned("99.0.0").work([activity("future", 2)])).await;
    store.send(event("future", "go")).await;
    factory.advance(MOMENT).await;
    store.send(named(start("a"), "Unknown", None)).await;
    factory.advance(MOMENT).await;
    store.send_all([named(start("b"), "Unknown", Some("1.0.0")), start("fine")]).await;
    store.queue_work(named(activity("a", 1), "Other", None)).await;
    factory.advance(MOMENT).await;
    store.queue_work(named(routed_activity("a", 2, Some("s"), Some("disk")), "Other", None)).await;
    store.wait_long_enough(&[&here]).await;
    let first = store.swept_turns(2).await;
    let instances: Vec<&str> = first.iter().map(|turn| turn.item.instance.as_str()).collect();
    assert_eq!(instances, ["future", "a"], "those that have been ready longest");
    let whole = first.first().map(|turn| (turn.item.history.len(), turn.item.messages.clone()));
    assert_eq!(whole, Some((1, vec![event("future", "go")])));
    assert!(first.iter().all(|turn| turn.attempts == 1 && turn.facts.is_some()));
    let rest = store.swept_turns(9).await;
    assert_eq!(rest.iter().map(|turn| turn.item.instance.as_str()).collect::<Vec<_>>(), ["b"]);
    for swept in first.into_iter().chain(rest) {
        let turn =
            super::fixture::Turn { item: swept.item, token: swept.lock_token, attempts: swept.attempts };
        store.commit(&turn, Commit::of(&turn).fails("poison")).await;
    }
    let work = store.swept_work(9).await;
    let items: Vec<WorkItem> = work.iter().map(|work| work.item.clone()).collect();
    let tagged = named(routed_activity("a", 2, Some("s"), Some("disk")), "Other", None);
    assert_eq!(items, [named(activity("a", 1), "Other", None), tagged]);
    for work in work {
        store.provider.ack_work_item(&work.lock_token, None).await.expect("ended");
    }
    store.expect_nothing_swept("all is ended").await;
    assert_eq!(store.findings().await, vec![]);
    assert_eq!(store.turn_of("fine").await.attempts, 1, "what can be done was left alone");
}

/// Only what has itself waited long enough is ended.
pub async fn what_has_not_waited_long_is_left(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_sweeper().await {
        return;
    }
    let here = node(&store, "here");
    store.wait_long_enough(&[&here]).await;
    store.send(named(start("a"), "Unknown", None)).await;
    store.queue_work(named(activity("a", 1), "Other", None)).await;
    factory.advance(MOMENT).await;
    store.expect_nothing_swept("it came just now").await;
    factory.advance(store.lock).await;
    let turns = store.swept_turns(9).await;
    assert_eq!(turns.len(), 1);
    store.expire_locks().await;
    store.beat(&here).await;
    let again = store.swept_turns(9).await;
    assert_eq!(again.first().map(|turn| turn.attempts), Some(2), "a sweep that died is made up for");
}
