//! One attempt at a group: its calls carried out, fetches served, all of it committed.

use std::collections::{BTreeSet, HashMap};

use duroxide_core::OrchestrationStatus;
use duroxide_provider::failpoint;
use duroxide_provider::rules::{Answer, Effects, ExecutionRow, InstanceRow, Rows, Wanted};
use duroxide_provider::{TurnRequest, WorkRequest};
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, Transaction};
use crate::fault::Fault;
use crate::fetch::fetch_turn::{self, Look, RawTurn, Start};
use crate::fetch::fetch_work::{self, Looked};
use crate::fetch::horizon::{Bounds, WrittenRows};
use crate::group::call::Call;
use crate::group::carrier::Carrier;
use crate::group::endings::{self, Audience};
use crate::group::parked::ParkedFetch;
use crate::group::run_group::{Done, Failure, Fetches};
use crate::group::serve;
use crate::rows::flush::Flushed;
use crate::rows::working_set::{Obstacle, WorkingSet};
use crate::rows::write_group::Written;
use crate::store::{AFTER_COMMIT, BEFORE_COMMIT};

/// A group on its way to its commit.
struct Prepared {
    pipeline: Pipeline,
    transaction: Transaction,
    outcomes: Vec<Result<Answer, Fault>>,
    effects: Effects,
    /// How far back the rows are ready that it writes.
    written: WrittenRows,
    wrote: bool,
    flushed: Flushed,
    /// How it leaves the instances that it is about, with their executions.
    left: Vec<(InstanceRow, Option<ExecutionRow>)>,
    /// Work items of which nothing is known any more.
    gone_work: Vec<i64>,
    /// Those who wait for the instance that it ends.
    audience: Audience,
    end: Option<OrchestrationStatus>,
}

impl Prepared {
    /// A group without calls.
    fn empty() -> Self {
        Self {
            pipeline: Pipeline::default(),
            transaction: Transaction::default(),
            outcomes: Vec::new(),
            effects: Effects::at(0),
            written: WrittenRows::default(),
            wrote: false,
            flushed: Flushed::default(),
            left: Vec::new(),
            gone_work: Vec::new(),
            audience: Audience::default(),
            end: None,
        }
    }
}

impl Carrier {
    /// Carries calls out and serves fetches, in one transaction.
    pub(crate) async fn attempt(
        &mut self,
        calls: &[Call],
        reserved: &BTreeSet<String>,
        fetches: &mut Fetches,
        trust: bool,
    ) -> Result<Done, Failure> {
        let none = || Failure::Storage(Fault::NoConnection("there is no connection".to_string()));
        let conn = self.conn.take().ok_or_else(none)?;
        let done = self.attempt_on(&conn, calls, reserved, fetches, trust).await;
        self.conn = Some(conn);
        done
    }

