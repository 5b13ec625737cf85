//! Reading beside the writer: a few threads, each with a connection of its own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::db::{Db, OwnDb};

/// A read, with its answer inside.
pub(super) type Read = Box<dyn FnOnce(&Db) + Send>;

/// The threads that read.
pub(super) struct Readers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reads: VecDeque<Read>,
    stopping: bool,
}

impl Readers {
    /// Starts one thread per connection.
    pub(super) fn start(connections: Vec<OwnDb>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut readers = Self { queue: Arc::clone(&queue), threads: Vec::new() };
        for db in connections {
            let queue = Arc::clone(&queue);
            let thread = std::thread::Builder::new().name("duroxide-read".to_string());
            readers.threads.push(thread.spawn(move || queue.work(&db.db()))?);
        }
        Ok(readers)
    }

    pub(super) fn submit(&self, read: Read) {
        self.queue.lock().reads.push_back(read);
        self.queue.changed.notify_one();
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.lock().stopping = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(target: "duroxide::runtime", "a reading thread of the SQLite store panicked");
            }
        }
    }
}

impl Queue {
    fn work(&self, db: &Db) {
        loop {
            let mut state = self.lock();
            let read = loop {
                if let Some(read) = state.reads.pop_front() {
                    break read;
                }
                if state.stopping {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            // The answer's sender is dropped in the unwinding, which whoever asked sees as a failure.
            if catch_unwind(AssertUnwindSafe(|| read(db))).is_err() {
                tracing::error!(target: "duroxide::runtime", "a read of the SQLite store panicked");
                if db.in_transaction() && db.execute("ROLLBACK", []).is_err() {
                    tracing::error!(target: "duroxide::runtime", "a read of the SQLite store could not be ended");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole after every operation, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
