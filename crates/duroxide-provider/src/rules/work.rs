//! Work items: queueing activities, and the ways in which an attempt at one ends.

use std::time::Duration;

use duroxide_core::{AppErrorKind, ErrorDetails, ScheduledActivityIdentifier, WorkItem, columns_of};

use super::changes::{NewWork, SessionUse, WorkChange};
use super::encoded::EncodedItem;
use super::messages::FullInbox;
use super::token::Token;
use super::values::{Ms, after};
use super::wanted::Stop;
use super::work_row::{Place, WorkRow};
use super::{Fault, Rows};
use crate::bounce::GiveBack;

impl Rows {
    /// Queues a checked activity; one that is queued already stays as it is.
    pub(super) fn put_work(&mut self, item: &EncodedItem) {
        let columns = columns_of(&item.item);
        let place = Place {
            session_id: columns.session_id.map(str::to_string),
            tag: columns.tag.unwrap_or_default().to_string(),
            name: columns.name.unwrap_or_default().to_string(),
        };
        self.call.changes.touch(&place);
        self.call.effects.item_ready(&place, self.now);
        self.call.changes.new_work.push(NewWork {
            instance: columns.instance.to_string(),
            execution_id: columns.execution_id.unwrap_or(0),
            activity_id: columns.event_id.unwrap_or(0),
            place,
            json: item.json.clone(),
            lock: None,
        });
    }

    /// Deletes the work item of an activity that nobody waits for any more, locked or not.
    pub(super) fn cancel_work(&mut self, activity: &ScheduledActivityIdentifier) {
        let ScheduledActivityIdentifier { instance, execution_id, activity_id } = activity;
        let is_it = |work: &NewWork| work.is_activity(instance, *execution_id, *activity_id);
        self.call.changes.new_work.retain(|work| !is_it(work));
        self.cancel_new_work(instance, *execution_id, *activity_id);
        let found = self.work_of(instance, *execution_id, *activity_id);
        if let Some(work) = found.and_then(|id| self.remove_work_row(id)) {
            self.let_go(&work);
            self.note_deleted(&work);
        }
    }

    /// What an earlier call of the group queued is not queued.
    fn cancel_new_work(&mut self, instance: &str, execution_id: u64, activity_id: u64) {
        if self.done.changes.has_new_work(instance, execution_id, activity_id) {
            let id = (instance.to_string(), execution_id, activity_id);
            self.call.changes.cancelled_new_work.push(id);
        }
    }

    fn note_deleted(&mut self, work: &WorkRow) {
        self.call.changes.deleted_work.push((work.id, work.stored_nonce));
        let activity = (work.instance.clone(), work.execution_id, work.activity_id);
        self.call.changes.deleted_activities.push(activity);
    }

    /// A work item is no longer in progress: another of its session may begin.
    fn let_go(&mut self, work: &WorkRow) {
        if work.place.session_id.is_some() {
            self.call.effects.item_ready(&work.place, self.now);
        }
        self.call.changes.touch(&work.place);
    }

    /// Refuses a call that is wrong in itself, unless its lock is lost.
    pub(super) fn check_work_held(&self, token: Token) -> Result<(), Fault> {
        self.held_work(token).map(drop)
    }

    fn held_work(&self, token: Token) -> Result<&WorkRow, Fault> {
        self.work_row(token.key).filter(|work| work.is_held_by(token, self.now)).ok_or(Fault::LockLost)
    }

    fn remove_held_work(&mut self, token: Token) -> Result<WorkRow, Fault> {
        self.check_work_held(token)?;
        let work = self.remove_work_row(token.key).ok_or(Fault::LockLost)?;
        // It was queued when an earlier call of the group queued it again, which then changed nothing.
        self.cancel_new_work(&work.instance, work.execution_id, work.activity_id);
        self.note_deleted(&work);
        self.let_go(&work);
        Ok(work)
    }

