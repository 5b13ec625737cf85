//! The writer's thread: it waits for calls, for due times and for other processes, and runs groups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use duroxide_provider::support::Waiters;
use duroxide_provider::{ProviderError, TurnRequest, WorkRequest};
use tokio::time::Instant;

use super::call::Message;
use super::db::{Db, OwnDb};
use super::options::SqliteOptions;
use super::parked::Lane;
use super::remembered::Remembered;
use super::shared_file::{Foreign, SharedFile};
use super::statistics::{Counters, count};
use super::values::{Ms, NEVER, to_column};

/// How long the writer looks out for the next call before it sleeps. Less than a commit takes.
const ATTENTIVE: Duration = Duration::from_micros(100);

/// The state of the writer's thread.
pub(super) struct Writer {
    pub(super) db: OwnDb,
    pub(super) options: SqliteOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) waiters: Arc<Waiters>,
    pub(super) messages: Receiver<Message>,
    pub(super) turns: Lane<TurnRequest>,
    pub(super) work: Lane<WorkRequest>,
    /// `None` for a store in memory, which nobody else can change.
    pub(super) shared_file: Option<SharedFile>,
    pub(super) stopping: bool,
    pub(super) remembered: Remembered,
    just_answered: bool,
    /// The time of the last look at the clock.
    seen: Ms,
}

impl Writer {
    pub(super) fn new(
        db: OwnDb,
        shared_file: Option<SharedFile>,
        options: SqliteOptions,
        counters: Arc<Counters>,
        waiters: Arc<Waiters>,
        (sender, messages): (Sender<Message>, Receiver<Message>),
    ) -> Self {
        let turns = Lane::new(sender.clone());
        let work = Lane::new(sender);
        Self {
            db,
            options,
            counters,
            waiters,
            messages,
            turns,
            work,
            shared_file,
            stopping: false,
            remembered: Remembered::default(),
            just_answered: false,
            seen: Ms::MIN,
        }
    }

    /// Runs until the provider is gone. No panic ends it: the transaction it happened in is rolled back.
    pub(super) fn run(mut self) {
        while !self.stopping {
            if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
                tracing::error!(target: "duroxide::runtime", "the writer of the SQLite store panicked and goes on");
                self.remembered.forget();
                self.end_broken_transaction();
            }
        }
        if self.shared_file.as_ref().is_some_and(|shared| shared.file.is_in_place()) {
            // Leaves one file behind. If another process still reads, its last connection will do it.
            if let Err(error) = self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
                tracing::debug!(target: "duroxide::runtime", %error, "the log of the SQLite store stays as it is");
            }
        }
    }

    pub(super) fn now(&self) -> Ms {
        to_column(self.options.clock.now_ms())
    }

    /// Whether the clock shows less than at the last look.
    pub(super) fn is_set_back(&self) -> bool {
        self.now() < self.seen
    }

    /// Looks at the clock; whether it was set back.
    pub(super) fn look_at_clock(&mut self) -> bool {
        let now = self.now();
        let before = std::mem::replace(&mut self.seen, now);
        self.seen < before
    }

    fn step(&mut self) {
        let received = match self.soon() {
            Some(message) => Some(message),
            None => self.wait(),
        };
        match received {
            Some(message) => {
                self.run_group(Some(message));
                self.just_answered = true;
            }
            None => {
                if let Err(lost) = self.check_file_with_log() {
                    self.refuse_waiting(&lost);
                }
                self.look_for_foreign_changes(SharedFile::look);
                if self.turns.next_due().min(self.work.next_due()) <= self.now() || self.is_set_back() {
                    self.run_group(None);
                }
            }
        }
        let now = Instant::now();
        self.turns.expire(now);
        self.work.expire(now);
    }

    /// The next call, if it comes at once. Whoever got an answer just now mostly has the next call ready within
    /// microseconds; falling asleep and being woken would take longer than that.
    fn soon(&mut self) -> Option<Message> {
        if !std::mem::take(&mut self.just_answered) {
            return None;
        }
        let began = Instant::now();
        loop {
            match self.messages.try_recv() {
                Ok(message) => return Some(message),
                Err(_) if began.elapsed() < ATTENTIVE => std::hint::spin_loop(),
                Err(_) => return None,
            }
        }
    }

    /// Sleeps until a call comes or something else may matter; `None` for the latter.
    fn wait(&self) -> Option<Message> {
        match self.patience() {
            Some(patience) if patience.is_zero() => self.messages.try_recv().ok(),
            Some(patience) => match self.messages.recv_timeout(patience) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
            },
            None => Some(self.messages.recv().unwrap_or(Message::Stop)),
        }
    }

    /// How long to wait for the next call; `None` when nothing but a call can matter.
    fn patience(&self) -> Option<Duration> {
        let someone_waits = !self.turns.is_empty() || !self.work.is_empty();
        if !someone_waits && self.waiters.is_empty() {
            return None;
        }
        let now = Instant::now();
        let deadline = [self.turns.next_deadline(), self.work.next_deadline()].into_iter().flatten().min();
        let until_deadline = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let due = self.turns.next_due().min(self.work.next_due());
        let until_due = (due != NEVER).then(|| {
            let left = due.saturating_sub(self.now()).max(0);
            // The system's clock may be set without a word: it is looked at now and then.
            Duration::from_millis(left.unsigned_abs()).min(self.options.shared_file_poll_interval)
        });
        let until_look = self.shared_file.is_some().then_some(self.options.shared_file_poll_interval);
        [until_deadline, until_due, until_look].into_iter().flatten().min()
    }

    /// Looks whether another process changed the file; then everything that waits must be looked at again.
    pub(super) fn look_for_foreign_changes(
        &mut self,
        look: impl FnOnce(&mut SharedFile, &Db<'_>) -> rusqlite::Result<Foreign>,
    ) {
        let Some(shared_file) = &mut self.shared_file else { return };
        match look(shared_file, &self.db.db()) {
            Ok(Foreign::Unchanged) => {}
            Ok(Foreign::Changed) => self.foreign_change(),
            Err(error) => {
                tracing::debug!(target: "duroxide::runtime", %error, "the SQLite store cannot be looked at");
            }
        }
    }

    fn foreign_change(&mut self) {
        count(&self.counters.foreign_changes, 1);
        self.remembered.forget();
        self.turns.due_at(Ms::MIN);
        self.work.due_at(Ms::MIN);
        self.waiters.wake_all();
    }

    /// An error if the path does not lead to the file any more.
    pub(super) fn check_file(&self) -> Result<(), ProviderError> {
        self.shared_file.as_ref().map_or(Ok(()), |shared| shared.file.check("commit"))
    }

    fn check_file_with_log(&self) -> Result<(), ProviderError> {
        self.shared_file.as_ref().map_or(Ok(()), |shared| shared.file.check_with_log("wait"))
    }

    /// Fails every fetch that waits, and wakes the clients that wait: their next read fails.
    pub(super) fn refuse_waiting(&mut self, lost: &ProviderError) {
        self.turns.fail_due(NEVER, lost);
        self.work.fail_due(NEVER, lost);
        self.waiters.wake_all();
    }

    pub(super) fn end_broken_transaction(&self) {
        if self.db.in_transaction()
            && let Err(error) = self.db.execute("ROLLBACK", [])
        {
            tracing::error!(target: "duroxide::runtime", %error, "a transaction could not be rolled back");
        }
    }
}
