//! Group commit: every call that waits is carried out in one transaction. Calls that follow one another are applied by the
//! rules and written together; each of the store's own has a savepoint of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use duroxide_provider::ProviderError;
use duroxide_provider::clock::Clock;
use duroxide_provider::failpoint;
use duroxide_provider::metric;
use duroxide_provider::rules::Effects;
use tokio::time::Instant;

use super::batch::{Batch, NotApplied};
use super::call::{Ask, Call, Message, RollBack};
use super::clock_steps;
use super::damaged;
use super::db::Db;
use super::fault::{Fault, storage_error};
use super::flush::Flushed;
use super::parked::{Looked, Request};
use super::readers::Read;
use super::shared_file::SharedFile;
use super::statistics::count;
use super::tx::{self, Seen, Tx, take_turns_due, take_work_due};
use super::values::to_column;
use super::writer::Writer;

/// The calls of one transaction.
pub(super) struct Group {
    calls: Vec<OneCall>,
    /// Reads on the writer's connection: they come after the commit, so that they see what is committed.
    reads: Vec<Read>,
    bytes: usize,
    pub(super) effects: Effects,
    /// The calls that were applied last and are not written yet.
    pub(super) batch: Option<Batch>,
    /// Whether something was written in the transaction.
    wrote: bool,
    /// SQLite ended the transaction by itself: nothing of it stands.
    broken: bool,
}

/// A call of a group.
enum OneCall {
    Rule(Box<Ask>),
    Own(Box<dyn Call>),
}

impl OneCall {
    fn bytes(&self) -> usize {
        match self {
            Self::Rule(ask) => ask.call.bytes(),
            Self::Own(call) => call.bytes(),
        }
    }

    fn answer(self, group_failure: Option<&ProviderError>) {
        match self {
            Self::Rule(ask) => ask.answer(group_failure),
            Self::Own(call) => call.answer(group_failure),
        }
    }
}

impl Group {
    fn new() -> Self {
        Self {
            calls: Vec::new(),
            reads: Vec::new(),
            bytes: 0,
            effects: Effects::at(0),
            batch: None,
            wrote: false,
            broken: false,
        }
    }

    /// Sets the outcome of a call of the rules that failed.
    fn fail(&mut self, place: usize, fault: Fault) {
        if let Some(OneCall::Rule(ask)) = self.calls.get_mut(place) {
            ask.set_outcome(Err(fault));
        }
    }
}

impl Writer {
    /// Carries out what has been received, and whatever else is waiting, and commits once.
    pub(super) fn run_group(&mut self, first: Option<Message>) {
        let mut group = Group::new();
        if let Some(first) = first {
            self.sort_in(&mut group, first);
        }
        if let Err(lost) = self.known_loss() {
            return self.refuse(group, &lost);
        }
        let due = self.turns.next_due().min(self.work.next_due()) <= self.now();
        if group.calls.is_empty() && !due && !self.is_set_back() {
            self.read(group.reads);
            return;
        }
        if let Err(error) = self.db.execute("BEGIN IMMEDIATE", []) {
            return self.fail_to_begin(group, error);
        }
        self.look_for_foreign_changes(SharedFile::ask);
        let changes_before = self.db.db().total_changes();
        if self.look_at_clock() {
            self.make_ready(&mut group);
        }
        self.carry_out(&mut group);
        if !group.broken {
            self.serve(&mut group);
        }
        let wrote = self.db.db().total_changes() != changes_before;
        self.finish(group, wrote);
    }

    /// The clock was set back: what was stored while it was ahead is not to wait for it.
    fn make_ready(&mut self, group: &mut Group) {
        self.remembered.forget();
        group.wrote = true;
        let db = self.db.db();
        let mut tx = Tx::new(&db, self.now());
        match clock_steps::make_ready(&mut tx) {
            Ok(()) => group.effects.merge(tx.effects),
            Err(fault) => {
                let error = fault.into_error("make_ready");
                tracing::warn!(target: "duroxide::runtime", %error, "what was stored while the clock was ahead is not ready yet");
            }
        }
    }

