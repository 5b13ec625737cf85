//! Group commit: every call that waits is carried out in one transaction, in two round trips or one.
//!
//! The first locks and reads the rows that the calls are about; the calls are then carried out in memory, one
//! after another; the second writes what they changed, serves the fetches that wait for it, and commits. Where
//! all rows are remembered, the first is spared: the second finds out whether they are still as remembered.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use duroxide_core::OrchestrationStatus;
use duroxide_provider::rules::{self, Answer, Effects, Wanted};
use duroxide_provider::{ProviderError, TurnRequest, WorkRequest};
use tokio::time::Instant;

use crate::fault::Fault;
use crate::fetch::fetch_turn::{Look, RawTurn};
use crate::fetch::fetch_work::Looked;
use crate::fetch::horizon::WrittenRows;
use crate::fetch::sessions::{self, Claims, Fetched};
use crate::group::blocked::AfterLockWait;
use crate::group::call::{Call, is_large};
use crate::group::carrier::Carrier;
use crate::group::endings::Audience;
use crate::group::parked::{Lane, ParkedFetch};
use crate::group::serve::{ServedTurns, ServedWork};
use crate::statistics::count_conflict;
use crate::values::{NEVER, from_column};

/// How often a transaction is tried again when others are in its way.
const MAX_CONFLICTS: u32 = 20;

/// Ids that got events before their start lately. Guessing them right spares a second transaction.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) ids: BTreeSet<String>,
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
pub(crate) enum Failure {
    /// It must be carried out again with these ids reserved.
    Reserve(String),
    /// It must be carried out again with what the store says. Nothing was written.
    Doubtful,
    /// PostgreSQL failed.
    Storage(Fault),
}

/// What a committed group brought.
pub(crate) struct Done {
    pub(crate) outcomes: Vec<Result<Answer, Fault>>,
    pub(crate) effects: Effects,
    /// How far back the rows are ready that it wrote.
    pub(crate) written: WrittenRows,
    pub(crate) wrote: bool,
    pub(crate) turns: Vec<Look<RawTurn>>,
    pub(crate) work: Vec<Looked>,
    /// Those who waited for the end of an instance, and what they see.
    pub(crate) told: Option<(Audience, OrchestrationStatus)>,
}

/// The fetches that a group serves.
#[derive(Default)]
pub(crate) struct Fetches {
    pub(crate) turns: Vec<ParkedFetch<TurnRequest>>,
    pub(crate) work: Vec<ParkedFetch<WorkRequest>>,
    /// Those that need no look.
    pub(crate) served_turns: Vec<ServedTurns>,
    pub(crate) served_work: Vec<ServedWork>,
}

