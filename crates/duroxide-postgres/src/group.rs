//! Group commit: every call that waits is carried out in one transaction, in two round trips.
//!
//! The first locks and reads the rows that the calls are about; the calls are then carried out in memory, one
//! after another; the second writes what they changed, serves the fetches that wait for it, and commits.

use std::collections::{BTreeSet, VecDeque};

use duroxide::failpoint;
use duroxide::providers::{ProviderError, TurnRequest, WorkRequest};
use tokio_postgres::Row;

use crate::call::Call;
use crate::carrier::Carrier;
use crate::effects::Effects;
use crate::fault::Fault;
use crate::fetch_turn::{self, Look, RawTurn};
use crate::fetch_work::{self, Looked};
use crate::messages::Obstacle;
use crate::parked::{Lane, ParkedFetch};
use crate::pipeline::Pipeline;
use crate::sessions;
use crate::statistics::count_conflict;
use crate::store::{AFTER_COMMIT, BEFORE_COMMIT};
use crate::values::Ms;
use crate::working_set::{Wanted, WorkingSet};

/// How often a transaction is tried again when others are in its way.
const MAX_CONFLICTS: u32 = 20;

/// Ids that got events before their start lately. Guessing them right spares a second transaction.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    ids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Expected {
    /// Remembered at most.
    const MAX: usize = 256;

    fn note(&mut self, id: &str) {
        if self.ids.insert(id.to_string()) {
            self.order.push_back(id.to_string());
        }
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

/// Why a group was rolled back.
enum Failure {
    /// It must be carried out again with these ids reserved.
    Reserve(String),
    /// One of its calls failed after it had begun.
    Call(usize, Fault),
    /// PostgreSQL failed.
    Storage(Fault),
}

/// What a committed group brought.
struct Done {
    outcomes: Vec<Result<(), Fault>>,
    effects: Effects,
    now: Ms,
    wrote: bool,
    turns: Vec<Look<RawTurn>>,
    work: Vec<Looked>,
}

/// The fetches that a group serves.
struct Fetches {
    turns: Vec<ParkedFetch<TurnRequest>>,
    work: Vec<ParkedFetch<WorkRequest>>,
}

impl Carrier {
    /// Carries these calls out, and serves the fetches that are due.
    pub(crate) async fn run_group(&mut self, calls: Vec<Call>) {
        let mut alone: VecDeque<Vec<Call>> = VecDeque::from([calls]);
        while let Some(calls) = alone.pop_front() {
            if let Some(suspects) = self.run_calls(calls).await {
                // One of them is more than the server can take: each for itself.
                alone.extend(suspects.into_iter().map(|call| vec![call]));
            }
        }
    }

    /// Carries calls out. Gives them back when one among several cannot be stored.
    async fn run_calls(&mut self, mut calls: Vec<Call>) -> Option<Vec<Call>> {
        let mut reserved = BTreeSet::new();
        let mut conflicts = 0;
        loop {
            if let Err(fault) = self.connect().await {
                self.fail(calls, fault);
                return None;
            }
            let mut fetches = Fetches { turns: Vec::new(), work: Vec::new() };
            match self.attempt(&calls, &reserved, &mut fetches).await {
                Ok(done) => {
                    self.finish(calls, fetches, done).await;
                    return None;
                }
                Err(failure) => {
                    self.roll_back(&failure).await;
                    let fault = match failure {
                        Failure::Reserve(id) => {
                            self.expected.note(&id);
                            reserved.insert(id);
                            self.keep_waiting(fetches);
                            continue;
                        }
                        Failure::Call(index, fault) => {
                            let call = calls.remove(index);
                            drop(call.answer.send(Err(fault.into_error(call.operation))));
                            self.keep_waiting(fetches);
                            continue;
                        }
                        Failure::Storage(fault) => fault,
                    };
                    if fault.is_conflict() && conflicts < MAX_CONFLICTS {
                        conflicts += 1;
                        count_conflict(&self.counters);
                        self.keep_waiting(fetches);
                        continue;
                    }
                    if calls.len() > 1 && is_about_values(&fault) {
                        self.keep_waiting(fetches);
                        return Some(calls);
                    }
                    let error = fault.into_error("transaction");
                    answer_all(calls, &error);
                    Lane::fail(fetches.turns, &error);
                    Lane::fail(fetches.work, &error);
                    return None;
                }
            }
        }
    }

    fn keep_waiting(&mut self, fetches: Fetches) {
        fetches.turns.into_iter().rev().for_each(|fetch| self.turns.put_back(fetch));
        fetches.work.into_iter().rev().for_each(|fetch| self.work.put_back(fetch));
    }

    /// Nothing can be done now. All that waits hears of it at once, instead of each after its own wait.
    fn fail(&mut self, calls: Vec<Call>, fault: Fault) {
        let error = fault.into_error("connect");
        let error = ProviderError::retryable("connect", error.message.clone()).with_source(error);
        answer_all(calls, &error);
        Lane::fail(self.turns.take_due(), &error);
        Lane::fail(self.work.take_due(), &error);
    }

    async fn roll_back(&mut self, failure: &Failure) {
        let ended = match failure {
            Failure::Reserve(_) | Failure::Call(_, _) => false,
            Failure::Storage(fault) => fault.ends_connection(),
        };
        let rolled_back = match &self.conn {
            Some(conn) if !ended => conn.execute("ROLLBACK", &[]).await.is_ok(),
            Some(_) | None => false,
        };
        if !rolled_back {
            self.conn = None;
        }
    }

    async fn attempt(
        &mut self,
        calls: &[Call],
        reserved: &BTreeSet<String>,
        fetches: &mut Fetches,
    ) -> Result<Done, Failure> {
        let manual = self.manual();
        let conn = self
            .conn
            .as_ref()
            .ok_or_else(|| Failure::Storage(Fault::NoConnection("there is no connection".to_string())))?;
        let mut pipeline = Pipeline::default();
        let mut outcomes = Vec::with_capacity(calls.len());
        let mut effects = Effects::default();
        let (mut now, mut wrote, mut expired) = (0, false, None);
        if calls.is_empty() {
            pipeline.add("BEGIN", Vec::new());
        } else {
            let mut wanted = Wanted::default();
            calls.iter().for_each(|call| call.work.wants(&mut wanted));
            let guessed = wanted.ids.intersection(&self.expected.ids).cloned();
            let guessed: Vec<String> = guessed.chain(reserved.iter().cloned()).collect();
            wanted.reserved.extend(guessed);
            let set = WorkingSet::begin(conn, manual, wanted).await;
            let mut set = set.map_err(Failure::Storage)?;
            for (index, call) in calls.iter().enumerate() {
                outcomes.push(carry_out(&mut set, index, call).await?);
            }
            now = set.now;
            expired = set.flush(&mut pipeline);
            wrote = !pipeline.is_empty();
            effects = set.effects;
            if effects.turns_due <= now {
                self.turns.wake();
            }
            if effects.work_due <= now {
                self.work.wake();
            }
        }
        // Work items come first: an undecodable one sends a message to its instance.
        fetches.work = self.work.take_due();
        fetches.turns = self.turns.take_due();
        let places_work: Vec<usize> = fetches
            .work
            .iter()
            .map(|fetch| {
                fetch_work::look(&mut pipeline, manual, &fetch.request, fetch.request.max_items.max(1))
            })
            .collect();
        let places_turns: Vec<_> = fetches
            .turns
            .iter()
            .map(|fetch| {
                fetch_turn::look(&mut pipeline, manual, &fetch.request, fetch.request.max_items.max(1))
            })
            .collect();
        pipeline.add("COMMIT", Vec::new());
        failpoint::pass(BEFORE_COMMIT);
        let answers: Vec<Vec<Row>> =
            async { pipeline.run(conn).await?.committed() }.await.map_err(Failure::Storage)?;
        failpoint::pass(AFTER_COMMIT);
        if let Some(expired) = expired.and_then(|place| answers.get(place)) {
            effects.expired += u64::try_from(expired.len()).unwrap_or(0);
        }
        let work: Vec<Looked> = places_work
            .into_iter()
            .zip(&fetches.work)
            .map(|(place, fetch)| fetch_work::looked(&answers, place, &fetch.request))
            .collect();
        let turns: Vec<Look<RawTurn>> = places_turns
            .into_iter()
            .zip(&fetches.turns)
            .map(|(places, fetch)| fetch_turn::looked(&answers, places, &fetch.request))
            .collect();
        Ok(Done { outcomes, effects, now, wrote, turns, work })
    }

    /// After the commit, never before: answers and wakes.
    async fn finish(&mut self, calls: Vec<Call>, fetches: Fetches, done: Done) {
        let served = fetches.turns.len() + fetches.work.len();
        let Done { outcomes, effects, now, mut wrote, turns, work } = done;
        let took = |work: &Looked| match work {
            Looked::Done(look) => !look.items.is_empty(),
            Looked::Sessions => true,
        };
        wrote |= turns.iter().any(|look| !look.items.is_empty()) || work.iter().any(took);
        // Counted first, so that whoever has an answer finds it counted.
        self.count_calls(calls.len() + served, wrote);
        effects.report(&self.counters);
        for (call, outcome) in calls.into_iter().zip(outcomes) {
            // Whoever asked may have gone: the call is committed all the same, as after a lost answer.
            drop(call.answer.send(outcome.map_err(|fault| fault.into_error(call.operation))));
        }
        let mut left_turns = effects.turns_due <= now;
        for (fetch, look) in fetches.turns.into_iter().zip(turns) {
            let full = look.items.len() >= fetch.request.max_items;
            let suits = effects.turns_suit(&fetch.request);
            let took = self.turns.looked(fetch, look);
            left_turns &= !suits || (took && full);
        }
        let mut left_work = effects.work_due <= now;
        for (fetch, look) in fetches.work.into_iter().zip(work) {
            match look {
                Looked::Done(look) => {
                    let full = look.items.len() >= fetch.request.max_items;
                    let suits = effects.work_suits(&fetch.request);
                    let took = self.work.looked(fetch, look);
                    left_work &= !suits || (took && full);
                }
                Looked::Sessions => self.fetch_of_sessions(fetch).await,
            }
        }
        // What was made ready just now was looked at; what is due later was not.
        self.turns.due_later(effects.turns_due, effects.turns_soon, now);
        self.work.due_later(effects.work_due, effects.work_soon, now);
        self.waiters.wake(&effects.changed);
        self.announce(&effects, now, left_turns, left_work).await;
    }

    /// Serves a fetch while items of sessions are queued, in a transaction of its own.
    async fn fetch_of_sessions(&mut self, fetch: ParkedFetch<WorkRequest>) {
        let manual = self.manual();
        let mut conflicts = 0;
        loop {
            if let Err(fault) = self.connect().await {
                return fetch.fail(&fault.into_error("connect"));
            }
            let Some(conn) = &self.conn else { return self.work.put_back(fetch) };
            match sessions::fetch(conn, manual, &fetch.request).await {
                Ok(look) => {
                    self.work.looked(fetch, look);
                    // What was taken may have claimed a session, which answers other questions anew.
                    self.work.forget_quiet();
                    return;
                }
                Err(fault) => {
                    let conflict = fault.is_conflict() && conflicts < MAX_CONFLICTS;
                    let failure = Failure::Storage(fault);
                    self.roll_back(&failure).await;
                    conflicts += 1;
                    if conflict {
                        count_conflict(&self.counters);
                        continue;
                    }
                    let Failure::Storage(fault) = failure else { return };
                    return fetch.fail(&fault.into_error("transaction"));
                }
            }
        }
    }
}

/// Carries one call out in memory. Its own failure is its outcome, unless it has changed something.
async fn carry_out(
    set: &mut WorkingSet<'_>,
    index: usize,
    call: &Call,
) -> Result<Result<(), Fault>, Failure> {
    set.begun = false;
    match call.work.run(set).await {
        Ok(()) => Ok(Ok(())),
        Err(Obstacle::Reserve(id)) => Err(Failure::Reserve(id)),
        Err(Obstacle::Fault(
            fault @ (Fault::Storage(_) | Fault::NoConnection(_) | Fault::UnknownOutcome(_)),
        )) => Err(Failure::Storage(fault)),
        Err(Obstacle::Fault(fault)) if set.begun => Err(Failure::Call(index, fault)),
        Err(Obstacle::Fault(fault)) => Ok(Err(fault)),
    }
}

/// Whether the server refused what was to be stored, rather than being in trouble itself.
fn is_about_values(fault: &Fault) -> bool {
    let Fault::Storage(error) = fault else { return false };
    error.code().is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)))
}

fn answer_all(calls: Vec<Call>, error: &ProviderError) {
    for call in calls {
        let failed = ProviderError::of_kind(error.kind(), call.operation, error.message.clone());
        drop(call.answer.send(Err(failed.with_source(error.clone()))));
    }
}
