//! The task that carries the runtime's calls out: all that wait, in one transaction.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_provider::metric;
use duroxide_provider::support::Waiters;
use duroxide_provider::{ProviderError, TurnRequest, WorkRequest};
use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connections::connection::{Conn, Target};
use crate::fault::Fault;
use crate::fetch::behind::{Behind, Heads};
use crate::fetch::horizon::{Versions, WrittenRows};
use crate::group::blocked::{Blocked, Freed};
use crate::group::call::Call;
use crate::group::endings::Endings;
use crate::group::memory::{Memory, SharedMemory};
use crate::group::parked::{Lane, ParkedFetch, Quiet};
use crate::options::PostgresOptions;
use crate::statistics::{Counters, add};
use crate::store::PostgresProvider;
use crate::values::{Ms, to_column};

/// How long a clock that is moved by hand is trusted to stand still.
const MANUAL_PATIENCE: Duration = Duration::from_millis(20);

/// Where calls and fetches wait for the carrier.
#[derive(Default)]
pub(crate) struct Inbox {
    messages: Mutex<Messages>,
    arrived: Notify,
    pub(crate) quiet_turns: Quiet<TurnRequest>,
    pub(crate) quiet_work: Quiet<WorkRequest>,
}

/// What waits.
#[derive(Default)]
pub(crate) struct Messages {
    calls: std::collections::VecDeque<Call>,
    turns: Vec<ParkedFetch<TurnRequest>>,
    work: Vec<ParkedFetch<WorkRequest>>,
    /// Others said that turns, or work items, may be ready.
    wake_turns: bool,
    wake_work: bool,
    /// Turns may be ready then.
    turns_due: Option<Instant>,
    /// What others wrote.
    written: WrittenRows,
    /// Others wrote something, and did not say what.
    written_unknown: bool,
    /// The first rows of the queues.
    heads: Option<Heads>,
    stopping: bool,
    /// Until when the carrier sleeps unless something arrives; `None` while it is awake or sleeps without end.
    asleep_until: Option<Instant>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        // Whole after every operation, so a panic elsewhere does not spoil it.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, call: Call) {
        self.lock().calls.push_back(call);
        self.arrived.notify_one();
    }

    pub(crate) fn park_turns(&self, fetch: ParkedFetch<TurnRequest>) {
        let mut messages = self.lock();
        let first_wake = fetch.first_wake(&self.quiet_turns);
        messages.turns.push(fetch);
        self.parked(messages, first_wake);
    }

    pub(crate) fn park_work(&self, fetch: ParkedFetch<WorkRequest>) {
        let mut messages = self.lock();
        let first_wake = fetch.first_wake(&self.quiet_work);
        messages.work.push(fetch);
        self.parked(messages, first_wake);
    }

    /// A fetch was parked. A carrier that wakes before anything must be done for it sleeps on.
    fn parked(&self, messages: MutexGuard<'_, Messages>, first_wake: Instant) {
        let wakes_in_time = messages.asleep_until.is_some_and(|until| until <= first_wake);
        drop(messages);
        if !wakes_in_time {
            self.arrived.notify_one();
        }
    }

    /// Something may be ready that this process did not make ready.
    pub(crate) fn wake(&self, turns: bool, work: bool) {
        let mut messages = self.lock();
        messages.wake_turns |= turns;
        messages.wake_work |= work;
        drop(messages);
        self.arrived.notify_one();
    }

    /// Something may be ready that this process did not make ready, however far back.
    pub(crate) fn wake_anew(&self) {
        self.lock().written_unknown = true;
        self.wake(true, true);
    }

    /// Others wrote this. They wake by themselves.
    pub(crate) fn written(&self, written: WrittenRows) {
        self.lock().written.add(&written);
    }

    /// The first rows of the queues are these.
    pub(crate) fn found_heads(&self, heads: Heads) {
        self.lock().heads = Some(heads);
        self.arrived.notify_one();
    }

    /// Turns may be ready after this time.
    pub(crate) fn wake_turns_after(&self, left: Duration) {
        let Some(due) = Instant::now().checked_add(left) else { return };
        let mut messages = self.lock();
        messages.turns_due = Some(messages.turns_due.map_or(due, |sooner| sooner.min(due)));
        drop(messages);
        self.arrived.notify_one();
    }

    /// Ends the carrier. What waits fails.
    pub(crate) fn stop(&self) {
        let mut messages = self.lock();
        messages.stopping = true;
        messages.calls.clear();
        messages.turns.clear();
        messages.work.clear();
        drop(messages);
        self.arrived.notify_one();
    }
}