impl Fetches {
    /// All of them, unanswered.
    pub(crate) fn unanswered(self) -> (Vec<ParkedFetch<TurnRequest>>, Vec<ParkedFetch<WorkRequest>>) {
        let turns = self.turns.into_iter().chain(self.served_turns.into_iter().map(|one| one.fetch));
        let work = self.work.into_iter().chain(self.served_work.into_iter().map(|one| one.fetch));
        (turns.collect(), work.collect())
    }
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
        let (begun, mut conflicts, mut blind) = (Instant::now(), 0, 0);
        // What is remembered is tried once, unless that would be much in vain.
        let mut trust = !calls.iter().any(|call| is_large(&call.work));
        loop {
            self.blocked.hold_back(&mut calls);
            if let Err(fault) = self.connect().await {
                self.fail(calls, fault);
                return None;
            }
            self.look_at_manual_clock();
            self.after_clock_step().await;
            let mut fetches = Fetches::default();
            match self.attempt(&calls, &reserved, &mut fetches, trust).await {
                Ok(done) => {
                    self.finish(calls, fetches, done).await;
                    return None;
                }
                Err(failure) => {
                    self.roll_back(&failure, &calls).await;
                    trust = false;
                    let fault = match failure {
                        Failure::Doubtful => {
                            self.keep_waiting(fetches);
                            continue;
                        }
                        Failure::Reserve(id) => {
                            self.expected.note(&id);
                            reserved.insert(id);
                            self.keep_waiting(fetches);
                            continue;
                        }
                        Failure::Storage(fault) => fault,
                    };
                    let fault = if fault.is_lock_timeout() {
                        match self.after_lock_wait(&mut calls, begun, &mut blind, fault).await {
                            AfterLockWait::TryAgain => {
                                self.keep_waiting(fetches);
                                continue;
                            }
                            AfterLockWait::EachAlone => {
                                self.keep_waiting(fetches);
                                return Some(calls);
                            }
                            AfterLockWait::Later => {
                                self.fetch_later(fetches);
                                return None;
                            }
                            AfterLockWait::GiveUp(fault) => fault,
                        }
                    } else {
                        fault
                    };
                    if fault.is_conflict() && conflicts < MAX_CONFLICTS {
                        conflicts += 1;
                        count_conflict(&self.counters);
                        self.keep_waiting(fetches);
                        continue;
                    }
                    if calls.len() > 1 && fault.is_about_values() {
                        self.keep_waiting(fetches);
                        return Some(calls);
                    }
                    let error = fault.into_error("transaction");
                    answer_all(calls, &error);
                    let (turns, work) = fetches.unanswered();
                    Lane::fail(turns, &error);
                    Lane::fail(work, &error);
                    return None;
                }
            }
        }
    }

    fn keep_waiting(&mut self, fetches: Fetches) {
        let (turns, work) = fetches.unanswered();
        turns.into_iter().rev().for_each(|fetch| self.turns.put_back(fetch));
        work.into_iter().rev().for_each(|fetch| self.work.put_back(fetch));
    }

    /// Nothing can be done now. All that waits hears of it at once, instead of each after its own wait.
    fn fail(&mut self, calls: Vec<Call>, fault: Fault) {
        let error = fault.into_error("connect");
        let error = ProviderError::retryable("connect", error.message.clone()).with_source(error);
        answer_all(calls, &error);
        answer_all(self.blocked.take_all(), &error);
        Lane::fail(self.turns.take_due(), &error);
        Lane::fail(self.work.take_due(), &error);
    }

    pub(crate) async fn roll_back(&mut self, failure: &Failure, calls: &[Call]) {
        let ended = match failure {
            Failure::Doubtful => return,
            Failure::Reserve(_) => false,
            Failure::Storage(fault) if fault.is_conflict() => {
                let mut wanted = Wanted::default();
                calls.iter().for_each(|call| call.work.wants(&mut wanted));
                self.memory.lock().forget_shared(&wanted);
                false
            }
            // What is remembered may still be so; and the calls that must wait forget what they are about.
            Failure::Storage(fault) if fault.is_lock_timeout() => false,
            Failure::Storage(fault) => {
                self.memory.lock().forget();
                fault.ends_connection()
            }
        };
        let rolled_back = match &self.conn {
            Some(conn) if !ended => conn.roll_back().await.is_ok(),
            Some(_) | None => false,
        };
        if !rolled_back {
            self.conn = None;
        }
    }

    /// After the commit, never before: answers and wakes.
    async fn finish(&mut self, calls: Vec<Call>, fetches: Fetches, done: Done) {
        let looked = fetches.turns.len() + fetches.work.len();
        let served = looked + fetches.served_turns.len() + fetches.served_work.len();
        let Done { outcomes, effects, written, mut wrote, turns, work, told } = done;
        let now = effects.now;
        let took = |work: &Looked| match work {
            Looked::Done(look) => !look.items.is_empty(),
            Looked::Sessions(_) => true,
        };
        wrote |= turns.iter().any(|look| !look.items.is_empty()) || work.iter().any(took);
        // Counted first, so that whoever has an answer finds it counted.
        self.count_calls(calls.len() + served, wrote);
        self.counters.report(&effects);
        if let Some((audience, end)) = told {
            audience.tell(&end);
        }
        for (call, outcome) in calls.into_iter().zip(outcomes) {
            // Whoever asked may have gone: the call is committed all the same, as after a lost answer.
            drop(call.answer.send(outcome.map_err(|fault| fault.into_error(call.operation))));
        }
        for ServedTurns { fetch, turns } in fetches.served_turns {
            let expires_at = rules::expires_at(now, fetch.request.lock_timeout);
            self.turns.served(fetch, turns, expires_at, now);
        }
        for ServedWork { fetch, items } in fetches.served_work {
            let expires_at = rules::expires_at(now, fetch.request.lock_timeout);
            self.work.served(fetch, items, expires_at, now);
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
                Looked::Sessions(horizon) => {
                    self.work.horizons.note(&fetch.request, horizon);
                    self.fetch_of_sessions(fetch).await;
                }
            }
        }
        // What was made ready just now was looked at; what is due later was not.
        self.turns.due_later(effects.turns_due, effects.turns_soon, now);
        self.work.due_later(effects.work_due, effects.work_soon, now);
        self.waiters.wake(&effects.changed);
        self.tell_fetches(&effects, &written);
        self.announce(&effects, &written, left_turns, left_work).await;
    }

    /// Tells the fetches of this process, if they wait elsewhere, what they may look for.
    fn tell_fetches(&self, effects: &Effects, written: &WrittenRows) {
        let Some(inbox) = &self.fetches_wait_at else { return };
        let now = effects.now;
        inbox.written(written.clone());
        inbox.wake(true, true);
        if effects.turns_soon > now && effects.turns_soon < NEVER {
            inbox.wake_turns_after(Duration::from_millis(from_column(effects.turns_soon - now)));
        }
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
            match sessions::fetch(conn, manual, &fetch.request, self.work.start_of(&fetch)).await {
                Ok(Fetched { look, claims }) => {
                    let now = look.now;
                    let took = self.work.looked(fetch, look);
                    // What was taken may have claimed a session, which answers every question anew.
                    self.work.forget_quiet();
                    if took || claims == Claims::GivenUp {
                        self.work.wake();
                    }
                    if claims == Claims::GivenUp {
                        self.announce(&Effects::at(now), &WrittenRows::default(), false, true).await;
                    }
                    return;
                }
                Err(fault) => {
                    if fault.is_lock_timeout() {
                        self.roll_back(&Failure::Storage(fault), &[]).await;
                        count_conflict(&self.counters);
                        return self.work.put_back_later(vec![fetch]);
                    }
                    let conflict = fault.is_conflict() && conflicts < MAX_CONFLICTS;
                    let failure = Failure::Storage(fault);
                    self.roll_back(&failure, &[]).await;
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

fn answer_all(calls: Vec<Call>, error: &ProviderError) {
    for call in calls {
        let failed = ProviderError::of_kind(error.kind(), call.operation, error.message.clone());
        drop(call.answer.send(Err(failed.with_source(error.clone()))));
    }
}
