//! Serving fetches that wait from what their own group makes ready, without a look at the queue.
//!
//! That is right only for a fetch which was told that nothing else is ready: otherwise older work would be
//! passed over. What is given away here is written as locked by the transaction that made it ready.

use std::collections::HashMap;

use duroxide_core::limits;

use super::Rows;
use super::changes::{InboxRow, WorkLock};
use super::execution_row::ExecutionRow;
use super::instance_row::{InstanceRow, TurnLock};
use super::token::{Token, nonce};
use super::values::{Ms, count, duration};
use super::work_row::WorkRow;
use crate::fetch::{OrchestrationRef, TurnRequest, WorkRequest};
use crate::room::ByteRoom;

/// An instance that was locked by the group that made it ready.
#[derive(Debug)]
pub struct ServedTurn {
    /// Its lock.
    pub token: Token,
    /// Since when it was ready.
    pub ready_at: Ms,
    /// The row, as the group leaves it.
    pub row: InstanceRow,
    /// The row of its execution, as the group leaves it.
    pub execution: ExecutionRow,
    /// The messages, in their order. Each is fetched for the first time.
    pub messages: Vec<InboxRow>,
}

/// A work item that was locked by the group that queued it. Its id is known when it is stored.
#[derive(Debug)]
pub struct ServedWork {
    /// The row, as the group leaves it.
    pub row: WorkRow,
    /// Its JSON.
    pub json: String,
    /// Whose activity it is.
    pub orchestration: OrchestrationRef,
}

/// When a lock taken now expires.
pub fn expires_at(now: Ms, lock_timeout: std::time::Duration) -> Ms {
    now.saturating_add(duration(lock_timeout).min(i64::MAX / 4))
}

impl Rows {
    /// Locks instances that the calls made ready, for one fetch after another until one of them gets nothing: `accepts`
    /// tells of a packed version whether the fetch takes it. `next` gives the next fetch, `served` takes what it gets; what
    /// gets nothing is given back by it with nothing.
    pub fn serve_turns<F>(
        &mut self,
        mut next: impl FnMut() -> Option<F>,
        request: impl Fn(&F) -> &TurnRequest,
        accepts: impl Fn(&TurnRequest, i64) -> bool,
        mut served: impl FnMut(F, Vec<ServedTurn>),
    ) {
        if self.done.effects.turns_due > self.now {
            return;
        }
        let mut messages = self.added_by_instance();
        let mut ready = self.ready_instances();
        while !ready.is_empty() {
            let Some(fetch) = next() else { break };
            let asked = request(&fetch);
            let max_items = asked.max_items.max(1);
            let mut room = ByteRoom::for_messages();
            let mut turns = Vec::new();
            ready.retain(|key| {
                let turn = (turns.len() < max_items)
                    .then(|| self.lock_turn(*key, asked, &accepts, &mut messages, &mut room))
                    .flatten();
                let taken = turn.is_some();
                turns.extend(turn);
                !taken
            });
            let nothing = turns.is_empty();
            served(fetch, turns);
            if nothing {
                break;
            }
        }
        if ready.is_empty() {
            self.done.effects.turns_due = self.done.effects.turns_soon;
        }
    }