    async fn attempt_on(
        &mut self,
        conn: &Conn<'static>,
        calls: &[Call],
        reserved: &BTreeSet<String>,
        fetches: &mut Fetches,
        trust: bool,
    ) -> Result<Done, Failure> {
        let manual = self.manual();
        let mut group = Prepared::empty();
        if !calls.is_empty() {
            self.prepare(conn, calls, reserved, fetches, trust, &mut group).await?;
        }
        // Work items come first: an undecodable one sends a message to its instance.
        fetches.work = self.work.take_due();
        fetches.turns = self.turns.take_due();
        // Whether or not the commit succeeds: its outcome may stay unknown.
        self.note_rows(&group.written);
        let mut look_at_work = |fetch: &ParkedFetch<WorkRequest>| {
            let (request, start) = (&fetch.request, self.work.start_of(fetch));
            let (wanted, ahead) = (request.max_items.max(1), self.work.ahead());
            fetch_work::look(&mut group.pipeline, manual, request, wanted, start, ahead)
        };
        let places_work: Vec<usize> = fetches.work.iter().map(&mut look_at_work).collect();
        let mut look_at_turns = |fetch: &ParkedFetch<TurnRequest>| {
            let (request, start) = (&fetch.request, self.start_of(fetch));
            fetch_turn::look(&mut group.pipeline, manual, request, request.max_items.max(1), start)
        };
        let places_turns: Vec<_> = fetches.turns.iter().map(&mut look_at_turns).collect();
        group.audience = self.audience(&group);
        failpoint::pass(BEFORE_COMMIT);
        let pipeline = std::mem::take(&mut group.pipeline);
        let answers = pipeline.commit(conn, group.transaction).await.map_err(Failure::Storage)?;
        failpoint::pass(AFTER_COMMIT);
        self.note_written(&mut group, &answers, fetches)?;
        let work: Vec<Looked> = places_work
            .into_iter()
            .zip(&fetches.work)
            .map(|(place, fetch)| fetch_work::looked(&answers, place, &fetch.request, self.work.ahead()))
            .collect();
        places_turns.iter().for_each(|places| self.versions.found(fetch_turn::versions(&answers, *places)));
        let turns: Vec<Look<RawTurn>> = places_turns
            .into_iter()
            .zip(&fetches.turns)
            .map(|(places, fetch)| fetch_turn::looked(&answers, places, &fetch.request, self.turns.ahead()))
            .collect();
        self.note_taken(&turns, &work, fetches);
        let seen = work.iter().filter_map(|looked| match looked {
            Looked::Done(look) => Some(look.now),
            Looked::Sessions(_) => None,
        });
        seen.chain(turns.iter().map(|look| look.now)).for_each(|now| self.saw_clock(now));
        let Prepared { outcomes, effects, written, wrote, audience, end, .. } = group;
        let told = end.map(|end| (audience, end));
        Ok(Done { outcomes, effects, written, wrote, turns, work, told })
    }

    /// Where a look for this fetch begins. One that begins with the first entry finds the versions, too.
    fn start_of(&self, fetch: &ParkedFetch<TurnRequest>) -> Start {
        let bounds = self.turns.start_of(fetch);
        let versions = if bounds == Bounds::UNKNOWN { None } else { self.versions.known() };
        Start { bounds, ahead: self.turns.ahead(), versions }
    }

    /// Those who wait for an instance that ends with this group, if its answer says what they will see.
    fn audience(&self, group: &Prepared) -> Audience {
        let ends = group.flushed.written.is_some_and(Written::ends);
        let ended = group.left.iter().find(|(row, _)| ends && row.pending.end.is_some());
        ended.map(|(row, _)| self.endings.audience(&row.instance)).unwrap_or_default()
    }

    /// Carries calls out in memory, gives what they made ready to fetches that wait for it, and adds the statements
    /// that write it.
    async fn prepare(
        &mut self,
        conn: &Conn<'static>,
        calls: &[Call],
        reserved: &BTreeSet<String>,
        fetches: &mut Fetches,
        trust: bool,
        group: &mut Prepared,
    ) -> Result<(), Failure> {
        let manual = self.manual();
        let mut wanted = Wanted::default();
        calls.iter().for_each(|call| call.work.wants(&mut wanted));
        let guessed = wanted.ids.intersection(&self.expected.ids).cloned();
        let guessed: Vec<String> = guessed.chain(reserved.iter().cloned()).collect();
        wanted.reserved.extend(guessed);
        let recalled = if trust { self.memory.lock().recall(&wanted, manual) } else { None };
        let mut set = match recalled.and_then(|rows| carry_out_from_memory(conn.schema(), rows, calls)) {
            Some((set, answers)) => {
                group.outcomes.extend(answers.into_iter().map(Ok));
                set
            }
            None => {
                let spare_keys = self.memory.lock().take_keys();
                let set = WorkingSet::begin(conn, manual, &wanted, spare_keys).await;
                let mut set = set.map_err(Failure::Storage)?;
                group.transaction = Transaction::Begun;
                self.memory.lock().note_time(set.rows.now());
                self.saw_clock(set.rows.now());
                set.remember_executions(&self.memory.lock());
                for call in calls {
                    group.outcomes.push(carry_out(&mut set, conn, call).await?);
                }
                set
            }
        };
        fetches.served_turns = serve::turns(&mut set, &mut self.turns);
        fetches.served_work = serve::work(&mut set, &mut self.work);
        group.flushed = set.flush(&mut group.pipeline);
        group.wrote = !group.pipeline.is_empty();
        (group.left, group.gone_work) = set.as_left();
        group.written = set.written_rows();
        let (effects, for_starts) = set.rows.finish();
        self.memory.lock().note_keys(set.spare_keys, for_starts);
        group.effects = effects;
        if group.effects.turns_due <= group.effects.now {
            self.turns.wake();
        }
        if group.effects.work_due <= group.effects.now {
            self.work.wake();
        }
        Ok(())
    }

