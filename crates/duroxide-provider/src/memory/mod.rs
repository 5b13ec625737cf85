//! A store in memory: the executable model of the contract, and a store for unit tests.
//!
//! Nothing survives the process. Every rule of the contract is here in its plainest form: the answers of the
//! other stores are compared with the answers of this one. With [`MemoryProvider::with_clock_and_seed`] all
//! it does is a function of the calls, so that a run can be repeated.
//!
//! | file | its job |
//! |---|---|
//! | `rows` | what is stored |
//! | `ready` | the index that a fetch looks at |
//! | `state` | all rows, lock checks |
//! | `messages`, `turns`, `ack`, `work` | one queue operation each |
//! | `sessions` | who owns sessions, and how many an owner runs at a time |
//! | `read`, `bounces`, `deletion`, `admin` | everything without a lock |
//! | `nodes`, `sweep` | who works on the store, and what none of them can do |
//! | `clock_steps` | what came while the clock was ahead |
//! | `waiting` | who is woken when |
//! | `next_step` | what the store would do next, for tests whose time jumps |

mod ack;
mod admin;
mod bounces;
mod clock_steps;
mod corrupt;
mod deletion;
mod health;
mod inspect;
mod listing;
mod messages;
mod next_step;
mod nodes;
mod provider;
mod read;
mod ready;
mod redrive;
mod rows;
mod sessions;
mod snapshot;
mod state;
mod sweep;
mod turns;
mod waiting;
mod work;

use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use inspect::Inspection;
pub use next_step::{GivenBack, NextStep};
pub use rows::{SetAside, Stored};
pub use snapshot::{
    ExecutionSnapshot, InstanceSnapshot, MessageSnapshot, SessionSnapshot, Snapshot, WorkSnapshot,
};
pub use state::Counters;

use tokio::sync::Notify;

use crate::clock::{Clock, SystemClock};
use crate::random;
use rows::{Ms, to_ms};
use state::State;
use waiting::Waiters;

/// A store in memory.
pub struct MemoryProvider {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    waiters: Arc<Waiters>,
    /// Notified after every transaction.
    transactions: Notify,
}

impl Default for MemoryProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryProvider").finish_non_exhaustive()
    }
}

impl MemoryProvider {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::default()))
    }

    /// An empty store on a given clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::with_clock_and_seed(clock, random::bits_64())
    }

    /// An empty store whose tokens and incarnations follow from `seed` and the calls made.
    pub fn with_clock_and_seed(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let waiters = Arc::new(Waiters::default());
        let listener: Weak<Waiters> = Arc::downgrade(&waiters);
        clock.tell_of_jumps(listener);
        Self { clock, state: Mutex::new(State::new(seed)), waiters, transactions: Notify::new() }
    }

    /// The whole state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.look(|state, _| state.snapshot())
    }

    /// Looks at one instance at this moment without copying anything. `None` if it does not exist.
    #[doc(hidden)]
    pub fn inspect<T>(&self, instance: &str, look: impl FnOnce(&Inspection<'_>) -> T) -> Option<T> {
        self.look(|state, _| state.inspect(instance, look))
    }

    /// How many messages ended otherwise than by being admitted.
    pub fn counters(&self) -> Counters {
        self.look(|state, _| state.counters)
    }

    /// One transaction: the state and the time, then the wake-ups.
    fn with_state<T>(&self, transaction: impl FnOnce(&mut State, Ms) -> T) -> T {
        let (answer, wakes) = {
            // Transactions check before they change, so that a panic leaves nothing half done.
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let now = to_ms(self.clock.now_ms());
            state.look_at_clock(now);
            let answer = transaction(&mut state, now);
            (answer, std::mem::take(&mut state.wakes))
        };
        self.waiters.wake(wakes);
        self.transactions.notify_waiters();
        answer
    }

    /// The state and the time, for a look that changes nothing and of which no waiter hears.
    fn look<T>(&self, look: impl FnOnce(&State, Ms) -> T) -> T {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        look(&state, to_ms(self.clock.now_ms()))
    }
}