    /// Carries out the calls at hand and those that wait, up to the limits of a group.
    fn carry_out(&mut self, group: &mut Group) {
        let limits = self.options.group;
        let began = Instant::now();
        let mut done = 0;
        loop {
            while let Some(call) = group.calls.get(done) {
                group.bytes += call.bytes();
                self.carry_out_one(group, done);
                done += 1;
                if group.broken {
                    return;
                }
            }
            let full =
                done >= limits.calls || group.bytes >= limits.bytes || began.elapsed() >= limits.duration;
            if full || self.stopping {
                return;
            }
            match self.messages.try_recv() {
                Ok(message) => self.sort_in(group, message),
                Err(_) => return,
            }
        }
    }

    fn carry_out_one(&mut self, group: &mut Group, place: usize) {
        if let Some(OneCall::Rule(_)) = group.calls.get(place) {
            return self.apply(group, place);
        }
        // What is under way must be in the store before anybody looks there.
        self.flush(group);
        let (db, clock) = (self.db.db(), &*self.options.clock);
        if let Some(OneCall::Own(call)) = group.calls.get_mut(place)
            && !group.broken
        {
            group.wrote = true;
            match run_call(&db, clock, call) {
                Ok((effects, seen)) => {
                    group.effects.merge(effects);
                    self.remembered.note(seen);
                }
                Err(RollBack) => group.broken = !db.in_transaction(),
            }
        }
    }

    /// Applies a call by the rules.
    fn apply(&mut self, group: &mut Group, place: usize) {
        loop {
            let now = self.now();
            let batch = group.batch.get_or_insert_with(|| Batch::new(now));
            let Some(OneCall::Rule(ask)) = group.calls.get_mut(place) else { return };
            let (db, remembered) = (self.db.db(), &mut self.remembered);
            match catch_unwind(AssertUnwindSafe(|| batch.apply(&db, remembered, &ask.call))) {
                Ok(Ok(answer)) => {
                    ask.set_outcome(Ok(answer));
                    batch.calls.push(place);
                    return;
                }
                Ok(Err(NotApplied::Fault(fault))) => {
                    ask.set_outcome(Err(fault));
                    group.broken = !db.in_transaction();
                    return;
                }
                Ok(Err(NotApplied::Damaged { key, cause })) => {
                    self.flush(group);
                    if group.broken {
                        return;
                    }
                    if let Err(fault) = self.end_damaged(group, key, &cause) {
                        return group.fail(place, fault);
                    }
                }
                Err(_) => {
                    ask.set_outcome(Err(Fault::Panicked));
                    // It is not known how far it came: the others are applied anew.
                    let others = group.batch.take().map(|batch| batch.calls).unwrap_or_default();
                    self.remembered.forget();
                    return self.apply_each_alone(group, others);
                }
            }
        }
    }

    /// Ends an instance whose row cannot be read: a sender must not fail for its receiver.
    fn end_damaged(&mut self, group: &mut Group, key: i64, cause: &str) -> Result<(), Fault> {
        group.wrote = true;
        self.remembered.forget();
        let db = self.db.db();
        let mut tx = Tx::new(&db, self.now());
        damaged::end_instance(&mut tx, key, cause)?;
        group.effects.merge(tx.effects);
        Ok(())
    }

    /// Writes what was applied last. If the store does not accept all of it, each call is tried for itself.
    pub(super) fn flush(&mut self, group: &mut Group) -> Option<Flushed> {
        let batch = group.batch.take().filter(|batch| !batch.calls.is_empty())?;
        let db = self.db.db();
        let is_all = !group.wrote && batch.calls.len() == 1;
        let begun = if is_all { Ok(0) } else { db.execute("SAVEPOINT batch", []) };
        let remembered = &mut self.remembered;
        let written = begun.map_err(Fault::from).and_then(|_| {
            catch_unwind(AssertUnwindSafe(|| batch.flush(&db, remembered))).unwrap_or(Err(Fault::Panicked))
        });
        let ended = match (&written, is_all) {
            (Ok(_), true) => Ok(0),
            (Ok(_), false) => db.execute("RELEASE batch", []),
            (Err(_), _) if !db.in_transaction() => Ok(0),
            (Err(_), true) => db.execute("ROLLBACK", []).and_then(|_| db.execute("BEGIN IMMEDIATE", [])),
            (Err(_), false) => {
                db.execute("ROLLBACK TO batch", []).and_then(|_| db.execute("RELEASE batch", []))
            }
        };
        if let Err(error) = &ended {
            tracing::error!(target: "duroxide::runtime", %error, "a savepoint could not be ended; its group is rolled back");
        }
        group.broken = ended.is_err() || !db.in_transaction();
        match written {
            Ok(flushed) => {
                group.wrote = true;
                let (mut effects, _) = batch.rows.finish();
                effects.expired += flushed.expired;
                group.effects.merge(effects);
                Some(flushed)
            }
            Err(fault) => {
                self.remembered.forget();
                match batch.calls.as_slice() {
                    _ if group.broken => {}
                    [place] => group.fail(*place, fault),
                    _ => self.apply_each_alone(group, batch.calls),
                }
                None
            }
        }
    }

