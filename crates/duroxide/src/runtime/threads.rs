//! Threads of the node's own for the programs of users: what never yields keeps one of them and nothing else.
//!
//! A turn is synchronous, a handler may block, and nothing can end a thread from outside. On a worker of tokio, such a
//! program would take the store's connections, the timers and the renewals with it, and as many of them as there are
//! workers would stop the process. So turns and activities run here, each kind on threads of its own, polled by a small
//! executor with one queue that all its threads share: no task is tied to a thread, and a thread that has been in one
//! poll for too long is replaced by another.
//!
//! A task that a thread wakes while it runs code of the runtime is taken by that same thread, at the end of its poll: waking
//! another one would cost more than the poll. Around a program ([`in_program`]) that does not hold, because a program may never
//! return: what was woken before it gets another thread first.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use duroxide_core::panic_text;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;

/// The threads of one node for one kind of programs.
pub(super) struct NodeThreads {
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
    /// What the threads are called.
    name: &'static str,
    /// Wakes the watch.
    starved: Notify,
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
    /// The watch waits until a task that is ready finds no thread.
    watch_sleeps: bool,
    closed: bool,
}

/// How often the threads are looked at while tasks wait for one.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// A poll that was seen this often lasts for at least one interval of the watch.
const LOOKS_OF_A_STUCK_POLL: u32 = 2;

impl NodeThreads {
    /// `None` on a current-thread runtime. There all is one thread, on purpose: tests and simulations in virtual time
    /// depend on it.
    pub(super) fn new(tokio: &Handle, name: &'static str, concurrency: usize) -> Option<Self> {
        let threads = Self::unwatched(tokio, name, concurrency)?;
        tokio.spawn(watch(threads.shared.clone()));
        Some(threads)
    }

    fn unwatched(tokio: &Handle, name: &'static str, concurrency: usize) -> Option<Self> {
        if tokio.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return None;
        }
        let wanted = tokio.metrics().num_workers().min(concurrency).max(1);
        let shared = Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            tokio: tokio.clone(),
            wanted,
            name,
            starved: Notify::new(),
        };
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
}

impl Drop for NodeThreads {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.wake_ups = queue.threads;
        let unfinished = std::mem::take(&mut queue.ready);
        drop(queue);
        self.shared.work.notify_all();
        self.shared.starved.notify_one();
        if !unfinished.is_empty() {
            let _context = self.shared.tokio.enter();
            drop(unfinished);
        }
    }
}

impl Queue {
    fn add_thread(&mut self) -> u64 {
        self.threads += 1;
        self.next_thread += 1;
        self.next_thread
    }

    /// Back from a poll.
    fn end_poll(&mut self, thread: u64) {
        if self.polling.remove(&thread).is_some_and(|looks| looks >= LOOKS_OF_A_STUCK_POLL) {
            self.stuck = self.stuck.saturating_sub(1);
        }
    }

    /// What the tasks that are ready need, if more of them are than threads on their way.
    fn needed(&mut self, wanted: usize) -> Needed {
        if self.closed || self.ready.len() <= self.wake_ups {
            Needed::Nothing
        } else if self.idle > 0 {
            self.idle -= 1;
            self.wake_ups += 1;
            Needed::WakeUp
        } else if self.threads < wanted + self.stuck {
            Needed::Thread(self.add_thread())
        } else if std::mem::take(&mut self.watch_sleeps) {
            Needed::Watch
        } else {
            Needed::Nothing
        }
    }

    /// Whether there are more threads than are wanted beside the stuck ones.
    fn has_too_many(&self, wanted: usize) -> bool {
        self.threads > wanted + self.stuck
    }

    /// Counts one more look at every poll, and returns how many threads may be added for those that are stuck. Polls that
    /// have been found stuck just now will have others like them behind them, so there are two for each: however many
    /// programs block at a time, a few looks find them all.
    fn look(&mut self, wanted: usize) -> usize {
        let mut found_now = 0;
        for looks in self.polling.values_mut() {
            *looks = looks.saturating_add(1);
            found_now += usize::from(*looks == LOOKS_OF_A_STUCK_POLL);
        }
        self.stuck = self.polling.values().filter(|looks| **looks >= LOOKS_OF_A_STUCK_POLL).count();
        (wanted + self.stuck + 2 * found_now).saturating_sub(self.threads).min(self.ready.len())
    }
}

