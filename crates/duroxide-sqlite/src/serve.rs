//! Serving fetches that wait from what the calls of their own group made ready: nothing is looked for, and what is given
//! away is written once, locked.

use duroxide_core::WorkItem;
use duroxide_provider::rules::{ServedTurn, ServedWork, Token, expires_at};
use duroxide_provider::{FetchedWork, TurnRequest, WorkRequest};
use rusqlite::types::ValueRef;

use super::db::Db;
use super::fault::Fault;
use super::fetch_turn::is_compatible;
use super::flush::Flushed;
use super::group::Group;
use super::parked::ParkedFetch;
use super::raw_turn::{RawTurn, served_turn};
use super::values::{Ms, from_json};
use super::writer::Writer;

type TurnFetch = ParkedFetch<TurnRequest, RawTurn>;
type WorkFetch = ParkedFetch<WorkRequest, FetchedWork>;

impl Writer {
    /// Writes what the calls changed, and gives what they made ready to fetches that were told that there is nothing.
    pub(super) fn serve_from_batch(&mut self, group: &mut Group) {
        let Some(batch) = group.batch.as_mut().filter(|batch| !batch.calls.is_empty()) else { return };
        let now = batch.rows.now();
        let mut work: Vec<(WorkFetch, Vec<ServedWork>)> = Vec::new();
        let mut turns: Vec<(TurnFetch, Vec<ServedTurn>)> = Vec::new();
        let lane = &mut self.work;
        batch.rows.serve_work(
            || lane.take_quiet(now),
            |fetch| &fetch.request,
            |fetch, items| work.push((fetch, items)),
        );
        let lane = &mut self.turns;
        batch.rows.serve_turns(
            || lane.take_quiet(now),
            |fetch| &fetch.request,
            is_compatible,
            |fetch, items| turns.push((fetch, items)),
        );
        let flushed = self.flush(group);
        for (fetch, items) in work {
            match &flushed {
                Some(flushed) => self.give_work(fetch, items, flushed, now),
                None => self.work.park_again(fetch),
            }
        }
        for (fetch, items) in turns {
            match &flushed {
                Some(_) => self.give_turns(fetch, items, now),
                None => self.turns.park_again(fetch),
            }
        }
    }

    fn give_work(&mut self, fetch: WorkFetch, items: Vec<ServedWork>, flushed: &Flushed, now: Ms) {
        let until = expires_at(now, fetch.request.lock_timeout);
        let mut fetched = Vec::new();
        for mut served in items {
            // One that was queued before is not given away here.
            let Some(id) = served.row.nonce.and_then(|nonce| flushed.work_ids.get(&nonce)) else { continue };
            served.row.id = *id;
            match fetched_work(&served) {
                Some(work) => fetched.push(work),
                None => {
                    tracing::error!(target: "duroxide::runtime", "a work item does not decode that was encoded just now")
                }
            }
            self.remembered.note_work(served.row);
        }
        self.work.give(fetch, Ok(fetched), until);
    }

    fn give_turns(&mut self, fetch: TurnFetch, items: Vec<ServedTurn>, now: Ms) {
        let until = expires_at(now, fetch.request.lock_timeout);
        let db = self.db.db();
        let turns: Result<Vec<RawTurn>, Fault> =
            items.into_iter().map(|served| complete(&db, served, now, &fetch.request)).collect();
        self.turns.give(fetch, turns, until);
    }
}

fn complete(db: &Db, served: ServedTurn, now: Ms, request: &TurnRequest) -> Result<RawTurn, Fault> {
    served_turn(db, served, now, request)
}

fn fetched_work(served: &ServedWork) -> Option<FetchedWork> {
    let item: WorkItem = from_json(ValueRef::Text(served.json.as_bytes())).ok()?;
    let token = Token { key: served.row.id, nonce: served.row.nonce? };
    Some(FetchedWork {
        item,
        lock_token: token.text(),
        attempts: 1,
        forgiven: 0,
        suspect: false,
        expired: None,
        orchestration: Some(served.orchestration.clone()),
        progress: None,
        last_cause: None,
    })
}
