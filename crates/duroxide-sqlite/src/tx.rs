//! One call inside a transaction: its connection, its time, and what must follow once it is committed.

use duroxide_provider::metric;

use super::db::Db;
use super::statistics::{Counters, count};
use super::values::{Ms, NEVER};

/// One call inside a transaction.
pub(super) struct Tx<'a> {
    pub(super) db: &'a Db<'a>,
    /// The store's time.
    pub(super) now: Ms,
    pub(super) effects: Effects,
}

impl<'a> Tx<'a> {
    pub(super) fn new(db: &'a Db<'a>, now: Ms) -> Self {
        Self { db, now, effects: Effects::default() }
    }
}

/// What must follow once the transaction is committed. Forgotten when the call is rolled back.
#[derive(Debug)]
pub(super) struct Effects {
    /// The earliest time at which a fetch of turns may find something that it could not find before.
    pub(super) turns_due: Ms,
    /// The same for work items.
    pub(super) work_due: Ms,
    /// Instances whose status, custom status or KV store changed.
    pub(super) changed: Vec<String>,
    pub(super) dropped_unknown: u64,
    pub(super) dropped_finished: u64,
    pub(super) expired: u64,
    pub(super) set_aside: u64,
}

impl Default for Effects {
    fn default() -> Self {
        Self {
            turns_due: NEVER,
            work_due: NEVER,
            changed: Vec::new(),
            dropped_unknown: 0,
            dropped_finished: 0,
            expired: 0,
            set_aside: 0,
        }
    }
}

impl Effects {
    pub(super) fn turn_ready(&mut self, at: Ms) {
        self.turns_due = self.turns_due.min(at);
    }

    pub(super) fn work_ready(&mut self, at: Ms) {
        self.work_due = self.work_due.min(at);
    }

    /// The due time for fetches of turns, which is thereby taken note of.
    pub(super) fn take_turns_due(&mut self) -> Ms {
        std::mem::replace(&mut self.turns_due, NEVER)
    }

    /// The same for work items.
    pub(super) fn take_work_due(&mut self) -> Ms {
        std::mem::replace(&mut self.work_due, NEVER)
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.turn_ready(other.turns_due);
        self.work_ready(other.work_due);
        self.changed.extend(other.changed);
        self.dropped_unknown += other.dropped_unknown;
        self.dropped_finished += other.dropped_finished;
        self.expired += other.expired;
        self.set_aside += other.set_aside;
    }

    /// Adds what was dropped and set aside to the counters.
    pub(super) fn report(&self, counters: &Counters) {
        count(&counters.dropped_messages, self.dropped_unknown + self.dropped_finished);
        count(&counters.expired_messages, self.expired);
        count(&counters.set_aside, self.set_aside);
        for (reason, messages) in [
            ("unknown_instance", self.dropped_unknown),
            ("finished_instance", self.dropped_finished),
            ("expired", self.expired),
        ] {
            if messages > 0 {
                metric::messages_dropped(reason).increment(messages);
            }
        }
        if self.set_aside > 0 {
            metric::messages_set_aside().increment(self.set_aside);
        }
    }
}