    /// Applies and writes calls one by one: the failure of each is its own.
    fn apply_each_alone(&mut self, group: &mut Group, places: Vec<usize>) {
        // A savepoint of its own for each, since the others stand.
        group.wrote = true;
        for place in places {
            if group.broken {
                return;
            }
            self.apply(group, place);
            self.flush(group);
        }
    }

    fn sort_in(&mut self, group: &mut Group, message: Message) {
        match message {
            Message::Apply(ask) => group.calls.push(OneCall::Rule(ask)),
            Message::Call(call) => group.calls.push(OneCall::Own(call)),
            Message::Read(read) => group.reads.push(read),
            Message::FetchTurns(fetch) => self.turns.park(fetch),
            Message::FetchWork(fetch) => self.work.park(fetch),
            Message::Watch | Message::ClockJumped => {}
            Message::Stop => self.stopping = true,
        }
    }

    /// Serves the fetches that wait. Work items come first: an undecodable one sends a message to its
    /// instance, which may be fetched in the same transaction.
    fn serve(&mut self, group: &mut Group) {
        self.work.due_at(take_work_due(&mut group.effects));
        self.turns.due_at(take_turns_due(&mut group.effects));
        self.serve_from_batch(group);
        if group.broken {
            return;
        }
        let (db, clock) = (&self.db.db(), &*self.options.clock);
        let now = to_column(clock.now_ms());
        let (effects, remembered) = (&mut group.effects, &mut self.remembered);
        self.work.due_at(take_work_due(effects));
        self.work.serve(now, |request| look(db, clock, request, effects, |seen| remembered.note(seen)));
        self.turns.due_at(take_turns_due(effects));
        self.turns.serve(now, |request| look(db, clock, request, effects, |seen| remembered.note(seen)));
        // Those that go on waiting wait for the expiry of the locks just taken, too.
        self.work.due_at(take_work_due(effects));
        self.turns.due_at(take_turns_due(effects));
        group.broken = !db.in_transaction();
    }

    /// Commits, and then, never before, answers and wakes.
    fn finish(&mut self, group: Group, wrote: bool) {
        let failure = if group.broken {
            Some(ProviderError::retryable(
                "transaction",
                "SQLite rolled the transaction back; nothing was changed",
            ))
        } else if let Err(lost) = self.check_file() {
            Some(lost)
        } else {
            if wrote {
                failpoint::pass("sqlite.before_commit");
            }
            let committed = self.db.execute("COMMIT", []);
            if wrote {
                failpoint::pass("sqlite.after_commit");
            }
            let failed = committed.err().map(|error| unknown_outcome(&storage_error("commit", error)));
            // A commit to a file that was deleted meanwhile is not stored.
            failed.or_else(|| self.check_file().err())
        };
        if let Some(failure) = failure {
            self.remembered.forget();
            self.end_broken_transaction();
            for call in group.calls {
                call.answer(Some(&failure));
            }
            self.turns.rolled_back(&failure);
            self.work.rolled_back(&failure);
            return self.read(group.reads);
        }
        // Counted first, so that whoever has an answer finds it counted.
        let calls = group.calls.len() + self.work.served() + self.turns.served();
        let calls = u64::try_from(calls).unwrap_or(u64::MAX);
        count(&self.counters.calls, calls);
        count(&self.counters.commits, u64::from(wrote));
        metric::store_calls().increment(calls);
        metric::store_commits().increment(u64::from(wrote));
        tx::report(&group.effects, &self.counters);
        for call in group.calls {
            call.answer(None);
        }
        self.work.committed();
        self.turns.committed();
        self.waiters.wake(&group.effects.changed);
        self.read(group.reads);
    }

