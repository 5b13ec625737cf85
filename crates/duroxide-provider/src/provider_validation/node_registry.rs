//! The rows of nodes: who works on the store, since when, and what they can do.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_core::{
    AcceptedTags, CapabilityRouting, HandlerSet, HandlerVersions, NodeInfo, NodeRecord, limits,
};

use super::ProviderFactory;
use super::fixture::{Store, expect_invalid, range, semver};

/// A node with `Validate` 1.0.0 and the activity `Act`, which beats once in the store's lock timeout.
pub(super) fn node(store: &Store<'_>, node_id: &str) -> NodeInfo {
    let versions =
        HandlerVersions { versions: BTreeSet::from([semver("1.0.0")]), unversioned: Some(semver("1.0.0")) };
    NodeInfo {
        node_id: node_id.to_string(),
        start_id: "first".to_string(),
        build_version: semver("1.2.3"),
        replays: vec![range("0.0.0", "1.2.3")],
        orchestrations: HandlerSet { orchestrations: [("Validate".to_string(), versions)].into() },
        activities: BTreeSet::from(["Act".to_string()]),
        tags: AcceptedTags::These { untagged: true, tags: BTreeSet::from(["gpu".to_string()]) },
        routing: CapabilityRouting::Handlers,
        heartbeat_ms: u64::try_from(store.lock.as_millis()).expect("a lock timeout is short"),
    }
}

impl Store<'_> {
    pub(super) async fn beat(&self, node: &NodeInfo) {
        self.provider.heartbeat_node(node).await.expect("the heartbeat is taken");
    }

    pub(super) async fn nodes(&self) -> Vec<NodeRecord> {
        self.provider.list_nodes().await.expect("the nodes are listed")
    }

    async fn only_node(&self) -> NodeRecord {
        let mut nodes = self.nodes().await;
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        nodes.remove(0)
    }

    /// Whether the store keeps rows of nodes. One that does not says so at every call.
    async fn has_nodes(&self) -> bool {
        if self.provider.keeps_nodes() {
            return true;
        }
        for refused in [
            self.provider.heartbeat_node(&node(self, "n")).await,
            self.provider.node_left("n").await,
            self.provider.list_nodes().await.map(drop),
        ] {
            let error = refused.expect_err("a store without rows of nodes says so");
            assert!(!error.is_retryable(), "{error}");
        }
        false
    }
}

/// A node that beats is listed with what it said about itself and the store's time.
pub async fn a_heartbeat_lists_the_node(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    assert_eq!(store.nodes().await, vec![]);
    let said = node(&store, "n");
    store.beat(&said).await;
    let record = store.only_node().await;
    assert_eq!(record.info, Some(said.clone()));
    assert_eq!((record.node_id.as_str(), record.heartbeat_ms), ("n", said.heartbeat_ms));
    assert_eq!((record.joined_at_ms, record.left_at_ms), (record.last_seen_ms, None));
    assert!(record.is_live(record.last_seen_ms));
    store.beat(&node(&store, "a")).await;
    let ids: Vec<String> = store.nodes().await.into_iter().map(|record| record.node_id).collect();
    assert_eq!(ids, ["a", "n"], "by id");
}

/// Further heartbeats move the time at which the node was seen, and bring what it can do now.
pub async fn a_node_that_goes_on_has_joined_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    let mut said = node(&store, "n");
    store.beat(&said).await;
    let first = store.only_node().await;
    factory.advance(store.lock).await;
    said.orchestrations.orchestrations.clear();
    store.beat(&said).await;
    let second = store.only_node().await;
    assert_eq!((second.joined_at_ms, second.info), (first.joined_at_ms, Some(said)));
    assert!(second.last_seen_ms >= first.last_seen_ms + first.heartbeat_ms);
}

