//! Keeps the locks of work in progress alive, and tells activities that theirs is gone.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::test_fault;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::dispatch::Slot;
use super::store_call::first_answer;
use super::suspects::Queue;
use super::threads::in_program;
use super::turn_watch::{Overdue, WatchedTurn};
use super::verdict::{LockState, Reach};
use crate::providers::{Provider, ProviderError, ProviderErrorKind};

/// How often a renewal that hangs is asked for again before the lock ends.
const QUESTIONS: u32 = 4;
/// How often running activities are checked for cancellation; an activity learns of it within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// The locks that this node holds.
pub(super) struct LockKeeper {
    provider: Arc<dyn Provider>,
    turns: LockTimes,
    activities: LockTimes,
    locks: Mutex<Locks>,
    wake: Notify,
    turn_kept: Notify,
}

/// How long a lock holds, and how long after it was taken it is renewed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockTimes {
    pub(super) timeout: Duration,
    pub(super) renew_after: Duration,
}

impl LockTimes {
    /// Renewed `buffer` before the end; after half the time if the buffer leaves nothing.
    pub(super) fn new(timeout: Duration, buffer: Duration) -> Self {
        let renew_after = timeout.checked_sub(buffer).filter(|after| !after.is_zero()).unwrap_or(timeout / 2);
        Self { timeout, renew_after }
    }

    /// After how long without an answer a renewal is asked for again.
    pub(super) fn ask_again_after(self) -> Duration {
        (self.timeout.saturating_sub(self.renew_after) / QUESTIONS).max(Duration::from_millis(1))
    }
}

#[derive(Default)]
struct Locks {
    next_id: u64,
    held: BTreeMap<u64, Held>,
    /// Those of turns, by the same numbers.
    turns: BTreeMap<u64, WatchedTurn>,
}

struct Held {
    queue: Queue,
    token: String,
    renew_at: Instant,
    /// When the renewal that is under way was asked for first.
    asked: Option<Instant>,
    /// When the lock ends unless it is renewed, by this process's time.
    ends_at: Instant,
    /// Whether a renewal has failed since the last one that did not.
    failing: bool,
    lost: CancellationToken,
    out_of_reach: Arc<AtomicBool>,
    /// Whether the work is given up here: the lock shall end.
    given_up: bool,
}

/// A lock whose renewal is due.
struct Due {
    id: u64,
    queue: Queue,
    token: String,
}

/// A lock under the keeper's care; dropped when the work is done.
pub(super) struct KeptLock {
    keeper: Arc<LockKeeper>,
    id: u64,
    lost: CancellationToken,
    out_of_reach: Arc<AtomicBool>,
    forgiven: AtomicBool,
}

impl KeptLock {
    /// The store has taken the attempt of this lock back.
    pub(super) fn forgive(&self) {
        self.forgiven.store(true, Ordering::SeqCst);
    }

    /// Whether giving the work back unfinished takes its attempt back: not if that has happened already.
    pub(super) fn takes_attempt_back(&self) -> bool {
        !self.forgiven.load(Ordering::SeqCst)
    }

    /// Cancelled once the store says that the lock is gone, or could not be reached until its time had passed.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    pub(super) fn state(&self) -> LockState {
        if self.lost.is_cancelled() { LockState::Lost } else { LockState::Held }
    }

    /// Whether the lock ended because the store could not be reached to renew it.
    pub(super) fn reach(&self) -> Reach {
        if self.out_of_reach.load(Ordering::SeqCst) { Reach::Out } else { Reach::Within }
    }
}

impl KeptLock {
    /// Runs a part of a turn's program, and has it watched meanwhile.
    pub(super) fn run_program<T>(&self, part: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.watched(|turn| turn.begin(begun));
        // The engine catches the panics of programs.
        let result = in_program(part);
        if let Some(reported) = self.watched(WatchedTurn::end).flatten() {
            reported.returned(begun.elapsed());
        }
        result
    }

    fn watched<T>(&self, look: impl FnOnce(&mut WatchedTurn) -> T) -> Option<T> {
        self.keeper.lock().turns.get_mut(&self.id).map(look)
    }

    /// Ends the care for the lock of a turn. The slot of the turn, unless it was given to others.
    pub(super) fn end_turn(self) -> Option<Slot> {
        let turn = self.keeper.lock().turns.remove(&self.id);
        turn.and_then(WatchedTurn::into_slot)
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        let mut locks = self.keeper.lock();
        locks.held.remove(&self.id);
        let turn = locks.turns.remove(&self.id);
        drop(locks);
        drop(turn);
    }
}

