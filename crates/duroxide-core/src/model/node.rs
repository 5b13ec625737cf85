//! The row of a node: what it says about itself, and what follows from it for work that waits.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::capability::in_ranges;
use super::{HandlerSet, RoutingKey, SemverRange, limits};

/// Heartbeats that a live node may miss.
pub const HEARTBEATS_UNTIL_GONE: u64 = 3;

/// Which tags a node's worker accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcceptedTags {
    /// Every activity, tagged or not.
    Any,
    /// Activities without a tag if `untagged`, and those with one of these tags.
    These {
        /// Whether activities without a tag are accepted.
        untagged: bool,
        /// The tags that are accepted.
        tags: BTreeSet<String>,
    },
}

impl AcceptedTags {
    /// Whether an activity with this tag is accepted.
    pub fn accepts(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (Self::Any, _) => true,
            (Self::These { untagged, .. }, None) => *untagged,
            (Self::These { tags, .. }, Some(tag)) => tags.contains(tag),
        }
    }
}

/// How a node chooses what it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CapabilityRouting {
    /// Everything whose pinned version it replays. What it has no handler for is given back with a backoff.
    #[default]
    ReplayVersion,
    /// Of that, only what it has registered: orchestrations by name and version, activities by name. Nothing
    /// bounces. Needs a store that can (`Provider::routes_by_handler`); on others it is `ReplayVersion`.
    Handlers,
}

/// What a node says about itself with every heartbeat. Stored as JSON: fields that are added later are optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The node's name. One that stays over restarts names the same node.
    pub node_id: String,
    /// Random, made when the runtime starts: tells a node that came back from one that went on.
    pub start_id: String,
    /// The version of its build.
    pub build_version: Version,
    /// The pinned versions that it replays.
    pub replays: Vec<SemverRange>,
    /// Its orchestrations with their versions.
    pub orchestrations: HandlerSet,
    /// Its activities.
    pub activities: BTreeSet<String>,
    /// The tags that its worker accepts.
    pub tags: AcceptedTags,
    /// How it chooses what it fetches.
    pub routing: CapabilityRouting,
    /// How often it says so.
    pub heartbeat_ms: u64,
}

impl NodeInfo {
    /// Checks what a store is given.
    pub fn check(&self) -> Result<(), String> {
        check_node_id(&self.node_id)?;
        if self.heartbeat_ms == 0 {
            return Err(
                "the heartbeat interval is 0 ms: a node that is never due would never be gone".to_string()
            );
        }
        Ok(())
    }

    /// Whether it replays executions with this packed version.
    pub fn can_replay(&self, pinned: Option<i64>) -> bool {
        in_ranges(&self.replays, pinned)
    }

    /// Whether it can run the next turn of an instance, however it routes.
    pub fn can_run(&self, key: &RoutingKey) -> bool {
        self.can_replay(key.pinned) && self.orchestrations.has(&key.route)
    }

    /// Whether it can run an activity.
    pub fn can_do(&self, activity: &str, tag: Option<&str>) -> bool {
        self.tags.accepts(tag) && self.activities.contains(activity)
    }
}

/// 24 bits, not all zero, that stand for a run of a node in the numbers of its locks. Nodes of several builds must agree
/// on them, so the function never changes.
pub fn lock_holder_bits(start_id: &str) -> u32 {
    let bits = super::first_input::fingerprint(start_id) & 0x00ff_ffff;
    u32::try_from(bits).map_or(1, |bits| bits.max(1))
}

/// Checks the name of a node.
pub fn check_node_id(node_id: &str) -> Result<(), String> {
    super::check_name("node id", node_id)
}

/// A node as the store knows it. Times are the store's, in ms since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node's name.
    pub node_id: String,
    /// What it said about itself last; `None` when another build wrote it in a form that this one cannot read. Such
    /// a node is taken to be able to do everything.
    pub info: Option<NodeInfo>,
    /// How often it means to be heard of.
    pub heartbeat_ms: u64,
    /// When it was first heard of, since it started or came back after a silence of three heartbeats.
    pub joined_at_ms: u64,
    /// When it was last heard of.
    pub last_seen_ms: u64,
    /// When it said that it leaves.
    pub left_at_ms: Option<u64>,
}

impl NodeRecord {
    /// The record after a heartbeat. `before` is the stored one, if there is one.
    pub fn after_heartbeat(before: Option<&Self>, info: &NodeInfo, now_ms: u64) -> Self {
        let goes_on = before.filter(|before| {
            let same_start = before.info.as_ref().is_some_and(|known| known.start_id == info.start_id);
            same_start && before.is_live(now_ms)
        });
        Self {
            node_id: info.node_id.clone(),
            info: Some(info.clone()),
            heartbeat_ms: info.heartbeat_ms,
            joined_at_ms: goes_on.map_or(now_ms, |before| before.joined_at_ms),
            last_seen_ms: now_ms,
            left_at_ms: None,
        }
    }

    /// How long it may be silent.
    fn patience_ms(&self) -> u64 {
        self.heartbeat_ms.saturating_mul(HEARTBEATS_UNTIL_GONE)
    }

    /// Whether it was heard of within three of its heartbeats and has not left.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.left_at_ms.is_none() && self.was_seen_within(0, now_ms)
    }

    /// Whether it was heard of within this time, or within three of its heartbeats if that is longer.
    pub fn was_seen_within(&self, time_ms: u64, now_ms: u64) -> bool {
        self.last_seen_ms.saturating_add(self.patience_ms().max(time_ms)) >= now_ms
    }

    /// Whether nobody needs to know of it any more.
    pub fn is_forgotten(&self, now_ms: u64) -> bool {
        !self.was_seen_within(limits::NODE_RETENTION_MS, now_ms)
    }

    /// Whether it can run the next turn of an instance.
    pub fn can_run(&self, key: &RoutingKey) -> bool {
        self.info.as_ref().is_none_or(|info| info.can_run(key))
    }

    /// Whether it can run an activity.
    pub fn can_do(&self, activity: &str, tag: Option<&str>) -> bool {
        self.info.as_ref().is_none_or(|info| info.can_do(activity, tag))
    }
}
