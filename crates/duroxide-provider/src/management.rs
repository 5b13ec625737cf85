//! What management calls take and return.

pub use duroxide_core::SystemStats;

pub use super::listing::{Cursor, InstancePage, InstanceQuery};

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Its id.
    pub instance_id: String,
    /// The orchestration's name.
    pub orchestration_name: String,
    /// The version that runs it, or the one asked for while it has not begun; empty when neither is known.
    pub orchestration_version: String,
    /// The latest execution.
    pub current_execution_id: u64,
    /// `Running`, `Completed` or `Failed`.
    pub status: String,
    /// The output, or the error's text.
    pub output: Option<String>,
    /// When it was started, in ms since the epoch.
    pub created_at: u64,
    /// When a turn of it was last committed, in ms since the epoch.
    pub updated_at: u64,
    /// The instance that waits for its result.
    pub parent_instance_id: Option<String>,
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionInfo {
    /// Its number.
    pub execution_id: u64,
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    pub status: String,
    /// The output, or the error's text.
    pub output: Option<String>,
    /// When it was created, in ms since the epoch.
    pub started_at: u64,
    /// When it ended, in ms since the epoch.
    pub completed_at: Option<u64>,
    /// The length of its history.
    pub event_count: usize,
}

/// Counts over the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemMetrics {
    /// All instances.
    pub total_instances: u64,
    /// All executions.
    pub total_executions: u64,
    /// Instances that have not ended.
    pub running_instances: u64,
    /// Instances that returned `Ok`.
    pub completed_instances: u64,
    /// Instances that failed.
    pub failed_instances: u64,
    /// All events.
    pub total_events: u64,
}

/// How much waits in the queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueDepths {
    /// Messages in inboxes, without timers.
    pub orchestrator_queue: usize,
    /// Activities to run or running.
    pub worker_queue: usize,
    /// Timers.
    pub timer_queue: usize,
}

/// Since when the oldest things that are ready wait, in ms since the epoch. What is locked or due later counts
/// from the time at which it will be ready.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OldestReady {
    /// The instance that is ready first; `None` when no inbox holds anything.
    pub turn_ms: Option<u64>,
    /// The activity that is ready first; `None` when none is queued.
    pub work_ms: Option<u64>,
}

/// Activities of one tag that wait for a worker.
///
/// A count that stays and an age that grows mean that no live worker accepts the tag, or too few do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingByTag {
    /// The tag; `None` for activities without one.
    pub tag: Option<String>,
    /// How many wait, not counting those in progress.
    pub waiting: usize,
    /// How long the oldest of them has been waiting, by the store's clock: since it was queued, backoffs included.
    pub oldest_age: std::time::Duration,
}

/// Instances of one pinned version that are ready and that a filter leaves out.
///
/// A count that stays means that no live node replays the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilteredOut {
    /// The version; `None` for executions that are pinned to nothing, which only an empty filter leaves out.
    pub pinned_version: Option<semver::Version>,
    /// How many are ready.
    pub instances: usize,
}

/// Which instances a bulk call is about: the finished ones for a deletion, all for a prune.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceFilter {
    /// Only these.
    pub instance_ids: Option<Vec<String>>,
    /// Only those that ended before this time, in ms since the epoch.
    pub completed_before: Option<u64>,
    /// At most this many; 1,000 when `None`.
    pub limit: Option<u32>,
}

/// Which executions a prune removes. The current one is never removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneOptions {
    /// How many of the latest to keep; `None`, 0 and 1 all mean the current one only.
    pub keep_last: Option<u32>,
    /// Only those that ended before this time, in ms since the epoch.
    pub completed_before: Option<u64>,
}

/// What a prune removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneResult {
    /// Instances looked at.
    pub instances_processed: u64,
    /// Executions removed.
    pub executions_deleted: u64,
    /// Events removed.
    pub events_deleted: u64,
}

/// What a delete removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteInstanceResult {
    /// Instances removed, children included.
    pub instances_deleted: u64,
    /// Executions removed.
    pub executions_deleted: u64,
    /// Events removed.
    pub events_deleted: u64,
    /// Queued messages and activities removed.
    pub queue_messages_deleted: u64,
}

/// An instance and all that descend from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTree {
    /// The instance asked for.
    pub root_id: String,
    /// It and its descendants, parents before their children.
    pub all_ids: Vec<String>,
}

impl InstanceTree {
    /// Whether it has no children.
    pub fn is_root_only(&self) -> bool {
        self.all_ids.len() == 1
    }

    /// How many instances it has.
    pub fn size(&self) -> usize {
        self.all_ids.len()
    }
}