/// Whether the carrier goes on.
enum Next {
    GoOn,
    Stop,
}

/// The state of the task.
pub(crate) struct Carrier {
    pub(crate) target: Arc<Target>,
    pub(crate) options: PostgresOptions,
    pub(crate) counters: Arc<Counters>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) endings: Arc<Endings>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) conn: Option<Conn<'static>>,
    pub(crate) turns: Lane<TurnRequest>,
    pub(crate) work: Lane<WorkRequest>,
    /// Calls whose rows another transaction has locked.
    pub(crate) blocked: Blocked,
    /// Ids that got events before their start lately.
    pub(crate) expected: crate::group::run_group::Expected,
    /// Rows that were read or written lately.
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) upkeep: crate::upkeep::vacuum::Upkeep,
    /// The versions of the executions in the store.
    pub(crate) versions: Versions,
    behind: Behind,
    pub(crate) clock: crate::upkeep::clock_steps::ClockWatch,
    /// What others must be told, and have not been told yet.
    pub(crate) news: crate::group::news::News,
    /// Where the fetches wait, if that is not here.
    pub(crate) fetches_wait_at: Option<Arc<Inbox>>,
}

impl Carrier {
    /// The carrier of a store.
    pub(crate) fn new(store: &PostgresProvider, target: Arc<Target>, conn: Conn<'static>) -> Self {
        Self { conn: Some(conn), ..Self::of_inbox(store, target, &store.inbox) }
    }

    /// The carrier of large turns. It commits them beside all other calls, to which it is as another process: those about
    /// the same instances wait until its transaction has ended, see [`crate::group::blocked`]. It connects when it has something to
    /// do.
    pub(crate) fn of_large_turns(store: &PostgresProvider, target: Arc<Target>, inbox: &Arc<Inbox>) -> Self {
        let fetches_wait_at = Some(Arc::clone(&store.inbox));
        Self { fetches_wait_at, ..Self::of_inbox(store, target, inbox) }
    }

    fn of_inbox(store: &PostgresProvider, target: Arc<Target>, inbox: &Arc<Inbox>) -> Self {
        let options = store.options.clone();
        let patience = match &options.clock {
            Some(_) => MANUAL_PATIENCE,
            None => options.poll_interval,
        };
        Self {
            turns: Lane::new(Arc::clone(inbox), patience),
            work: Lane::new(Arc::clone(inbox), patience),
            news: crate::group::news::News::new(&options, patience),
            blocked: Blocked::new(options.lock_timeout),
            target,
            options,
            counters: store.counters(),
            waiters: Arc::clone(&store.waiters),
            endings: Arc::clone(&store.endings),
            inbox: Arc::clone(inbox),
            conn: None,
            expected: crate::group::run_group::Expected::default(),
            memory: Arc::clone(&store.memory),
            upkeep: crate::upkeep::vacuum::Upkeep::default(),
            versions: Versions::default(),
            behind: Behind::new(store, inbox),
            clock: crate::upkeep::clock_steps::ClockWatch::default(),
            fetches_wait_at: None,
        }
    }

    /// The time of a clock that a test moves.
    pub(crate) fn manual(&self) -> Option<Ms> {
        self.options.clock.as_ref().map(|clock| to_column(clock.now_ms()))
    }

    /// Runs until the provider is gone. A panic ends the group in whose middle it came: its calls and fetches hear
    /// that their outcome is unknown, and may be tried again.
    pub(crate) async fn run(mut self) {
        loop {
            match AssertUnwindSafe(self.step()).catch_unwind().await {
                Ok(Next::GoOn) => {}
                Ok(Next::Stop) => return,
                Err(_panic) => self.start_afresh(),
            }
        }
    }

    async fn step(&mut self) -> Next {
        let Some(calls) = self.collect() else { return Next::Stop };
        let Freed { mut together, alone } = self.take_freed().await;
        for call in alone {
            self.run_group(vec![call]).await;
        }
        together.extend(calls);
        if !together.is_empty() || self.turns.is_due() || self.work.is_due() {
            self.run_group(together).await;
        } else {
            self.wait().await;
        }
        self.after_clock_step().await;
        self.turns.expire();
        self.work.expire();
        if self.has_horizons() {
            self.behind.search_if_due();
        }
        Next::GoOn
    }

