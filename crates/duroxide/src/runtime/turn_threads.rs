//! Threads of the node's own for turns: a program that never yields keeps one of them and nothing else.
//!
//! A turn is synchronous, and nothing can end a thread from outside. On a worker of tokio, such a program would take the
//! store's connections, the timers and the renewals with it, and as many of them as there are workers would stop the
//! process. So turns run here, polled by a small executor with one queue that all threads share: no task is tied to
//! a thread, and a thread that has been in one poll for too long is replaced by another.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The threads of one node.
pub(super) struct TurnThreads {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled with a wake-up in [`Queue::wake_ups`] for each idle thread that has something to do.
    work: Condvar,
    /// Timers and connections belong to the runtime that the node was started on.
    tokio: Handle,
    /// Threads without those that are stuck.
    wanted: usize,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Task>>,
    /// How often each thread that polls a task was seen in that same poll, by the thread's number.
    polling: BTreeMap<u64, u32>,
    threads: usize,
    next_thread: u64,
    /// Threads that wait and were not woken yet.
    idle: usize,
    wake_ups: usize,
    stuck: usize,
    closed: bool,
}

/// A poll that was seen this often lasts for at least one interval of the watch.
const LOOKS_OF_A_STUCK_POLL: u32 = 2;

impl TurnThreads {
    /// `None` on a current-thread runtime. There all is one thread, on purpose: tests and simulations in virtual time
    /// depend on it.
    pub(super) fn new(tokio: &Handle, concurrency: usize) -> Option<Self> {
        if tokio.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return None;
        }
        let wanted = tokio.metrics().num_workers().min(concurrency).max(1);
        let shared = Shared { queue: Mutex::default(), work: Condvar::new(), tokio: tokio.clone(), wanted };
        Some(Self { shared: Arc::new(shared) })
    }

    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let task = Task {
            future: Mutex::new(Some(Box::pin(future))),
            state: AtomicU8::new(QUEUED),
            shared: self.shared.clone(),
        };
        self.shared.push(Arc::new(task));
    }

    /// Looks at all threads and replaces those that are in the same poll as at the last look.
    pub(super) fn replace_stuck(&self) {
        let mut queue = self.shared.lock();
        queue.polling.values_mut().for_each(|looks| *looks = looks.saturating_add(1));
        queue.stuck = queue.polling.values().filter(|looks| **looks >= LOOKS_OF_A_STUCK_POLL).count();
        let missing = (self.shared.wanted + queue.stuck).saturating_sub(queue.threads);
        let new: Vec<u64> = (0..missing.min(queue.ready.len())).map(|_| queue.add_thread()).collect();
        drop(queue);
        new.into_iter().for_each(|thread| self.shared.start(thread));
    }
}

impl Drop for TurnThreads {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.wake_ups = queue.threads;
        let unfinished = std::mem::take(&mut queue.ready);
        drop(queue);
        self.shared.work.notify_all();
        drop(unfinished);
    }
}

impl Queue {
    fn add_thread(&mut self) -> u64 {
        self.threads += 1;
        self.next_thread += 1;
        self.next_thread
    }

    /// Back from a poll; false if the thread is one too many now.
    fn end_poll(&mut self, thread: u64, wanted: usize) -> bool {
        if self.polling.remove(&thread).is_some_and(|looks| looks >= LOOKS_OF_A_STUCK_POLL) {
            self.stuck = self.stuck.saturating_sub(1);
        }
        self.threads <= wanted + self.stuck
    }
}

/// What a push needs besides.
enum Needed {
    Nothing,
    WakeUp,
    Thread(u64),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            return drop(task);
        }
        queue.ready.push_back(task);
        let needed = if queue.idle > 0 {
            queue.idle -= 1;
            queue.wake_ups += 1;
            Needed::WakeUp
        } else if queue.threads < self.wanted + queue.stuck {
            Needed::Thread(queue.add_thread())
        } else {
            Needed::Nothing
        };
        drop(queue);
        match needed {
            Needed::Nothing => {}
            Needed::WakeUp => self.work.notify_one(),
            Needed::Thread(thread) => self.start(thread),
        }
    }

    fn start(self: &Arc<Self>, thread: u64) {
        let shared = self.clone();
        let started = std::thread::Builder::new().name("duroxide-turns".into()).spawn(move || {
            let _context = shared.tokio.enter();
            shared.work(thread);
        });
        if let Err(error) = started {
            // Tried again with the next task and at the next look.
            self.lock().threads -= 1;
            tracing::error!(target: "duroxide::runtime", %error, "failed to start a thread for turns; trying again");
        }
    }

    fn work(&self, thread: u64) {
        while let Some(task) = self.next(thread) {
            task.poll();
            let mut queue = self.lock();
            if !queue.end_poll(thread, self.wanted) {
                break;
            }
        }
        self.lock().threads -= 1;
    }

    /// The next task that is ready; waits for one. `None` when the node is gone.
    fn next(&self, thread: u64) -> Option<Arc<Task>> {
        let mut queue = self.lock();
        loop {
            if let Some(task) = queue.ready.pop_front() {
                queue.polling.insert(thread, 0);
                return Some(task);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            while queue.wake_ups == 0 {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.wake_ups -= 1;
        }
    }
}

/// A future, and where it is. It is in the queue at most once, and polled by at most one thread.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    state: AtomicU8,
    shared: Arc<Shared>,
}