    /// Remembers what was committed.
    fn note_written(
        &mut self,
        group: &mut Prepared,
        answers: &[Vec<Row>],
        fetches: &mut Fetches,
    ) -> Result<(), Failure> {
        group.effects.expired += group.flushed.expired(answers);
        let mut ids = HashMap::new();
        if let Some((clock, stored)) = group.flushed.written.and_then(|written| written.answer(answers)) {
            let clock = clock.ok_or(Failure::Doubtful)?;
            self.memory.lock().note_time(clock);
            if self.options.clock.is_none() {
                self.saw_clock(clock);
            }
            ids = stored;
        }
        let served = std::mem::take(&mut fetches.served_work);
        fetches.served_work = served.into_iter().map(|one| one.with_ids(&ids)).collect();
        self.upkeep.changed(group.left.len() + group.gone_work.len(), &self.target);
        group.end = shown(group, answers);
        let mut memory = self.memory.lock();
        group.gone_work.drain(..).for_each(|id| memory.forget_work(id));
        for (row, execution) in group.left.drain(..) {
            memory.note_instance(row, execution, group.effects.now);
        }
        Ok(())
    }

    /// Remembers what fetches got.
    fn note_taken(&mut self, turns: &[Look<RawTurn>], work: &[Looked], fetches: &Fetches) {
        let mut memory = self.memory.lock();
        turns.iter().flat_map(|look| &look.items).for_each(|turn| memory.note_turn(turn));
        let looked = work.iter().flat_map(|looked| match looked {
            Looked::Done(look) => look.items.as_slice(),
            Looked::Sessions(_) => &[],
        });
        let served = fetches.served_work.iter().flat_map(|one| &one.items);
        for row in looked.chain(served).filter_map(|item| item.row.clone()) {
            memory.note_work(row);
        }
    }
}

/// What those who wait for the end of an instance see.
fn shown(group: &Prepared, answers: &[Vec<Row>]) -> Option<OrchestrationStatus> {
    if group.audience.is_empty() {
        return None;
    }
    let custom = group.flushed.written?.custom_status(answers)?;
    let (row, execution) = group.left.iter().find(|(row, _)| row.pending.end.is_some())?;
    endings::shown_end(row, execution.as_ref()?, custom)
}

/// Carries all calls out with what is remembered. `None` unless all succeed: what fails, or must know more, is judged by
/// what the store says.
fn carry_out_from_memory<'a>(
    schema: &'a str,
    mut rows: Rows,
    calls: &[Call],
) -> Option<(WorkingSet<'a>, Vec<Answer>)> {
    let answers = calls.iter().map(|call| rows.apply(&call.work).ok()).collect::<Option<Vec<_>>>()?;
    let set = WorkingSet::recalled(schema, rows);
    (!set.takes_reading()).then_some((set, answers))
}

/// Carries one call out in memory. Its own failure is its outcome.
async fn carry_out(
    set: &mut WorkingSet<'_>,
    conn: &Conn<'_>,
    call: &Call,
) -> Result<Result<Answer, Fault>, Failure> {
    match set.carry_out(conn, &call.work).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(Obstacle::Reserve(id)) => Err(Failure::Reserve(id)),
        Err(Obstacle::Fault(fault @ Fault::Call(_))) => Ok(Err(fault)),
        Err(Obstacle::Fault(fault)) => Err(Failure::Storage(fault)),
    }
}