impl LockKeeper {
    pub(super) fn new(provider: Arc<dyn Provider>, turns: LockTimes, activities: LockTimes) -> Self {
        let (wake, turn_kept) = (Notify::new(), Notify::new());
        Self { provider, turns, activities, locks: Mutex::default(), wake, turn_kept }
    }

    fn lock(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn times(&self, queue: Queue) -> LockTimes {
        match queue {
            Queue::Turns => self.turns,
            Queue::Activities => self.activities,
        }
    }

    /// Takes care of a lock that was fetched just now.
    pub(super) fn keep(self: &Arc<Self>, queue: Queue, token: &str) -> KeptLock {
        let lost = CancellationToken::new();
        let out_of_reach = Arc::new(AtomicBool::new(false));
        let (now, times) = (Instant::now(), self.times(queue));
        let held = Held {
            queue,
            token: token.to_string(),
            renew_at: now + times.renew_after,
            asked: None,
            ends_at: now + times.timeout,
            failing: false,
            lost: lost.clone(),
            out_of_reach: out_of_reach.clone(),
            given_up: false,
        };
        let mut locks = self.lock();
        locks.next_id += 1;
        let id = locks.next_id;
        let was_empty = locks.held.is_empty();
        locks.held.insert(id, held);
        drop(locks);
        if was_empty {
            self.wake.notify_waiters();
        }
        KeptLock { keeper: self.clone(), id, lost, out_of_reach, forgiven: AtomicBool::new(false) }
    }

    /// Takes care of the lock of a turn, and watches its program.
    pub(super) fn keep_turn(self: &Arc<Self>, token: &str, turn: WatchedTurn) -> KeptLock {
        let kept = self.keep(Queue::Turns, token);
        let mut locks = self.lock();
        let was_empty = locks.turns.is_empty();
        locks.turns.insert(kept.id, turn);
        drop(locks);
        if was_empty {
            self.turn_kept.notify_waiters();
        }
        kept
    }

    /// Resolves when a lock of a turn is held.
    pub(super) async fn a_turn_is_kept(&self) {
        loop {
            // From here on no turn is missed.
            let kept = self.turn_kept.notified();
            if !self.lock().turns.is_empty() {
                return;
            }
            kept.await;
        }
    }

    /// Gives up the turns whose program has run for longer than it may: their locks are not renewed any more.
    pub(super) fn give_up_overdue(&self, limit: Duration) -> Vec<Overdue> {
        let now = Instant::now();
        let mut locks = self.lock();
        let Locks { held, turns, .. } = &mut *locks;
        let mut given_up = turns.values().filter(|turn| turn.is_given_up()).count();
        let mut found = Vec::new();
        for (id, turn) in turns {
            let Some(overdue) = turn.look(now, limit, given_up) else { continue };
            given_up += 1;
            if let Some(held) = held.get_mut(id) {
                held.given_up = true;
            }
            found.push(overdue);
        }
        found
    }

    /// Runs until dropped. Does nothing at all while no lock is held.
    pub(super) async fn run(self: Arc<Self>) {
        // Apart, so that neither waits for a call of the other that hangs.
        tokio::join!(self.renew_all(), self.find_all_lost());
    }

    /// A while after the last tick, if a lock is held then.
    async fn tick(&self) {
        loop {
            // From here on no wake is missed.
            let woken = self.wake.notified();
            if !self.lock().held.is_empty() {
                break;
            }
            woken.await;
        }
        tokio::time::sleep(self.interval()).await;
    }

    fn interval(&self) -> Duration {
        let shortest = self.turns.renew_after.min(self.activities.renew_after);
        CHECK_INTERVAL.min(shortest / 2).max(Duration::from_millis(1))
    }

    /// Every renewal is on its own: one that hangs holds up no other.
    async fn renew_all(&self) {
        // After a panic of the store: nobody waits for its answers any more.
        self.lock().held.values_mut().for_each(|held| held.asked = None);
        let mut renewals = FuturesUnordered::new();
        let mut tick = pin!(self.tick());
        loop {
            tokio::select! {
                biased;
                Some(()) = renewals.next() => {}
                () = &mut tick => {
                    self.end_unanswered();
                    renewals.extend(self.take_due().into_iter().map(|due| self.renew(due)));
                    tick.set(self.tick());
                }
            }
        }
    }

    fn take_due(&self) -> Vec<Due> {
        let now = Instant::now();
        let mut locks = self.lock();
        let due = locks.held.iter_mut().filter(|(_, held)| {
            held.renew_at <= now && held.asked.is_none() && !held.lost.is_cancelled() && !held.given_up
        });
        due.map(|(id, held)| {
            held.asked = Some(now);
            Due { id: *id, queue: held.queue, token: held.token.clone() }
        })
        .collect()
    }

    /// The store's word that the lock is gone counts. Any other failure is tried again at the next tick, until the
    /// lock has ended by this process's time: then somebody else may have the work, and it must not go on here.
    async fn renew(&self, due: Due) {
        let times = self.times(due.queue);
        let held = || self.lock().held.contains_key(&due.id);
        let answer = first_answer(times.ask_again_after(), held, || self.ask_once(&due, times)).await;
        let Some((begun, renewed)) = answer else { return };
        if let Some(held) = self.lock().held.get_mut(&due.id) {
            held.asked = None;
            held.failing |= renewed.as_ref().is_err_and(|error| error.kind() != ProviderErrorKind::LockLost);
            if renewed.is_ok() {
                held.failing = false;
                held.renew_at = begun + times.renew_after;
                held.ends_at = begun + times.timeout;
                if !held.lost.is_cancelled() {
                    held.out_of_reach.store(false, Ordering::SeqCst);
                }
            }
        }
        match renewed {
            Ok(()) => {}
            Err(error) if error.kind() == ProviderErrorKind::LockLost => self.mark_lost(due.id),
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", %error, "renewing a lock failed; trying again");
                self.mark_ended(due.id);
                test_fault!(FailedRenewalIsNoCancellation => self.mark_lost(due.id));
            }
        }
    }

