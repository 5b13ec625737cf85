//! What a fetch gives and, for stores that can do more than the plain trait, what it may ask.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    BounceCause, DispatcherCapabilityFilter, Event, HandlerSet, KvEntry, ParentLink, WorkItem,
};

use super::{ExpiredLock, LockHolder, TagFilter};

/// An instance that was locked for a turn, with the messages to admit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestrationItem {
    /// The instance.
    pub instance: String,
    /// The orchestration's name.
    pub orchestration_name: String,
    /// The current execution.
    pub execution_id: u64,
    /// The version that runs it, or the one asked for while it has not begun; empty when neither is known.
    pub version: String,
    /// The events of the current execution; empty before its first turn and when `history_error` is set.
    pub history: Vec<Event>,
    /// The locked messages, in the order in which they are admitted.
    pub messages: Vec<WorkItem>,
    /// Set when a stored event, or a message the instance cannot do without, does not decode:
    /// `event at position N: cause` or `message at position N: cause`.
    pub history_error: Option<String>,
    /// The KV store at the start of the turn. May be empty where the history is held: only the first turn of an
    /// execution looks at it.
    pub kv_snapshot: HashMap<String, KvEntry>,
}

/// Whose sessions a worker fetches activities for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFetchConfig {
    /// The owner that a free session is claimed for.
    pub owner_id: String,
    /// How long a claim holds without renewal.
    pub lock_timeout: Duration,
}

/// How far a fetch may go with sessions. A store without the extension knows no limits.
///
/// An activity is *in progress* while a live lock holds its work item. A claimed session without one is *idle*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// How many sessions of the owner may have activities in progress at the same time. At this number no activity
    /// of a free or idle session is handed out; sessions with activities in progress are served on. Idle sessions
    /// do not count, however many the owner has claimed.
    ///
    /// A fetch at this number also gives up the owner's claims on idle sessions that have an activity which the
    /// fetch would take otherwise: another owner may have room for them. A store may look at the oldest of many
    /// waiting sessions only.
    pub max_running: usize,
    /// Whether several activities of one session may be in progress.
    pub overlap: SessionOverlap,
}

impl SessionLimits {
    /// What the plain method asks for.
    pub const NONE: Self = Self { max_running: usize::MAX, overlap: SessionOverlap::Parallel };
}

/// Whether several activities of one session may be in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOverlap {
    /// A session with an activity in progress is passed over.
    OneAtATime,
    /// They may.
    Parallel,
}

/// How many suspects a fetch may return: items whose previous attempt ended by lock expiry.
///
/// A process runs few of those that its predecessors died with again and again, so that what kills it is charged alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspects {
    /// Leave suspects in the queue, uncounted.
    Refuse,
    /// Return at most this many, at least 1.
    AtMost(usize),
}

impl Suspects {
    /// At most this many; none if it is 0.
    pub fn at_most(limit: usize) -> Self {
        if limit == 0 { Self::Refuse } else { Self::AtMost(limit) }
    }

    /// How many may be returned.
    pub fn limit(self) -> usize {
        match self {
            Self::Refuse => 0,
            Self::AtMost(limit) => limit.max(1),
        }
    }

    /// What is left after one was returned.
    #[must_use]
    pub fn after_one(self) -> Self {
        Self::at_most(self.limit().saturating_sub(1))
    }

    /// Whether one may be returned.
    pub fn are_admitted(self) -> bool {
        self.limit() > 0
    }
}

/// A fetch of several instances at once.
#[derive(Clone)]
pub struct TurnRequest {
    /// How long the locks hold without renewal.
    pub lock_timeout: Duration,
    /// How long to wait for the first item.
    pub poll_timeout: Duration,
    /// What the node can process.
    pub filter: Option<DispatcherCapabilityFilter>,
    /// The orchestrations that the node can run, if it routes by handler: only instances with a
    /// [`RoutingKey`](duroxide_core::RoutingKey) that [`may_fetch`](duroxide_core::may_fetch) accepts are fetched.
    /// A store without the extension takes no notice.
    pub handlers: Option<Arc<HandlerSet>>,
    /// At most this many items, at least 1.
    pub max_items: usize,
    /// How many suspects may be among them.
    pub suspects: Suspects,
    /// The run of a node that the locks are for.
    pub holder: LockHolder,
    /// Which histories the node holds in memory.
    pub held: Arc<dyn HeldHistories>,
}

/// Tells a store which part of a history need not be read again.
pub trait HeldHistories: Send + Sync {
    /// What the node holds of this instance. Called inside the fetch's transaction: must not block.
    fn held(&self, instance: &str) -> Option<HeldHistory>;
}

/// Holds nothing: every history is read whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingHeld;

impl HeldHistories for NothingHeld {
    fn held(&self, _instance: &str) -> Option<HeldHistory> {
        None
    }
}

/// A history held in memory, named so exactly that it cannot be taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldHistory {
    /// The instance's incarnation.
    pub incarnation: u64,
    /// The execution.
    pub execution_id: u64,
    /// The last event held.
    pub last_event_id: u64,
}