    /// Trusts nothing that the panic may have left half done: the connection, which may be in a transaction, and
    /// what is remembered. What waits in lists of its own is whole.
    fn start_afresh(&mut self) {
        tracing::error!(
            target: "duroxide::runtime",
            "the PostgreSQL store panicked while it carried calls out; they fail as unavailable, and it goes on"
        );
        self.conn = None;
        *self.memory.lock() = Memory::default();
        self.turns.forget();
        self.work.forget();
        self.versions.forget();
        self.blocked.probe_later();
    }

    /// Rows were written that are ready from these times on.
    pub(crate) fn note_rows(&mut self, written: &WrittenRows) {
        self.turns.horizons.lower(written.turns);
        self.work.horizons.lower(written.work);
        self.versions.add(&written.versions);
    }

    fn has_horizons(&self) -> bool {
        !self.turns.horizons.is_empty() || !self.work.horizons.is_empty()
    }

    /// Where looks begin is not known any more.
    fn forget_horizons(&mut self) {
        self.turns.horizons.forget();
        self.work.horizons.forget();
        self.versions.forget();
    }

    /// The first rows of the queues are known. If one stands behind a horizon, it is looked for.
    fn note_heads(&mut self, heads: &Heads) {
        self.versions.add(&heads.turns.iter().map(|head| head.class).collect());
        if self.turns.horizons.lower_to_heads(&heads.turns) {
            self.turns.wake();
        }
        if self.work.horizons.lower_to_heads(&heads.work) {
            self.work.wake();
        }
    }

    /// Takes what waits, up to the limits of a group. `None` when the provider is gone.
    fn collect(&mut self) -> Option<Vec<Call>> {
        let mut messages = self.inbox.lock();
        messages.asleep_until = None;
        if messages.stopping {
            return None;
        }
        let (written, heads) = (std::mem::take(&mut messages.written), messages.heads.take());
        let unknown = std::mem::take(&mut messages.written_unknown);
        let mut calls = Vec::new();
        let mut bytes = 0;
        while calls.len() < self.options.group.calls.max(1) && bytes < self.options.group.bytes.max(1) {
            let Some(call) = messages.calls.pop_front() else { break };
            bytes += call.work.bytes();
            calls.push(call);
        }
        messages.turns.drain(..).for_each(|fetch| self.turns.park(fetch));
        messages.work.drain(..).for_each(|fetch| self.work.park(fetch));
        if std::mem::take(&mut messages.wake_turns) {
            self.turns.wake();
            self.blocked.probe_soon();
        }
        if let Some(due) = messages.turns_due.take() {
            self.turns.due_from(due);
        }
        if std::mem::take(&mut messages.wake_work) {
            self.work.wake();
        }
        drop(messages);
        self.note_rows(&written);
        if unknown {
            self.forget_horizons();
        }
        if let Some(heads) = heads {
            self.note_heads(&heads);
        }
        Some(calls)
    }

    async fn wait(&mut self) {
        let arrived = self.inbox.arrived.notified();
        let lanes = self.turns.next_wake().into_iter().chain(self.work.next_wake());
        let behind = if self.has_horizons() { self.behind.next_wake() } else { None };
        let next_wake =
            lanes.chain(self.blocked.next_wake()).chain(behind).chain(self.clock.next_wake()).min();
        // What has arrived since the last look at the inbox has notified.
        self.inbox.lock().asleep_until = next_wake;
        match next_wake {
            Some(at) => drop(tokio::time::timeout_at(at.max(Instant::now()), arrived).await),
            None => arrived.await,
        }
    }

    /// The connection, made anew if it is gone.
    pub(crate) async fn connect(&mut self) -> Result<(), Fault> {
        if self.conn.as_ref().is_some_and(|conn| !conn.is_closed()) {
            return Ok(());
        }
        self.conn = None;
        // It may lead to another server, or to the same one after a restore.
        *self.memory.lock() = Memory::default();
        self.forget_horizons();
        self.conn = Some(self.target.connect_carrier().await?);
        add(&self.counters.reconnects, 1);
        Ok(())
    }

    pub(crate) fn count_calls(&self, calls: usize, wrote: bool) {
        let calls = u64::try_from(calls).unwrap_or(u64::MAX);
        add(&self.counters.calls, calls);
        self.counters.commits.fetch_add(u64::from(wrote), Ordering::Relaxed);
        metric::store_calls().increment(calls);
        metric::store_commits().increment(u64::from(wrote));
    }
}

/// What is said to those whose answer is lost with the store.
pub(crate) fn closed(operation: &str) -> ProviderError {
    ProviderError::retryable(operation, "the store was closed or lost the answer; the outcome is unknown")
}
