//! Keeps the locks of work in progress alive, and tells activities that theirs is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::protection::Protection;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::Queue;
use crate::providers::{Provider, ProviderErrorKind};

/// How often running activities are checked for cancellation; an activity learns of it within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// The locks that this node holds.
pub(super) struct LockKeeper {
    provider: Arc<dyn Provider>,
    turns: LockTimes,
    activities: LockTimes,
    locks: Mutex<Locks>,
    wake: Notify,
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
}

#[derive(Default)]
struct Locks {
    next_id: u64,
    held: BTreeMap<u64, Held>,
}

struct Held {
    queue: Queue,
    token: String,
    renew_at: Instant,
    /// When the lock ends unless it is renewed, by this process's time.
    ends_at: Instant,
    lost: CancellationToken,
    out_of_reach: Arc<AtomicBool>,
}

/// A lock under the keeper's care; dropped when the work is done.
pub(super) struct KeptLock {
    keeper: Arc<LockKeeper>,
    id: u64,
    lost: CancellationToken,
    out_of_reach: Arc<AtomicBool>,
}

impl KeptLock {
    /// Cancelled once the store says that the lock is gone, or could not be reached until its time had passed.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the lock was lost because the store could not be reached.
    pub(super) fn was_out_of_reach(&self) -> bool {
        self.out_of_reach.load(Ordering::SeqCst)
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        self.keeper.lock().held.remove(&self.id);
    }
}

impl LockKeeper {
    pub(super) fn new(provider: Arc<dyn Provider>, turns: LockTimes, activities: LockTimes) -> Self {
        Self { provider, turns, activities, locks: Mutex::default(), wake: Notify::new() }
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
            ends_at: now + times.timeout,
            lost: lost.clone(),
            out_of_reach: out_of_reach.clone(),
        };
        let mut locks = self.lock();
        locks.next_id += 1;
        let id = locks.next_id;
        let was_empty = locks.held.is_empty();
        locks.held.insert(id, held);
        drop(locks);
        if was_empty {
            self.wake.notify_one();
        }
        KeptLock { keeper: self.clone(), id, lost, out_of_reach }
    }

    /// Runs until dropped. Does nothing at all while no lock is held.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            if self.lock().held.is_empty() {
                self.wake.notified().await;
            }
            tokio::time::sleep(self.interval()).await;
            self.renew_due().await;
            self.find_lost().await;
        }
    }

    fn interval(&self) -> Duration {
        let shortest = self.turns.renew_after.min(self.activities.renew_after);
        CHECK_INTERVAL.min(shortest / 2).max(Duration::from_millis(1))
    }

    async fn renew_due(&self) {
        let now = Instant::now();
        let due: Vec<(u64, Queue, String)> = {
            let locks = self.lock();
            let due = locks.held.iter().filter(|(_, held)| held.renew_at <= now && !held.lost.is_cancelled());
            due.map(|(id, held)| (*id, held.queue, held.token.clone())).collect()
        };
        join_all(due.into_iter().map(|(id, queue, token)| self.renew(id, queue, token))).await;
    }

    /// The store's word that the lock is gone counts. Any other failure is tried again at the next tick, until the
    /// lock has ended by this process's time: then somebody else may have the work, and it must not go on here.
    async fn renew(&self, id: u64, queue: Queue, token: String) {
        let times = self.times(queue);
        let begun = Instant::now();
        let renewed = match queue {
            Queue::Turns => self.provider.renew_orchestration_item_lock(&token, times.timeout).await,
            Queue::Activities => self.provider.renew_work_item_lock(&token, times.timeout).await,
        };
        match renewed {
            Ok(()) => {
                if let Some(held) = self.lock().held.get_mut(&id) {
                    held.renew_at = begun + times.renew_after;
                    held.ends_at = begun + times.timeout;
                }
            }
            Err(error) if error.kind() == ProviderErrorKind::LockLost => self.mark_lost(id),
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", %error, "renewing a lock failed; trying again");
                self.mark_ended(id);
                if Protection::FailedRenewalIsNoCancellation.is_off() {
                    self.mark_lost(id);
                }
            }
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
        match self.provider.lost_work_items(&tokens, self.activities.timeout).await {
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

    /// Marks an activity's lock that could not be renewed in time. A turn runs no side effects: its commit decides.
    fn mark_ended(&self, id: u64) {
        let ended = self.lock().held.get(&id).is_some_and(|held| {
            let ended = held.queue == Queue::Activities && held.ends_at <= Instant::now();
            held.out_of_reach.store(ended, Ordering::SeqCst);
            ended
        });
        if ended {
            self.mark_lost(id);
        }
    }

    fn mark_lost(&self, id: u64) {
        let lost = self.lock().held.get(&id).map(|held| held.lost.clone());
        if let Some(lost) = lost {
            lost.cancel();
        }
    }
}
