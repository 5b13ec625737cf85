//! Serving fetches that wait from what their own transaction makes ready, without a look at the queue.
//!
//! That is right only for a fetch which was told that nothing else is ready: otherwise older work would be
//! passed over. What is given away here is written as locked by the transaction that made it ready.

use std::collections::HashMap;

use duroxide_core::limits;
use duroxide_provider::support::ByteRoom;
use duroxide_provider::{OrchestrationRef, TurnRequest, WorkRequest};

use crate::fetch_turn::{self, RawMessage, RawTurn};
use crate::fetch_work::{RawWork, accepted};
use crate::instance_row::TurnLock;
use crate::parked::{Lane, ParkedFetch};
use crate::token::{Token, nonce};
use crate::values::{Ms, count, duration};
use crate::work::WorkRow;
use crate::working_set::WorkingSet;
use crate::writes::{NewWork, WorkLock};

/// A fetch and what it gets.
pub(crate) struct ServedTurns {
    pub(crate) fetch: ParkedFetch<TurnRequest>,
    pub(crate) turns: Vec<RawTurn>,
}

/// A fetch and what it gets. The ids of the work items are known when they are stored.
pub(crate) struct ServedWork {
    pub(crate) fetch: ParkedFetch<WorkRequest>,
    pub(crate) items: Vec<RawWork>,
}

/// When a lock taken now expires.
pub(crate) fn expires_at(now: Ms, lock_timeout: std::time::Duration) -> Ms {
    now.saturating_add(duration(lock_timeout).min(i64::MAX / 4))
}

/// Gives the instances that the calls made ready to fetches that wait for them.
pub(crate) fn turns(set: &mut WorkingSet<'_>, lane: &mut Lane<TurnRequest>) -> Vec<ServedTurns> {
    let mut served: Vec<ServedTurns> = Vec::new();
    if set.effects.turns_due > set.now {
        return served;
    }
    let mut messages = added_messages(set);
    let mut ready = ready_instances(set);
    while !ready.is_empty() {
        let Some(fetch) = lane.take_quiet() else { break };
        let mut turns = Vec::new();
        let max_items = fetch.request.max_items.max(1);
        let mut room = ByteRoom::for_messages();
        ready.retain(|key| {
            let turn = (turns.len() < max_items)
                .then(|| lock_turn(set, *key, &fetch.request, &mut messages, &mut room))
                .flatten();
            let taken = turn.is_some();
            turns.extend(turn);
            !taken
        });
        if turns.is_empty() {
            lane.put_back(fetch);
            break;
        }
        served.push(ServedTurns { fetch, turns });
    }
    if ready.is_empty() {
        set.effects.turns_due = set.effects.turns_soon;
    }
    served
}

/// The instances that a fetch might take after this transaction and not before it, oldest first.
fn ready_instances(set: &WorkingSet<'_>) -> Vec<i64> {
    let is_ready = |ready_at: Option<Ms>| ready_at.is_some_and(|at| at <= set.now);
    let rows = set.instances.values();
    let mut ready: Vec<(Option<Ms>, i64)> = rows
        .filter(|row| row.pending.queue && row.lock.is_none() && is_ready(row.ready_at))
        .map(|row| (row.ready_at, row.key))
        .collect();
    ready.sort_unstable();
    ready.into_iter().map(|(_, key)| key).collect()
}

/// The messages that the transaction adds, by instance.
fn added_messages(set: &WorkingSet<'_>) -> HashMap<i64, Vec<RawMessage>> {
    let mut messages: HashMap<i64, Vec<RawMessage>> = HashMap::new();
    for row in &set.writes.inbox {
        messages.entry(row.key).or_default().push(RawMessage {
            visible_at: row.visible_at,
            position: row.position,
            kind: row.kind.code(),
            attempts: 1,
            json: row.json.clone(),
        });
    }
    messages
}

