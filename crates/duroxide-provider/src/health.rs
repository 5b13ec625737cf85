//! What a store tells about its health, and what a repair commits.

use duroxide_core::WorkItem;

/// Things that have been ready for longer than they should, counted over the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthFacts {
    /// Instances that are ready, and no lock holds them.
    pub overdue_turns: Overdue,
    /// Timers that are due.
    pub overdue_timers: Overdue,
    /// Instances whose lock has expired, and nobody takes them.
    pub expired_turn_locks: Overdue,
    /// Activities that are ready, and no lock holds them.
    pub overdue_work: Overdue,
    /// Activities whose lock has expired, and nobody takes them.
    pub expired_work_locks: Overdue,
    /// Activities whose instance is gone or has ended.
    pub orphan_work: Overdue,
    /// Messages kept for instances that have not started.
    pub early_messages: Overdue,
    /// Instances and activities that are not delayed and yet wait for a time to come: the clock was ahead when they came.
    pub ahead_of_clock: Overdue,
}

/// How many, and since when the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overdue {
    /// How many.
    pub count: u64,
    /// Since when the oldest is ready, in ms since the epoch.
    pub oldest_ms: Option<u64>,
}

/// What is put back into the queues of an instance, for [`ProviderAdmin::repair`](super::ProviderAdmin::repair).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairInstance {
    /// Which instance.
    pub instance: String,
    /// Its current execution, as it was looked at.
    pub execution_id: u64,
    /// The last event of that execution, as it was looked at.
    pub last_event_id: u64,
    /// Activities that are queued nowhere.
    pub activities: Vec<WorkItem>,
    /// Timers and results of children that are queued nowhere, and starts of children that do not exist.
    pub messages: Vec<WorkItem>,
    /// The record, put into the inbox if anything else was put back.
    pub note: WorkItem,
}
