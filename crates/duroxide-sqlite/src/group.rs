//! Group commit: every call that waits is carried out in one transaction, each in a savepoint of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use duroxide_provider::ProviderError;
use duroxide_provider::clock::Clock;
use duroxide_provider::failpoint;
use duroxide_provider::metric;
use tokio::time::Instant;

use super::call::{Call, Message, RollBack};
use super::clock_steps;
use super::db::Db;
use super::fault::{Fault, storage_error};
use super::parked::{Looked, Request};
use super::readers::Read;
use super::shared_file::SharedFile;
use super::statistics::count;
use super::tx::{Effects, Tx};
use super::values::to_column;
use super::writer::Writer;

/// The calls of one transaction.
#[derive(Default)]
struct Group {
    calls: Vec<Box<dyn Call>>,
    /// Reads on the writer's connection: they come after the commit, so that they see what is committed.
    reads: Vec<Read>,
    bytes: usize,
    effects: Effects,
    /// SQLite ended the transaction by itself: nothing of it stands.
    broken: bool,
}

impl Writer {
    /// Carries out what has been received, and whatever else is waiting, and commits once.
    pub(super) fn run_group(&mut self, first: Option<Message>) {
        let mut group = Group::default();
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
    fn make_ready(&self, group: &mut Group) {
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
            while let Some(call) = group.calls.get_mut(done) {
                group.bytes += call.bytes();
                done += 1;
                match run_call(&self.db.db(), &*self.options.clock, call) {
                    Ok(effects) => group.effects.merge(effects),
                    Err(RollBack) if !self.db.in_transaction() => {
                        group.broken = true;
                        return;
                    }
                    Err(RollBack) => {}
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

    fn sort_in(&mut self, group: &mut Group, message: Message) {
        match message {
            Message::Call(call) => group.calls.push(call),
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
        let (db, clock) = (&self.db.db(), &*self.options.clock);
        let now = to_column(clock.now_ms());
        let effects = &mut group.effects;
        self.work.due_at(effects.take_work_due());
        self.work.serve(now, |request| look(db, clock, request, effects));
        self.turns.due_at(effects.take_turns_due());
        self.turns.serve(now, |request| look(db, clock, request, effects));
        // Those that go on waiting wait for the expiry of the locks just taken, too.
        self.work.due_at(effects.take_work_due());
        self.turns.due_at(effects.take_turns_due());
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
        group.effects.report(&self.counters);
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

/// Carries one call out; its failure is its own.
fn run_call(db: &Db, clock: &dyn Clock, call: &mut Box<dyn Call>) -> Result<Effects, RollBack> {
    let mut tx = Tx::new(db, to_column(clock.now_ms()));
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
    outcome.map(|()| tx.effects)
}

/// Looks for a fetch; its failure is its own.
fn look<R: Request>(db: &Db, clock: &dyn Clock, request: &R, effects: &mut Effects) -> Looked<R::Item> {
    let mut tx = Tx::new(db, to_column(clock.now_ms()));
    if !db.in_transaction() {
        // SQLite ended it after the failure of another call: nothing may be written outside of it.
        return Err(Fault::RolledBack);
    }
    db.execute("SAVEPOINT one_call", [])?;
    let outcome = catch_unwind(AssertUnwindSafe(|| request.look(&mut tx))).unwrap_or(Err(Fault::Panicked));
    end_savepoint(db, outcome.is_ok());
    if outcome.is_ok() {
        effects.merge(tx.effects);
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