    /// Nothing can be done now. All that waits hears of it at once, instead of each after its own wait.
    fn fail_to_begin(&mut self, mut group: Group, error: rusqlite::Error) {
        let failure = storage_error("begin", error);
        let failure = ProviderError::retryable("begin", failure.message.clone()).with_source(failure);
        while let Ok(message) = self.messages.try_recv() {
            self.sort_in(&mut group, message);
        }
        for call in group.calls {
            call.answer(Some(&failure));
        }
        let now = self.now();
        self.turns.fail_due(now, &failure);
        self.work.fail_due(now, &failure);
        self.read(group.reads);
    }

    /// The file is lost: nothing is carried out. The reads find out themselves.
    fn refuse(&mut self, mut group: Group, lost: &ProviderError) {
        while let Ok(message) = self.messages.try_recv() {
            self.sort_in(&mut group, message);
        }
        for call in group.calls {
            call.answer(Some(lost));
        }
        self.refuse_waiting(lost);
        self.read(group.reads);
    }

    fn known_loss(&self) -> Result<(), ProviderError> {
        self.shared_file.as_ref().map_or(Ok(()), |shared| shared.file.known("begin"))
    }

    fn read(&self, reads: Vec<Read>) {
        for read in reads {
            // The answer's sender is dropped in the unwinding, which whoever asked sees as a failure.
            if catch_unwind(AssertUnwindSafe(|| read(&self.db.db()))).is_err() {
                tracing::error!(target: "duroxide::runtime", "a read of the SQLite store panicked");
                self.end_broken_transaction();
            }
        }
    }
}

fn unknown_outcome(error: &ProviderError) -> ProviderError {
    let message = format!("the commit failed, its outcome is unknown: {}", error.message);
    ProviderError::retryable("commit", message).with_source(error.clone())
}

/// Carries one call of the store's own out; its failure is its own.
fn run_call(db: &Db, clock: &dyn Clock, call: &mut Box<dyn Call>) -> Result<(Effects, Seen), RollBack> {
    let mut tx = Tx::of_own_call(db, to_column(clock.now_ms()));
    if let Err(error) = db.execute("SAVEPOINT one_call", []) {
        tracing::error!(target: "duroxide::runtime", %error, "a savepoint could not be set");
        return Err(RollBack);
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| call.run(&mut tx)));
    let outcome = outcome.unwrap_or_else(|_| {
        call.panicked();
        Err(RollBack)
    });
    end_savepoint(db, outcome.is_ok());
    outcome.map(|()| tx.finish())
}

/// Looks for a fetch; its failure is its own.
fn look<R: Request>(
    db: &Db,
    clock: &dyn Clock,
    request: &R,
    effects: &mut Effects,
    remember: impl FnOnce(Seen),
) -> Looked<R::Item> {
    let mut tx = Tx::new(db, to_column(clock.now_ms()));
    if !db.in_transaction() {
        // SQLite ended it after the failure of another call: nothing may be written outside of it.
        return Err(Fault::RolledBack);
    }
    db.execute("SAVEPOINT one_call", [])?;
    let outcome = catch_unwind(AssertUnwindSafe(|| request.look(&mut tx))).unwrap_or(Err(Fault::Panicked));
    end_savepoint(db, outcome.is_ok());
    if outcome.is_ok() {
        let (follows, seen) = tx.finish();
        effects.merge(follows);
        remember(seen);
    }
    outcome
}

/// Ends a savepoint. If SQLite has already ended the whole transaction, the caller sees that.
fn end_savepoint(db: &Db, keep: bool) {
    if !db.in_transaction() {
        return;
    }
    let ended = if keep {
        db.execute("RELEASE one_call", [])
    } else {
        db.execute("ROLLBACK TO one_call", []).and_then(|_| db.execute("RELEASE one_call", []))
    };
    if let Err(error) = ended {
        tracing::error!(target: "duroxide::runtime", %error, "a savepoint could not be ended; its group is rolled back");
        if let Err(error) = db.execute("ROLLBACK", []) {
            tracing::error!(target: "duroxide::runtime", %error, "a transaction could not be rolled back");
        }
    }
}