    /// Deletes a work item and enqueues its completion.
    pub(super) fn ack_work(&mut self, token: Token, completion: Option<&EncodedItem>) -> Result<(), Stop> {
        let work = self.remove_held_work(token)?;
        self.note_session_use(&work.place, self.now);
        match completion {
            Some(completion) => self.deliver(completion, None, FullInbox::Admit).map(drop),
            None => Ok(()),
        }
    }

    /// Gives a work item back.
    pub(super) fn give_back_work(&mut self, token: Token, give_back: &GiveBack) -> Result<(), Fault> {
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let ignore_attempt = *ignore_attempt;
        let mut work = self.held_work(token)?.clone();
        let now = self.now;
        work.visible_at = delay.map_or(work.visible_at, |delay| after(now, delay));
        // What is not delayed is ready at once, also if the clock was ahead when it was queued.
        work.ready_at = if delay.is_some() { work.visible_at } else { work.visible_at.min(now) };
        work.nonce = None;
        // With the attempt ignored, an expiry before it still counts.
        let suspect = ignore_attempt && work.suspect_before;
        if ignore_attempt {
            work.attempts = work.attempts.saturating_sub(1).max(0);
        }
        work.suspect_before = false;
        self.call.effects.item_ready(&work.place, work.ready_at);
        self.let_go(&work);
        let change = WorkChange {
            delayed: delay.is_some(),
            cause: cause.as_ref().map(|cause| cause.clone().bounded().to_stored()),
            ..WorkChange::new(&work, suspect)
        };
        self.call.changes.work.insert(work.id, change);
        self.put_work_row(work);
        Ok(())
    }

    /// Lets the lock hold from now on for `extend_for`.
    pub(super) fn renew_work(&mut self, token: Token, extend_for: Duration) -> Result<(), Fault> {
        let mut work = self.held_work(token)?.clone();
        work.ready_at = after(self.now, extend_for);
        self.call.effects.work_ready(work.ready_at);
        self.call.changes.touch(&work.place);
        self.note_session_use(&work.place, work.ready_at);
        self.call.changes.work.insert(work.id, WorkChange::new(&work, true));
        self.put_work_row(work);
        Ok(())
    }

    /// Keeps the progress of an activity for its next attempt.
    pub(super) fn record_progress(&mut self, token: Token, details: &str) -> Result<(), Fault> {
        self.check_work_held(token)?;
        self.call.changes.progress.insert(token.key, details.to_string());
        Ok(())
    }

    /// Counts the attempt of the present lock as forgiven.
    pub(super) fn forgive_attempt(&mut self, token: Token) -> Result<(), Fault> {
        let mut work = self.held_work(token)?.clone();
        work.attempts = work.attempts.saturating_sub(1).max(0);
        self.call.changes.forgiven.push(work.id);
        self.call.changes.work.insert(work.id, WorkChange::new(&work, true));
        self.put_work_row(work);
        Ok(())
    }

    /// Moves a work item out of the queue that does not decode, and fails its activity, so that nobody waits for it in vain.
    pub(super) fn set_work_aside(&mut self, token: Token, cause: &str) -> Result<(), Stop> {
        let work = self.remove_held_work(token)?;
        self.call.changes.aside_work.push((work.id, cause.to_string()));
        self.call.effects.set_aside += 1;
        let name = &work.place.name;
        let message = format!("the stored work item of activity '{name}' cannot be decoded: {cause}");
        let failed = WorkItem::ActivityFailed {
            instance: work.instance.clone(),
            execution_id: work.execution_id,
            id: work.activity_id,
            details: ErrorDetails::Application {
                kind: AppErrorKind::ActivityFailed,
                message,
                retryable: false,
            },
        };
        self.deliver(&EncodedItem::new(failed)?, None, FullInbox::Admit).map(drop)
    }

    fn note_session_use(&mut self, place: &Place, item_locked_until: Ms) {
        if let Some(session_id) = &place.session_id {
            let session_id = session_id.clone();
            self.call.changes.session_uses.push(SessionUse { session_id, item_locked_until });
        }
    }
}
