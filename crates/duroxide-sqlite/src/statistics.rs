//! What a store counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqliteStatistics {
    /// Transactions that wrote something and were committed.
    pub commits: u64,
    /// Calls that they and transactions without changes carried, fetches included.
    pub calls: u64,
    /// SQL statements, those that begin and end transactions included.
    pub statements: u64,
    /// Messages dropped because their instance does not exist or has ended.
    pub dropped_messages: u64,
    /// Messages dropped because the instance they were kept for did not start in time.
    pub expired_messages: u64,
    /// Messages and work items set aside because they did not decode.
    pub set_aside: u64,
    /// How often a change by another process was noticed.
    pub foreign_changes: u64,
}

/// The counters behind [`SqliteStatistics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) dropped_messages: AtomicU64,
    pub(super) expired_messages: AtomicU64,
    pub(super) set_aside: AtomicU64,
    pub(super) foreign_changes: AtomicU64,
}

impl Counters {
    pub(super) fn snapshot(&self) -> SqliteStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SqliteStatistics {
            commits: load(&self.commits),
            calls: load(&self.calls),
            statements: load(&self.statements),
            dropped_messages: load(&self.dropped_messages),
            expired_messages: load(&self.expired_messages),
            set_aside: load(&self.set_aside),
            foreign_changes: load(&self.foreign_changes),
        }
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