/// A node that starts again under its name has joined anew.
pub async fn a_node_that_restarts_joins_anew(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    store.beat(&node(&store, "n")).await;
    let first = store.only_node().await;
    factory.advance(store.lock).await;
    store.beat(&NodeInfo { start_id: "second".to_string(), ..node(&store, "n") }).await;
    let second = store.only_node().await;
    assert!(second.joined_at_ms > first.joined_at_ms);
    assert_eq!(second.joined_at_ms, second.last_seen_ms);
}

/// A node that was silent for more than three heartbeats was gone, and has joined anew when it is back.
pub async fn a_node_that_was_silent_joins_anew(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    store.beat(&node(&store, "n")).await;
    let first = store.only_node().await;
    factory.advance(store.lock * 3 + Duration::from_millis(1)).await;
    assert!(!first.is_live(first.last_seen_ms + 3 * first.heartbeat_ms + 1));
    store.beat(&node(&store, "n")).await;
    let second = store.only_node().await;
    assert_eq!(second.joined_at_ms, second.last_seen_ms);
    assert!(second.joined_at_ms > first.joined_at_ms);
}

/// A node that left stays listed as such, until it comes back.
pub async fn a_node_that_left_is_listed_as_such(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    store.provider.node_left("never seen").await.expect("nothing to note");
    store.beat(&node(&store, "n")).await;
    factory.advance(Duration::from_millis(5)).await;
    store.provider.node_left("n").await.expect("noted");
    let left = store.only_node().await;
    let left_at = left.left_at_ms.expect("it has left");
    assert!(left_at > left.last_seen_ms && !left.is_live(left.last_seen_ms));
    factory.advance(Duration::from_millis(5)).await;
    store.provider.node_left("n").await.expect("noted already");
    assert_eq!(store.only_node().await, left);
    store.beat(&node(&store, "n")).await;
    let back = store.only_node().await;
    assert_eq!((back.left_at_ms, back.joined_at_ms), (None, back.last_seen_ms));
    assert!(back.joined_at_ms > left_at);
}

/// The row of a node that nobody has heard of for a day is gone.
pub async fn a_node_is_forgotten_after_a_day(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !factory.has_manual_clock() || !store.has_nodes().await {
        return;
    }
    store.beat(&node(&store, "old")).await;
    store.beat(&NodeInfo { heartbeat_ms: limits::NODE_RETENTION_MS, ..node(&store, "slow") }).await;
    factory.advance(Duration::from_millis(limits::NODE_RETENTION_MS)).await;
    let ids = |nodes: Vec<NodeRecord>| nodes.into_iter().map(|node| node.node_id).collect::<Vec<_>>();
    assert_eq!(ids(store.nodes().await), ["old", "slow"], "a day is not over");
    factory.advance(Duration::from_millis(1)).await;
    assert_eq!(ids(store.nodes().await), ["slow"], "one that beats less often is kept for longer");
    store.beat(&node(&store, "new")).await;
    assert_eq!(ids(store.nodes().await), ["new", "slow"]);
}

/// A node that makes no sense is refused and changes nothing.
pub async fn a_node_that_makes_no_sense_is_refused(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.has_nodes().await {
        return;
    }
    let too_long = "n".repeat(limits::MAX_NAME_BYTES + 1);
    for node_id in ["", " ", too_long.as_str()] {
        expect_invalid(store.provider.heartbeat_node(&node(&store, node_id)).await);
        expect_invalid(store.provider.node_left(node_id).await);
    }
    let never = NodeInfo { heartbeat_ms: 0, ..node(&store, "n") };
    expect_invalid(store.provider.heartbeat_node(&never).await);
    assert_eq!(store.nodes().await, vec![]);
    let longest = "n".repeat(limits::MAX_NAME_BYTES);
    store.beat(&NodeInfo { heartbeat_ms: u64::MAX, ..node(&store, &longest) }).await;
    let record = store.only_node().await;
    assert!(record.is_live(record.last_seen_ms) && record.node_id == longest);
}