    /// The answer, and when it was asked for.
    async fn ask_once(&self, due: &Due, times: LockTimes) -> (Instant, Result<(), ProviderError>) {
        let begun = Instant::now();
        let renewed = match due.queue {
            Queue::Turns => self.provider.renew_orchestration_item_lock(&due.token, times.timeout).await,
            Queue::Activities => self.provider.renew_work_item_lock(&due.token, times.timeout).await,
        };
        (begun, renewed)
    }

    /// Marks the locks that have ended while the store was asked in time and did not answer.
    fn end_unanswered(&self) {
        let unanswered: Vec<u64> = {
            let locks = self.lock();
            let in_time = |held: &Held| held.asked.is_some_and(|asked| asked < held.ends_at);
            locks.held.iter().filter(|(_, held)| in_time(held)).map(|(id, _)| *id).collect()
        };
        for id in unanswered {
            self.mark_ended(id);
        }
    }

    async fn find_all_lost(&self) {
        loop {
            self.tick().await;
            self.find_lost().await;
        }
    }

    async fn find_lost(&self) {
        let running: Vec<(u64, String)> = {
            let locks = self.lock();
            let running = locks
                .held
                .iter()
                .filter(|(_, held)| held.queue == Queue::Activities && !held.lost.is_cancelled());
            running.map(|(id, held)| (*id, held.token.clone())).collect()
        };
        if running.is_empty() {
            return;
        }
        let tokens: Vec<String> = running.iter().map(|(_, token)| token.clone()).collect();
        let ask = || self.provider.lost_work_items(&tokens, self.activities.timeout);
        let Some(answer) = first_answer(self.interval(), || true, ask).await else { return };
        match answer {
            Ok(lost) => {
                let lost: std::collections::BTreeSet<String> = lost.into_iter().collect();
                for (id, _) in running.iter().filter(|(_, token)| lost.contains(token)) {
                    self.mark_lost(*id);
                }
            }
            Err(error) => {
                tracing::debug!(target: "duroxide::runtime", %error, "checking for cancelled activities failed");
            }
        }
    }

    /// Marks a lock that could not be renewed in time. For an activity it is lost; a turn has no side effects, so that
    /// its commit decides.
    fn mark_ended(&self, id: u64) {
        let is_lost = self.lock().held.get(&id).is_some_and(|held| {
            let ended = held.ends_at <= Instant::now();
            held.out_of_reach.store(ended, Ordering::SeqCst);
            ended && held.queue == Queue::Activities
        });
        if is_lost {
            self.mark_lost(id);
        }
    }

    /// Marks a lock as lost. If it ended while renewals failed, the store was at fault, whichever call says so first.
    fn mark_lost(&self, id: u64) {
        let lost = self.lock().held.get(&id).map(|held| {
            if held.failing && held.ends_at <= Instant::now() {
                held.out_of_reach.store(true, Ordering::SeqCst);
            }
            held.lost.clone()
        });
        if let Some(lost) = lost {
            lost.cancel();
        }
    }
}