/// Locks an instance, if all that a fetch would find there is known.
fn lock_turn(
    set: &mut WorkingSet<'_>,
    key: i64,
    request: &TurnRequest,
    messages: &mut HashMap<i64, Vec<RawMessage>>,
    room: &mut ByteRoom,
) -> Option<RawTurn> {
    let now = set.now;
    let added = messages.get(&key)?;
    let row = set.instances.get(&key)?;
    let bytes: usize = added.iter().map(|message| message.json.len()).sum();
    let all_fit = added.len() <= limits::MAX_MESSAGES_PER_FETCH
        && (room.fits(bytes) && bytes <= limits::MAX_MESSAGE_BYTES_PER_FETCH);
    let all_known = row.inbox_count == count(added.len())
        && all_fit
        && added.iter().all(|message| message.visible_at <= now);
    // What is kept of an instance that was given back is not known here.
    let elsewhere = request.handlers.is_some() || row.bounced;
    if !all_known || elsewhere || row.suspect || !fetch_turn::accepts(request, row.pinned_key) {
        return None;
    }
    let execution = set.executions.get(&(key, row.current_execution_id))?.clone();
    let mut messages = messages.remove(&key)?;
    room.take(bytes);
    messages.sort_unstable_by_key(|message| (message.visible_at, message.position));
    let row = set.instances.get_mut(&key)?;
    let token = Token { key, nonce: nonce(request.holder) };
    let ready_at = row.ready_at?;
    row.lock = TurnLock::covering(token.nonce, &messages, row.next_position);
    row.suspect_before = false;
    row.suspect = true;
    row.not_before = 0;
    row.ready_at = Some(expires_at(now, request.lock_timeout));
    let last_event_id = execution.last_event_id;
    Some(RawTurn {
        token,
        ready_at,
        now,
        row: row.clone(),
        expired: None,
        execution: Some(execution),
        last_event_id,
        last_cause: None,
        messages,
    })
}

/// Gives the work items that the calls queued to fetches that wait for them.
pub(crate) fn work(set: &mut WorkingSet<'_>, lane: &mut Lane<WorkRequest>) -> Vec<ServedWork> {
    let mut served: Vec<ServedWork> = Vec::new();
    // Whatever else was made ready is found by a look.
    let only_new = set.writes.work_changes.is_empty() && set.writes.touched.is_empty();
    if set.effects.work_due > set.now || !only_new {
        return served;
    }
    let mut new_work = std::mem::take(&mut set.writes.new_work);
    while new_work.iter().any(|work| work.lock.is_none()) {
        let Some(fetch) = lane.take_quiet() else { break };
        let items = lock_work(set, &mut new_work, &fetch.request);
        if items.is_empty() {
            lane.put_back(fetch);
            break;
        }
        served.push(ServedWork { fetch, items });
    }
    if !new_work.is_empty() && new_work.iter().all(|work| work.lock.is_some()) {
        set.effects.work_due = set.effects.work_soon;
    }
    set.writes.new_work = new_work;
    served
}

/// Locks as many of these as a fetch takes.
fn lock_work(set: &WorkingSet<'_>, new_work: &mut [NewWork], request: &WorkRequest) -> Vec<RawWork> {
    let tags = accepted(&request.tags);
    let takes = |work: &NewWork| {
        let tag = crate::values::to_text(&work.place.tag);
        let tag_suits = tags.as_ref().is_none_or(|tags| tags.iter().any(|one| *one == tag));
        work.lock.is_none() && work.place.session_id.is_none() && tag_suits && request.activities.is_none()
    };
    let mut items = Vec::new();
    let mut room = ByteRoom::for_work();
    for work in new_work.iter_mut().filter(|work| takes(work)).take(request.max_items.max(1)) {
        if !room.fits(work.json.len()) {
            break;
        }
        let Some(orchestration) = set.orchestration(&work.instance) else { continue };
        let lock =
            WorkLock { nonce: nonce(request.holder), expires_at: expires_at(set.now, request.lock_timeout) };
        let row = WorkRow {
            id: 0,
            nonce: Some(lock.nonce),
            stored_nonce: Some(lock.nonce),
            ready_at: lock.expires_at,
            place: work.place.clone(),
            instance: work.instance.clone(),
            execution_id: work.execution_id,
            activity_id: work.activity_id,
            visible_at: set.now,
            suspect_before: false,
            attempts: 1,
        };
        if let Some(item) = RawWork::born_locked(row, work.json.clone(), orchestration) {
            room.take(work.json.len());
            work.lock = Some(lock);
            items.push(item);
        }
    }
    items
}

impl ServedWork {
    /// Fills in the ids under which they were stored. One that was queued before is not among them, and not
    /// given away.
    pub(crate) fn with_ids(mut self, ids: &HashMap<i64, i64>) -> Self {
        self.items.retain_mut(|item| {
            let id = ids.get(&item.token.nonce);
            if let (Some(id), Some(row)) = (id, &mut item.row) {
                item.token.key = *id;
                row.id = *id;
            }
            id.is_some()
        });
        self
    }
}

impl WorkingSet<'_> {
    /// The orchestration of an instance that is known.
    fn orchestration(&self, instance: &str) -> Option<OrchestrationRef> {
        let row = self.known(instance)?;
        Some(OrchestrationRef { name: row.name.clone(), version: row.version.clone() })
    }
}
