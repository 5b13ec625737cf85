//! What must follow once a transaction is committed.

use std::collections::BTreeSet;

use duroxide_provider::metric;
use duroxide_provider::{TurnRequest, WorkRequest};

use crate::horizon::WrittenRows;
use crate::statistics::{Counters, add};
use crate::values::{Ms, NEVER};
use crate::work::Place;

/// What must follow once a transaction is committed. Forgotten when it is rolled back.
#[derive(Debug)]
pub(crate) struct Effects {
    /// The earliest time at which a fetch of turns may find something that it could not find before.
    pub(crate) turns_due: Ms,
    /// The same for work items.
    pub(crate) work_due: Ms,
    /// The transaction's time.
    pub(crate) now: Ms,
    /// The earliest time after now at which a message becomes visible or a backoff ends.
    pub(crate) turns_soon: Ms,
    /// The same for work items, the ends of their locks included.
    pub(crate) work_soon: Ms,
    /// The tags of the work items that it made ready; empty for none.
    pub(crate) work_tags: BTreeSet<String>,
    /// Whether some of them belong to sessions.
    pub(crate) work_of_sessions: bool,
    /// How far back the rows are ready that it wrote.
    pub(crate) written: WrittenRows,
    /// Instances whose status, custom status or KV store changed.
    pub(crate) changed: Vec<String>,
    pub(crate) dropped_unknown: u64,
    pub(crate) dropped_finished: u64,
    pub(crate) expired: u64,
    pub(crate) set_aside: u64,
}

impl Default for Effects {
    fn default() -> Self {
        Self {
            turns_due: NEVER,
            work_due: NEVER,
            now: 0,
            turns_soon: NEVER,
            work_soon: NEVER,
            work_tags: BTreeSet::new(),
            work_of_sessions: false,
            written: WrittenRows::default(),
            changed: Vec::new(),
            dropped_unknown: 0,
            dropped_finished: 0,
            expired: 0,
            set_aside: 0,
        }
    }
}

impl Effects {
    pub(crate) fn turn_ready(&mut self, at: Ms) {
        self.turns_due = self.turns_due.min(at);
        if at > self.now {
            self.turns_soon = self.turns_soon.min(at);
        }
    }

    /// The lock of a turn expires then, unless it is renewed or ended.
    pub(crate) fn turn_locked(&mut self, until: Ms) {
        self.turns_due = self.turns_due.min(until);
    }

    pub(crate) fn work_ready(&mut self, at: Ms) {
        self.work_due = self.work_due.min(at);
        if at > self.now {
            self.work_soon = self.work_soon.min(at);
        }
    }

    /// Whether a fetch that asks for this and is not filled leaves nothing that became ready to others.
    pub(crate) fn turns_suit(&self, request: &TurnRequest) -> bool {
        request.handlers.is_none()
    }

    /// The same for work items.
    pub(crate) fn work_suits(&self, request: &WorkRequest) -> bool {
        let accepts = |tag: &String| request.tags.matches((!tag.is_empty()).then_some(tag.as_str()));
        request.activities.is_none()
            && (request.session.is_some() || !self.work_of_sessions)
            && self.work_tags.iter().all(accepts)
    }

    /// A work item is ready then.
    pub(crate) fn item_ready(&mut self, place: &Place, at: Ms) {
        self.work_ready(at);
        self.work_tags.insert(place.tag.clone());
        self.work_of_sessions |= place.session_id.is_some();
    }

    /// Adds what was dropped and set aside to the counters.
    pub(crate) fn report(&self, counters: &Counters) {
        add(&counters.dropped_messages, self.dropped_unknown + self.dropped_finished);
        add(&counters.expired_messages, self.expired);
        add(&counters.set_aside, self.set_aside);
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
