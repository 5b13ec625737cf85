//! One call inside a transaction: its connection, its time, and what must follow once it is committed.

use duroxide_provider::rules::{Answer, Call, Effects, Ms, NEVER, WorkRow};

use super::batch;
use super::db::Db;
use super::fault::Fault;
use super::instance_row::StoredInstance;
use super::statistics::{Counters, count};

/// One call inside a transaction.
pub(super) struct Tx<'a> {
    pub(super) db: &'a Db<'a>,
    /// The store's time.
    pub(super) now: Ms,
    pub(super) effects: Effects,
    seen: Seen,
}

/// The rows that a call leaves so, for who remembers them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    instances: Vec<StoredInstance>,
    work: Vec<WorkRow>,
    /// Whether other rows changed, too.
    others: bool,
}

impl Seen {
    /// The instances and work items that are so now, and whether everything else has to be forgotten before.
    pub(super) fn into_rows(self) -> (Vec<StoredInstance>, Vec<WorkRow>, bool) {
        (self.instances, self.work, self.others)
    }
}

impl<'a> Tx<'a> {
    pub(super) fn new(db: &'a Db<'a>, now: Ms) -> Self {
        Self { db, now, effects: Effects::at(now), seen: Seen::default() }
    }

    /// A call of the store's own: it may change any row.
    pub(super) fn of_own_call(db: &'a Db<'a>, now: Ms) -> Self {
        let mut tx = Self::new(db, now);
        tx.changes_rows();
        tx
    }

    /// Rows of instances, executions or work items change, it is not said which: what was seen of them before may no
    /// longer be so.
    pub(super) fn changes_rows(&mut self) {
        self.seen = Seen { others: true, ..Seen::default() };
    }

    /// The call changes no row of an instance, an execution or a work item.
    pub(super) fn leaves_rows(&mut self) {
        self.seen.others = false;
    }

    /// The call leaves an instance so, as long as it does not change rows after this.
    pub(super) fn leaves_instance(&mut self, stored: StoredInstance) {
        self.seen.instances.push(stored);
    }

    /// The same for a work item.
    pub(super) fn leaves_work(&mut self, row: WorkRow) {
        self.seen.work.push(row);
    }

    /// What must follow the commit, and the rows that the call leaves.
    pub(super) fn finish(self) -> (Effects, Seen) {
        (self.effects, self.seen)
    }

    /// Applies a call by the rules and writes what it changed, now.
    pub(super) fn apply(&mut self, call: &Call) -> Result<Answer, Fault> {
        self.changes_rows();
        batch::apply_alone(self, call)
    }
}

/// The due time for fetches of turns, which is thereby taken note of.
pub(super) fn take_turns_due(effects: &mut Effects) -> Ms {
    std::mem::replace(&mut effects.turns_due, NEVER)
}

/// The same for work items.
pub(super) fn take_work_due(effects: &mut Effects) -> Ms {
    std::mem::replace(&mut effects.work_due, NEVER)
}

/// Adds what was dropped and set aside to the counters.
pub(super) fn report(effects: &Effects, counters: &Counters) {
    count(&counters.dropped_messages, effects.dropped_unknown + effects.dropped_finished);
    count(&counters.expired_messages, effects.expired);
    count(&counters.set_aside, effects.set_aside);
    effects.report();
}