/// Waits to be woken, or has ended.
const WAITING: u8 = 0;
/// Is in the queue.
const QUEUED: u8 = 1;
/// Is being polled.
const POLLED: u8 = 2;
/// Is being polled, and was woken meanwhile.
const POLLED_AND_WOKEN: u8 = 3;

impl Task {
    fn poll(self: Arc<Self>) {
        self.state.store(POLLED, Ordering::SeqCst);
        let waker = Waker::from(self.clone());
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pinned) = future.as_mut() else { return };
        let polled =
            catch_unwind(AssertUnwindSafe(|| pinned.as_mut().poll(&mut Context::from_waker(&waker))));
        match polled {
            Ok(Poll::Pending) => {
                drop(future);
                let back = self.state.compare_exchange(POLLED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
                if back.is_err() {
                    self.state.store(QUEUED, Ordering::SeqCst);
                    let shared = self.shared.clone();
                    shared.push(self.clone());
                }
            }
            Ok(Poll::Ready(())) => *future = None,
            Err(_panic) => {
                tracing::error!(target: "duroxide::runtime", "a task for a turn panicked; its lock will expire");
                *future = None;
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| match state {
            WAITING => Some(QUEUED),
            POLLED => Some(POLLED_AND_WOKEN),
            _ => None,
        });
        if woken == Ok(WAITING) {
            self.shared.push(self.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    /// Polls that are stuck are replaced by the look after the one that saw them first.
    fn look_twice(threads: &TurnThreads) {
        threads.replace_stuck();
        threads.replace_stuck();
    }

    /// Tasks that keep their threads until the sender is dropped; returns once all run.
    fn block_all(threads: &TurnThreads, count: usize) -> Vec<mpsc::Sender<()>> {
        let (begun, begins) = mpsc::channel();
        let mut gates = Vec::new();
        for _ in 0..count {
            let (gate, closed) = mpsc::channel::<()>();
            gates.push(gate);
            let begun = begun.clone();
            threads.spawn(async move {
                begun.send(()).expect("the test waits");
                assert!(closed.recv().is_err(), "nothing is sent");
            });
        }
        for _ in 0..count {
            while begins.recv_timeout(Duration::from_millis(20)).is_err() {
                look_twice(threads);
            }
        }
        gates
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tasks_that_keep_their_threads_hold_up_no_others() {
        let threads = TurnThreads::new(&Handle::current(), 256).expect("a multi-thread runtime");
        let gates = block_all(&threads, 10);
        look_twice(&threads);
        for number in 0..100 {
            let (done, ends) = oneshot::channel();
            threads.spawn(async move {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                done.send(number).expect("the test waits");
            });
            assert_eq!(ends.await, Ok(number));
        }
        assert_eq!(threads.shared.lock().stuck, 10);
        drop(gates);
        // Those that come back are too many now.
        while threads.shared.lock().threads > 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(threads.shared.lock().stuck, 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_ends_its_task_alone_and_the_last_owner_ends_the_threads() {
        let threads = TurnThreads::new(&Handle::current(), 1).expect("a multi-thread runtime");
        threads.spawn(async { panic!("on purpose") });
        let (done, ends) = oneshot::channel();
        threads.spawn(async move { done.send(()).expect("the test waits") });
        assert_eq!(ends.await, Ok(()));
        let shared = threads.shared.clone();
        assert_eq!(shared.lock().threads, 1);
        drop(threads);
        while shared.lock().threads > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_current_thread_runtime_has_no_threads_for_turns() {
        assert!(TurnThreads::new(&Handle::current(), 256).is_none());
    }
}
