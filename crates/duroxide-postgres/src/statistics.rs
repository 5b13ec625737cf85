//! What a store counts about itself.

use duroxide_provider::metric;
use duroxide_provider::rules::Effects;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PostgresStatistics {
    /// Transactions of the runtime's calls that wrote something and were committed.
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
    /// Transactions that were carried out again, because another was in their way.
    pub conflicts: u64,
    /// How often a new connection had to be made for the runtime's calls.
    pub reconnects: u64,
    /// Notifications of other processes.
    pub notifications: u64,
}

/// Counts a transaction that is carried out again, because another was in its way.
pub(crate) fn count_conflict(counters: &Counters) {
    add(&counters.conflicts, 1);
    metric::store_conflicts().increment(1);
}

/// The counters behind [`PostgresStatistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) statements: AtomicU64,
    pub(crate) dropped_messages: AtomicU64,
    pub(crate) expired_messages: AtomicU64,
    pub(crate) set_aside: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) notifications: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> PostgresStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PostgresStatistics {
            commits: load(&self.commits),
            calls: load(&self.calls),
            statements: load(&self.statements),
            dropped_messages: load(&self.dropped_messages),
            expired_messages: load(&self.expired_messages),
            set_aside: load(&self.set_aside),
            conflicts: load(&self.conflicts),
            reconnects: load(&self.reconnects),
            notifications: load(&self.notifications),
        }
    }
}

impl Counters {
    /// Adds what a committed group dropped and set aside.
    pub(crate) fn report(&self, effects: &Effects) {
        add(&self.dropped_messages, effects.dropped_unknown + effects.dropped_finished);
        add(&self.expired_messages, effects.expired);
        add(&self.set_aside, effects.set_aside);
        effects.report();
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