/// Replaces stuck threads until the executor is closed. Does nothing while every task that is ready has a thread.
async fn watch(shared: Arc<Shared>) {
    while shared.is_watched() {
        while shared.is_starved() {
            tokio::time::sleep(LOOK_INTERVAL).await;
            shared.replace_stuck();
        }
        shared.starved.notified().await;
    }
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// What a thread of an executor does.
struct Here {
    shared: Arc<Shared>,
    runs: Runs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Code of the runtime, which returns soon: the thread takes what it pushes.
    Runtime,
    /// The same, and it has pushed a task that no other thread was told of.
    RuntimeAndPushed,
    /// A program, which may keep the thread.
    Program,
}

/// Runs a program, or a part of it. Nothing waits meanwhile for the thread at hand.
pub(super) fn in_program<T>(program: impl FnOnce() -> T) -> T {
    /// Also if the program panics.
    struct Returns(Option<Runs>);
    impl Drop for Returns {
        fn drop(&mut self) {
            let before = self.0.take();
            HERE.with_borrow_mut(|here| {
                if let (Some(here), Some(before)) = (here, before) {
                    here.runs = before;
                }
            });
        }
    }
    let (returns, untold) = HERE.with_borrow_mut(|here| match here {
        None => (Returns(None), None),
        Some(here) => match std::mem::replace(&mut here.runs, Runs::Program) {
            Runs::Program => (Returns(Some(Runs::Program)), None),
            Runs::Runtime => (Returns(Some(Runs::Runtime)), None),
            Runs::RuntimeAndPushed => (Returns(Some(Runs::Runtime)), Some(here.shared.clone())),
        },
    });
    if let Some(shared) = untold {
        shared.provide_threads();
    }
    let result = program();
    drop(returns);
    result
}

/// What tasks that are ready need besides.
enum Needed {
    Nothing,
    Watch,
    WakeUp,
    Thread(u64),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when the executor is closed.
    fn is_watched(&self) -> bool {
        !self.lock().closed
    }

    /// Whether tasks that are ready wait for a thread. If not, the next one that does wakes the watch.
    fn is_starved(&self) -> bool {
        let mut queue = self.lock();
        queue.watch_sleeps = queue.ready.is_empty();
        !queue.watch_sleeps && !queue.closed
    }

    /// Looks at all threads, and adds some for those that are in the same poll as at the last look.
    fn replace_stuck(self: &Arc<Self>) {
        let mut queue = self.lock();
        let missing = queue.look(self.wanted);
        let new: Vec<u64> = (0..missing).map(|_| queue.add_thread()).collect();
        drop(queue);
        new.into_iter().for_each(|thread| self.start(thread));
    }

    fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            return drop(task);
        }
        queue.ready.push_back(task);
        if self.is_taken_here() {
            return;
        }
        let needed = queue.needed(self.wanted);
        drop(queue);
        self.provide(needed);
    }

    /// Whether the thread at hand takes what it pushes itself, because it is one of these and in code that returns soon.
    fn is_taken_here(&self) -> bool {
        HERE.with_borrow_mut(|here| match here {
            Some(here) if std::ptr::eq(Arc::as_ptr(&here.shared), self) && here.runs != Runs::Program => {
                here.runs = Runs::RuntimeAndPushed;
                true
            }
            Some(_) | None => false,
        })
    }

    /// Has another thread take the tasks that are ready.
    fn provide_threads(self: &Arc<Self>) {
        let needed = self.lock().needed(self.wanted);
        self.provide(needed);
    }

    fn provide(self: &Arc<Self>, needed: Needed) {
        match needed {
            Needed::Nothing => {}
            Needed::Watch => self.starved.notify_one(),
            Needed::WakeUp => self.work.notify_one(),
            Needed::Thread(thread) => self.start(thread),
        }
    }

    fn start(self: &Arc<Self>, thread: u64) {
        let shared = self.clone();
        let started = std::thread::Builder::new().name(self.name.into()).spawn(move || {
            let _context = shared.tokio.enter();
            HERE.set(Some(Here { shared: shared.clone(), runs: Runs::Runtime }));
            shared.work(thread);
            HERE.set(None);
        });
        if let Err(error) = started {
            // Tried again with the next task and at the next look.
            let mut queue = self.lock();
            queue.threads -= 1;
            queue.watch_sleeps = false;
            drop(queue);
            self.starved.notify_one();
            tracing::error!(
                target: "duroxide::runtime",
                %error,
                threads = self.name,
                "failed to start a thread; trying again"
            );
        }
    }

    fn work(self: &Arc<Self>, thread: u64) {
        while let Some(Taken { task, needed }) = self.next(thread) {
            self.provide(needed);
            task.poll();
            let mut queue = self.lock();
            queue.end_poll(thread);
            if queue.has_too_many(self.wanted) {
                break;
            }
        }
        let mut queue = self.lock();
        queue.threads -= 1;
        // What it has pushed and does not take itself.
        let needed = queue.needed(self.wanted);
        self.end_one_too_many(&mut queue);
        drop(queue);
        self.provide(needed);
    }

    /// Wakes a thread that waits and is one too many; it ends, and wakes the next one.
    fn end_one_too_many(&self, queue: &mut Queue) {
        if queue.idle > 0 && queue.has_too_many(self.wanted) {
            queue.idle -= 1;
            queue.wake_ups += 1;
            self.work.notify_one();
        }
    }

    /// The next task that is ready; waits for one. `None` when the node is gone, or the thread is one too many.
    fn next(&self, thread: u64) -> Option<Taken> {
        HERE.with_borrow_mut(|here| here.iter_mut().for_each(|here| here.runs = Runs::Runtime));
        let mut queue = self.lock();
        loop {
            if let Some(task) = queue.ready.pop_front() {
                queue.polling.insert(thread, 0);
                return Some(Taken { task, needed: queue.needed(self.wanted) });
            }
            if queue.closed || queue.has_too_many(self.wanted) {
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

/// A task for the thread that asked, and what those behind it need.
struct Taken {
    task: Arc<Task>,
    needed: Needed,
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
        // What the program leaves is dropped in here as well: that may panic or block, too.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let pinned = future.as_mut()?;
            let polled = pinned.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *future = None;
            }
            Some(polled)
        }));
        match polled {
            Ok(Some(Poll::Pending)) => {
                drop(future);
                let back = self.state.compare_exchange(POLLED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
                if back.is_err() {
                    self.state.store(QUEUED, Ordering::SeqCst);
                    let shared = self.shared.clone();
                    shared.push(self.clone());
                }
            }
            Ok(None | Some(Poll::Ready(()))) => {}
            Err(payload) => {
                drop(panic_text(payload));
                tracing::error!(
                    target: "duroxide::runtime",
                    threads = self.shared.name,
                    "a task panicked; its lock will expire"
                );
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| *future = None)) {
                    drop(panic_text(payload));
                }
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

    use tokio::sync::oneshot;

    use super::*;

    /// Polls that are stuck are replaced by the look after the one that saw them first.
    fn look_twice(threads: &NodeThreads) {
        threads.shared.replace_stuck();
        threads.shared.replace_stuck();
    }

    /// Tasks that keep their threads until the sender is dropped; returns once all run.
    fn block_all(threads: &NodeThreads, count: usize) -> Vec<mpsc::Sender<()>> {
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
        let threads =
            NodeThreads::unwatched(&Handle::current(), "test", 256).expect("a multi-thread runtime");
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
        let threads = NodeThreads::unwatched(&Handle::current(), "test", 1).expect("a multi-thread runtime");
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_watch_finds_any_number_of_stuck_threads_within_a_few_looks() {
        const BLOCKING: usize = 200;
        let threads = NodeThreads::new(&Handle::current(), "test", 512).expect("a multi-thread runtime");
        let (gate, closed) = mpsc::channel::<()>();
        let closed = Arc::new(Mutex::new(closed));
        let begun = tokio::time::Instant::now();
        for _ in 0..BLOCKING {
            let closed = closed.clone();
            threads.spawn(async move {
                let closed = closed.lock().expect("no holder panics");
                assert!(closed.recv().is_err(), "nothing is sent");
            });
        }
        let (done, ends) = oneshot::channel();
        threads.spawn(async move { done.send(()).expect("the test waits") });
        assert_eq!(ends.await, Ok(()));
        // Tenths of a second: one thread at a look would take two seconds at least.
        assert!(begun.elapsed() < LOOK_INTERVAL * 150, "{:?}", begun.elapsed());
        let shared = threads.shared.clone();
        drop((gate, threads));
        while shared.lock().threads > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_future_that_panics_when_it_is_dropped_costs_no_thread() {
        struct PanicsWhenDropped;
        impl Drop for PanicsWhenDropped {
            fn drop(&mut self) {
                std::panic::panic_any(Self);
            }
        }
        let threads = NodeThreads::unwatched(&Handle::current(), "test", 1).expect("a multi-thread runtime");
        let value = PanicsWhenDropped;
        threads.spawn(async move {
            let _dropped_at_the_end = &value;
        });
        let (done, ends) = oneshot::channel();
        threads.spawn(async move { done.send(()).expect("the test waits") });
        assert_eq!(ends.await, Ok(()));
        assert_eq!(threads.shared.lock().threads, 1);
    }

    #[tokio::test]
    async fn a_current_thread_runtime_has_no_such_threads() {
        assert!(NodeThreads::unwatched(&Handle::current(), "test", 256).is_none());
    }
}
