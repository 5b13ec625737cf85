//! Work that waits and that no node can do: finding it, naming what is missing, and when it may be ended.

use std::fmt;

use super::{NodeRecord, Route, RoutingKey, unpack_version};

/// Something that waits, by what it needs of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The next turn of instances with this key.
    Turn(RoutingKey),
    /// An activity.
    Activity {
        /// Its name.
        name: String,
        /// Its tag.
        tag: Option<String>,
    },
}

impl Need {
    /// Whether a node can do it.
    pub fn is_met_by(&self, node: &NodeRecord) -> bool {
        match self {
            Self::Turn(key) => node.can_run(key),
            Self::Activity { name, tag } => node.can_do(name, tag.as_deref()),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(key) => {
                match &key.route {
                    Route::AnyNode => f.write_str("an orchestration")?,
                    Route::Unversioned { name } => write!(f, "orchestration '{name}'")?,
                    Route::Exact { name, version } => write!(f, "orchestration '{name}' {version}")?,
                }
                match key.pinned {
                    Some(pinned) => write!(f, ", pinned to {}", unpack_version(pinned)),
                    None => Ok(()),
                }
            }
            Self::Activity { name, tag: None } => write!(f, "activity '{name}'"),
            Self::Activity { name, tag: Some(tag) } => write!(f, "activity '{name}' with tag '{tag}'"),
        }
    }
}

/// The first thing that keeps every live node from doing what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingCapability {
    /// There is no live node.
    LiveNode,
    /// None replays the version that the execution is pinned to.
    ReplayVersion,
    /// None has the orchestration, in any version, or none runs orchestrations at all.
    Orchestration,
    /// Some have the orchestration, none in the version that is needed, or none that chooses one.
    OrchestrationVersion,
    /// None accepts the tag.
    Tag,
    /// None has the activity.
    Activity,
    /// Each part is there, but not all on one node.
    OneNodeWithAll,
}

impl fmt::Display for MissingCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LiveNode => "there is no live node",
            Self::ReplayVersion => "no live node replays the version that it is pinned to",
            Self::Orchestration => "no live node has the orchestration",
            Self::OrchestrationVersion => "no live node has this version of the orchestration",
            Self::Tag => "no live node accepts the tag",
            Self::Activity => "no live node has the activity",
            Self::OneNodeWithAll => "no live node has all of it: each part is on another one",
        })
    }
}

/// Work that waits and that no live node can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnprocessableWork {
    /// What it is.
    pub what: Need,
    /// How many instances or activities wait.
    pub count: u64,
    /// How long the oldest of them has.
    pub oldest_age: std::time::Duration,
    /// What is missing.
    pub missing: MissingCapability,
}

impl fmt::Display for UnprocessableWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, count, oldest_age, missing } = self;
        write!(f, "{what}: {missing} ({count} waiting, the oldest for {} s)", oldest_age.as_secs())
    }
}

/// The order in which findings are told: the longest wait first.
pub fn sort_findings(found: &mut [UnprocessableWork]) {
    found.sort_by(|one, two| (two.oldest_age, &one.what).cmp(&(one.oldest_age, &two.what)));
}

/// What keeps all live nodes from doing it; `None` if one can.
pub fn missing_capability(nodes: &[NodeRecord], now_ms: u64, what: &Need) -> Option<MissingCapability> {
    let live = || nodes.iter().filter(|node| node.is_live(now_ms));
    if live().any(|node| what.is_met_by(node)) {
        return None;
    }
    let infos: Vec<_> = live().filter_map(|node| node.info.as_ref()).collect();
    if infos.is_empty() {
        return Some(MissingCapability::LiveNode);
    }
    Some(match what {
        Need::Turn(key) => {
            // A node that replays nothing runs no orchestrations.
            let infos: Vec<_> = infos.iter().filter(|info| !info.replays.is_empty()).collect();
            if infos.is_empty() {
                return Some(MissingCapability::Orchestration);
            }
            let replayed = infos.iter().any(|info| info.can_replay(key.pinned));
            let (name, _) = key.route.columns();
            let known = infos.iter().any(|info| info.orchestrations.orchestrations.contains_key(name));
            let handled = infos.iter().any(|info| info.orchestrations.has(&key.route));
            match (replayed, known, handled) {
                (false, _, _) => MissingCapability::ReplayVersion,
                (true, _, true) => MissingCapability::OneNodeWithAll,
                (true, true, false) => MissingCapability::OrchestrationVersion,
                (true, false, false) => MissingCapability::Orchestration,
            }
        }
        Need::Activity { name, tag } => {
            let accepted = infos.iter().any(|info| info.tags.accepts(tag.as_deref()));
            let known = infos.iter().any(|info| info.activities.contains(name));
            match (accepted, known) {
                (_, false) => MissingCapability::Activity,
                (false, true) => MissingCapability::Tag,
                (true, true) => MissingCapability::OneNodeWithAll,
            }
        }
    })
}

/// When work that nobody can do may be ended. All of it is judged inside the transaction that locks the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndingRule<'a> {
    nodes: &'a [NodeRecord],
    now_ms: u64,
    end_after_ms: u64,
}

impl<'a> EndingRule<'a> {
    /// The rule at this moment; `None` when nothing at all may be ended: there is no live node, or one joined
    /// within `end_after_ms`, so that a roll-out may be under way.
    pub fn new(nodes: &'a [NodeRecord], now_ms: u64, end_after_ms: u64) -> Option<Self> {
        let lives = nodes.iter().any(|node| node.is_live(now_ms));
        let settled = nodes.iter().all(|node| node.joined_at_ms.saturating_add(end_after_ms) <= now_ms);
        (lives && settled).then_some(Self { nodes, now_ms, end_after_ms })
    }

    /// Whether no node could do it that was seen within `end_after_ms`, or within three of its heartbeats if that
    /// is longer. One that has left counts as long: it may be on its way back with new code.
    pub fn is_out_of_reach(&self, what: &Need) -> bool {
        let seen = |node: &&NodeRecord| node.was_seen_within(self.end_after_ms, self.now_ms);
        !self.nodes.iter().filter(seen).any(|node| what.is_met_by(node))
    }

    /// Since when work must have waited to be ended now.
    pub fn waiting_since_ms(&self) -> u64 {
        self.now_ms.saturating_sub(self.end_after_ms)
    }
}