/// One instance of a [`TurnRequest`]'s answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTurn {
    /// The instance and its messages.
    pub item: OrchestrationItem,
    /// Names the lock.
    pub lock_token: String,
    /// The highest attempt count among the messages, this fetch included.
    pub attempts: u32,
    /// What only a store that implements the extension can tell.
    pub facts: Option<TurnFacts>,
}

/// What a store tells besides the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFacts {
    /// The store's time at the fetch: the `now` of the turn.
    pub now_ms: u64,
    /// Whether the previous attempt ended by lock expiry.
    pub suspect: bool,
    /// The lock that expired, if it did and the row still names it.
    pub expired: Option<ExpiredLock>,
    /// Tells an instance from a later one with the same id.
    pub incarnation: u64,
    /// When the instance was started: the beginning of its first execution.
    pub created_at_ms: u64,
    /// The last event of the current execution, 0 before its first turn. From a column, also when the
    /// history cannot be decoded.
    pub last_event_id: u64,
    /// Who waits for the result. From columns, also when the history cannot be decoded.
    pub parent: Option<ParentLink>,
    /// Which part of the history `item.history` is.
    pub history: HistoryPart,
    /// Why the instance was last given back; `None` if it was not since a turn of it was committed, or if the store
    /// keeps no causes.
    pub last_cause: Option<BounceCause>,
}

/// Which part of a history was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryPart {
    /// All of it.
    Whole,
    /// Nothing: what the node holds is exactly what is stored.
    Held,
}

/// A fetch of several work items at once.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// How long the locks hold without renewal.
    pub lock_timeout: Duration,
    /// How long to wait for the first item.
    pub poll_timeout: Duration,
    /// Whose sessions to serve; `None` means activities without a session only.
    pub session: Option<SessionFetchConfig>,
    /// How far it may go with sessions.
    pub session_limits: SessionLimits,
    /// Which tags to accept.
    pub tags: TagFilter,
    /// The activities that the node can run, if it routes by handler: no others are fetched. A store without the
    /// extension takes no notice.
    pub activities: Option<Arc<BTreeSet<String>>>,
    /// At most this many items, at least 1.
    pub max_items: usize,
    /// How many suspects may be among them.
    pub suspects: Suspects,
    /// The run of a node that the locks are for.
    pub holder: LockHolder,
}

/// Locks work that no node can do, so that it can be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepRequest {
    /// How long it must have waited, and how long the cluster must have been as it is: see
    /// [`EndingRule`](duroxide_core::EndingRule).
    pub end_after: Duration,
    /// How long the locks hold without renewal.
    pub lock_timeout: Duration,
    /// At most this many items, at least 1.
    pub max_items: usize,
}

/// One item of a [`WorkRequest`]'s answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedWork {
    /// The activity.
    pub item: WorkItem,
    /// Names the lock.
    pub lock_token: String,
    /// How often it was fetched, this fetch included, without the attempts that were forgiven.
    pub attempts: u32,
    /// How many attempts were [forgiven](super::Provider::forgive_attempt).
    pub forgiven: u32,
    /// Whether the previous attempt ended by lock expiry.
    pub suspect: bool,
    /// The lock that expired, if it did and the row still names it.
    pub expired: Option<ExpiredLock>,
    /// The orchestration that scheduled it, from the instance's row; `None` if the store does not tell.
    pub orchestration: Option<OrchestrationRef>,
    /// What an earlier attempt reported last; `None` if nothing, or if the store keeps no progress.
    pub progress: Option<String>,
    /// Why it was last given back; `None` if it was not, or if the store keeps no causes.
    pub last_cause: Option<BounceCause>,
}

/// An orchestration by name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestrationRef {
    /// Its name.
    pub name: String,
    /// The version that runs.
    pub version: String,
}

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitUntil<'a> {
    /// The instance has ended.
    Terminal,
    /// The custom status has a later version than this.
    CustomStatusAfter(u64),
    /// The KV store has a value for this key.
    KvValue(&'a str),
}

/// The plain methods as an extended fetch of one item would ask for them.
#[doc(hidden)]
pub fn one_turn(
    lock_timeout: Duration,
    poll_timeout: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> TurnRequest {
    TurnRequest {
        lock_timeout,
        poll_timeout,
        filter: filter.cloned(),
        handlers: None,
        max_items: 1,
        suspects: Suspects::AtMost(1),
        holder: LockHolder::UNKNOWN,
        held: Arc::new(NothingHeld),
    }
}

/// The plain method as an extended fetch of one item would ask for it.
#[doc(hidden)]
pub fn one_work(
    lock_timeout: Duration,
    poll_timeout: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> WorkRequest {
    WorkRequest {
        lock_timeout,
        poll_timeout,
        session: session.cloned(),
        session_limits: SessionLimits::NONE,
        tags: tags.clone(),
        activities: None,
        max_items: 1,
        suspects: Suspects::AtMost(1),
        holder: LockHolder::UNKNOWN,
    }
}