    /// The instances that a fetch might take after this group and not before it, oldest first.
    fn ready_instances(&self) -> Vec<i64> {
        let is_ready = |ready_at: Option<Ms>| ready_at.is_some_and(|at| at <= self.now);
        let mut ready: Vec<(Option<Ms>, i64)> = self
            .instances()
            .filter(|row| row.pending.queue && row.lock.is_none() && is_ready(row.ready_at))
            .map(|row| (row.ready_at, row.key))
            .collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, key)| key).collect()
    }

    /// The messages that the group adds, by instance.
    fn added_by_instance(&self) -> HashMap<i64, Vec<InboxRow>> {
        let mut messages: HashMap<i64, Vec<InboxRow>> = HashMap::new();
        for row in &self.done.changes.inbox {
            messages.entry(row.key).or_default().push(row.clone());
        }
        messages
    }

    /// Locks an instance, if all that a fetch would find there is known.
    fn lock_turn(
        &mut self,
        key: i64,
        request: &TurnRequest,
        accepts: &impl Fn(&TurnRequest, i64) -> bool,
        messages: &mut HashMap<i64, Vec<InboxRow>>,
        room: &mut ByteRoom,
    ) -> Option<ServedTurn> {
        let now = self.now;
        let added = messages.get(&key)?;
        let row = self.instance(key)?;
        let bytes: usize = added.iter().map(|message| message.json.len()).sum();
        let all_fit = added.len() <= limits::MAX_MESSAGES_PER_FETCH
            && (room.fits(bytes) && bytes <= limits::MAX_MESSAGE_BYTES_PER_FETCH);
        let all_known = row.inbox_count == count(added.len())
            && all_fit
            && added.iter().all(|message| message.visible_at <= now);
        // What is kept of an instance that was given back is not known here.
        let elsewhere = request.handlers.is_some() || row.bounced;
        if !all_known || elsewhere || row.suspect || !accepts(request, row.pinned_key) {
            return None;
        }
        let execution = self.execution(key, row.current_execution_id)?.clone();
        let ready_at = row.ready_at?;
        let mut messages = messages.remove(&key)?;
        room.take(bytes);
        messages.sort_unstable_by_key(|message| (message.visible_at, message.position));
        let last = messages.last()?;
        let token = Token { key, nonce: nonce(request.holder) };
        let row = self.serving_instance(key)?;
        row.lock = Some(TurnLock {
            nonce: token.nonce,
            visible_at: last.visible_at,
            position: last.position,
            watermark: row.next_position,
            count: count(messages.len()),
        });
        row.suspect_before = false;
        row.suspect = true;
        row.not_before = 0;
        row.ready_at = Some(expires_at(now, request.lock_timeout));
        Some(ServedTurn { token, ready_at, row: row.clone(), execution, messages })
    }

    /// Locks work items that the calls queued, as [`Rows::serve_turns`] does instances. None of them belongs to a session.
    pub fn serve_work<F>(
        &mut self,
        mut next: impl FnMut() -> Option<F>,
        request: impl Fn(&F) -> &WorkRequest,
        mut served: impl FnMut(F, Vec<ServedWork>),
    ) {
        let changes = &self.done.changes;
        // Whatever else was made ready is found by a look.
        let only_new = changes.work.is_empty() && changes.touched.is_empty();
        if self.done.effects.work_due > self.now || !only_new {
            return;
        }
        while self.done.changes.new_work.iter().any(|work| work.lock.is_none()) {
            let Some(fetch) = next() else { break };
            let items = self.lock_new_work(request(&fetch));
            let nothing = items.is_empty();
            served(fetch, items);
            if nothing {
                break;
            }
        }
        let new_work = &self.done.changes.new_work;
        if !new_work.is_empty() && new_work.iter().all(|work| work.lock.is_some()) {
            self.done.effects.work_due = self.done.effects.work_soon;
        }
    }

    /// Locks as many as a fetch takes.
    fn lock_new_work(&mut self, request: &WorkRequest) -> Vec<ServedWork> {
        if request.activities.is_some() {
            return Vec::new();
        }
        let mut new_work = std::mem::take(&mut self.done.changes.new_work);
        let mut items = Vec::new();
        let mut room = ByteRoom::for_work();
        for work in &mut new_work {
            if items.len() >= request.max_items.max(1) {
                break;
            }
            let tag = (!work.place.tag.is_empty()).then_some(work.place.tag.as_str());
            if work.lock.is_some() || work.place.session_id.is_some() || !request.tags.matches(tag) {
                continue;
            }
            if !room.fits(work.json.len()) {
                break;
            }
            let Some(row) = self.instance_of(&work.instance) else { continue };
            let orchestration = OrchestrationRef { name: row.name.clone(), version: row.version.clone() };
            let lock = WorkLock {
                nonce: nonce(request.holder),
                expires_at: expires_at(self.now, request.lock_timeout),
            };
            room.take(work.json.len());
            work.lock = Some(lock);
            let row = WorkRow {
                id: 0,
                nonce: Some(lock.nonce),
                stored_nonce: Some(lock.nonce),
                ready_at: lock.expires_at,
                place: work.place.clone(),
                instance: work.instance.clone(),
                execution_id: work.execution_id,
                activity_id: work.activity_id,
                visible_at: self.now,
                suspect_before: false,
                attempts: 1,
            };
            items.push(ServedWork { row, json: work.json.clone(), orchestration });
        }
        self.done.changes.new_work = new_work;
        items
    }
}
