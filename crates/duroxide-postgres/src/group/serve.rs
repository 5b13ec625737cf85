//! Fetches that wait and are served from what their own transaction makes ready, without a look at the queue.

use std::collections::HashMap;

use duroxide_provider::rules::{self, InboxRow};
use duroxide_provider::{TurnRequest, WorkRequest};

use crate::fetch::fetch_turn::{self, RawMessage, RawTurn};
use crate::fetch::fetch_work::RawWork;
use crate::group::parked::{Lane, ParkedFetch};
use crate::rows::working_set::WorkingSet;

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

/// Gives the instances that the calls made ready to fetches that wait for them.
pub(crate) fn turns(set: &mut WorkingSet<'_>, lane: &mut Lane<TurnRequest>) -> Vec<ServedTurns> {
    let (now, mut served, mut unserved) = (set.rows.now(), Vec::new(), Vec::new());
    set.rows.serve_turns(
        || lane.take_quiet(),
        |fetch| &fetch.request,
        fetch_turn::accepts,
        |fetch, turns| {
            let turns: Vec<RawTurn> = turns.into_iter().map(|turn| born_locked(turn, now)).collect();
            if turns.is_empty() { unserved.push(fetch) } else { served.push(ServedTurns { fetch, turns }) }
        },
    );
    unserved.into_iter().for_each(|fetch| lane.put_back(fetch));
    served
}

fn born_locked(turn: rules::ServedTurn, now: crate::values::Ms) -> RawTurn {
    let rules::ServedTurn { token, ready_at, row, execution, messages } = turn;
    let message = |row: InboxRow| RawMessage {
        visible_at: row.visible_at,
        position: row.position,
        kind: row.kind.code(),
        attempts: 1,
        json: row.json,
    };
    RawTurn {
        token,
        ready_at,
        now,
        row,
        expired: None,
        last_event_id: execution.last_event_id,
        execution: Some(execution),
        last_cause: None,
        messages: messages.into_iter().map(message).collect(),
    }
}

/// Gives the work items that the calls queued to fetches that wait for them.
pub(crate) fn work(set: &mut WorkingSet<'_>, lane: &mut Lane<WorkRequest>) -> Vec<ServedWork> {
    let (mut served, mut unserved) = (Vec::new(), Vec::new());
    set.rows.serve_work(
        || lane.take_quiet(),
        |fetch| &fetch.request,
        |fetch, items| {
            let items: Vec<RawWork> = items.into_iter().filter_map(RawWork::born_locked).collect();
            if items.is_empty() { unserved.push(fetch) } else { served.push(ServedWork { fetch, items }) }
        },
    );
    unserved.into_iter().for_each(|fetch| lane.put_back(fetch));
    served
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
