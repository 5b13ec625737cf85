//! What must follow once a group is committed. Forgotten when it is rolled back.

use std::collections::BTreeSet;

use super::values::{Ms, NEVER};
use super::work_row::Place;
use crate::fetch::{TurnRequest, WorkRequest};
use crate::metric;

/// What must follow once a group is committed.
#[derive(Debug, Clone)]
pub struct Effects {
    /// The earliest time at which a fetch of turns may find something that it could not find before.
    pub turns_due: Ms,
    /// The same for work items.
    pub work_due: Ms,
    /// The group's time.
    pub now: Ms,
    /// The earliest time after now at which a message becomes visible or a backoff ends.
    pub turns_soon: Ms,
    /// The same for work items, the ends of their locks included.
    pub work_soon: Ms,
    /// The tags of the work items that it made ready; empty for none.
    pub work_tags: BTreeSet<String>,
    /// Whether some of them belong to sessions.
    pub work_of_sessions: bool,
    /// Instances whose status, custom status or KV store changed.
    pub changed: Vec<String>,
    /// Messages for instances that do not exist.
    pub dropped_unknown: u64,
    /// Messages for instances that have ended.
    pub dropped_finished: u64,
    /// Early messages that were kept too long.
    pub expired: u64,
    /// Rows that did not decode.
    pub set_aside: u64,
}

impl Effects {
    /// Nothing yet.
    pub fn at(now: Ms) -> Self {
        Self {
            turns_due: NEVER,
            work_due: NEVER,
            now,
            turns_soon: NEVER,
            work_soon: NEVER,
            work_tags: BTreeSet::new(),
            work_of_sessions: false,
            changed: Vec::new(),
            dropped_unknown: 0,
            dropped_finished: 0,
            expired: 0,
            set_aside: 0,
        }
    }

    /// An instance is ready then.
    pub fn turn_ready(&mut self, at: Ms) {
        self.turns_due = self.turns_due.min(at);
        if at > self.now {
            self.turns_soon = self.turns_soon.min(at);
        }
    }

    /// The lock of a turn expires then, unless it is renewed or ended.
    pub fn turn_locked(&mut self, until: Ms) {
        self.turns_due = self.turns_due.min(until);
    }

    /// A work item may be fetched then.
    pub fn work_ready(&mut self, at: Ms) {
        self.work_due = self.work_due.min(at);
        if at > self.now {
            self.work_soon = self.work_soon.min(at);
        }
    }

    /// A work item of this place is ready then.
    pub fn item_ready(&mut self, place: &Place, at: Ms) {
        self.work_ready(at);
        if !self.work_tags.contains(&place.tag) {
            self.work_tags.insert(place.tag.clone());
        }
        self.work_of_sessions |= place.session_id.is_some();
    }

    /// Whether a fetch that asks for this and is not filled leaves nothing that became ready to others.
    pub fn turns_suit(&self, request: &TurnRequest) -> bool {
        request.handlers.is_none()
    }

    /// The same for work items.
    pub fn work_suits(&self, request: &WorkRequest) -> bool {
        let accepts = |tag: &String| request.tags.matches((!tag.is_empty()).then_some(tag.as_str()));
        request.activities.is_none()
            && (request.session.is_some() || !self.work_of_sessions)
            && self.work_tags.iter().all(accepts)
    }

    /// Adds those of a later call.
    pub fn merge(&mut self, later: Self) {
        self.turns_due = self.turns_due.min(later.turns_due);
        self.work_due = self.work_due.min(later.work_due);
        self.turns_soon = self.turns_soon.min(later.turns_soon);
        self.work_soon = self.work_soon.min(later.work_soon);
        self.work_tags.extend(later.work_tags);
        self.work_of_sessions |= later.work_of_sessions;
        self.changed.extend(later.changed);
        self.dropped_unknown += later.dropped_unknown;
        self.dropped_finished += later.dropped_finished;
        self.expired += later.expired;
        self.set_aside += later.set_aside;
    }

    /// Adds what was dropped and set aside to the metrics.
    pub fn report(&self) {
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
