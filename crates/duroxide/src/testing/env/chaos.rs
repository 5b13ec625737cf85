//! The same program while the store fails, answers get lost, locks expire and the process dies at any await.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::deck::Deck;
use super::node::{Node, quiet};
use super::watched::Watched;
use crate::app::Handlers;
use crate::clock::Clock;
use crate::providers::memory::MemoryProvider;
use crate::runtime::RuntimeOptions;
use crate::testing::FaultProvider;

/// How long locks last: locks of a process that died end soon, so that deadlines of a program stay far away.
const LOCK: Duration = Duration::from_secs(2);
/// Locks expire often; that must not poison healthy work.
const MAX_ATTEMPTS: u32 = 1_000;
/// The variable that chooses one seed.
pub(super) const SEED_VARIABLE: &str = "DUROXIDE_CHAOS_SEED";

thread_local! {
    /// How many chaos environments of this thread's runtime need its time to be virtual.
    static PAUSES: Cell<usize> = const { Cell::new(0) };
    /// The seed of the chaos environment of this thread that was made last.
    static LAST_SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Tokio's time is virtual while this exists: it moves only when every task waits.
pub(super) struct VirtualTime;

impl VirtualTime {
    pub(super) fn begin() -> Self {
        if PAUSES.replace(PAUSES.get() + 1) == 0 {
            tokio::time::pause();
        }
        Self
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        let last = PAUSES.replace(PAUSES.get() - 1) == 1;
        // Dropped after its runtime, there is no time to resume.
        if last && tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::resume();
        }
    }
}

/// Tokio's virtual time as a date.
pub(super) struct TokioClock {
    begun: Instant,
    begins_ms: u64,
}

impl TokioClock {
    pub(super) fn new(begins_ms: u64) -> Self {
        Self { begun: Instant::now(), begins_ms }
    }
}

impl Clock for TokioClock {
    fn now_ms(&self) -> u64 {
        self.begins_ms + u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A chaos run. Says its seed if the test fails while it lasts.
pub(super) struct Chaos {
    pub(super) seed: u64,
    pub(super) deck: Arc<Deck>,
    _time: VirtualTime,
}

impl Chaos {
    pub(super) fn begin(seed: u64) -> Self {
        LAST_SEED.set(Some(seed));
        Self { seed, deck: Arc::new(Deck::of(seed)), _time: VirtualTime::begin() }
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&format!("chaos seed {} failed; repeat it with: {}", self.seed, command(self.seed)));
        }
    }
}

/// Forgets the chaos runs of tests that this thread ran before.
pub(super) fn forget_seeds() {
    LAST_SEED.set(None);
}

/// Says the seed of the last chaos run of a test that returned an error.
pub(super) fn tell_last_seed() {
    if let Some(seed) = LAST_SEED.take() {
        tell(&format!("the last chaos seed of this test was {seed}; repeat it with: {}", command(seed)));
    }
}

fn command(seed: u64) -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
    format!("{SEED_VARIABLE}={seed} cargo test {test}").trim_end().to_string()
}

#[expect(clippy::print_stderr, reason = "the output of a failed test is what its author reads")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// The seed that the environment variable asks for.
///
/// # Panics
/// When it is not a number.
pub(super) fn chosen_seed() -> Option<u64> {
    let chosen = std::env::var(SEED_VARIABLE).ok()?;
    match chosen.trim().parse() {
        Ok(seed) => Some(seed),
        Err(_) => panic!("{SEED_VARIABLE} must be a number, and is '{chosen}'"),
    }
}

/// Ends the nodes of a chaos run when it is dropped.
pub(super) struct Supervisor {
    task: JoinHandle<()>,
}

impl Supervisor {
    /// Keeps a node running: a process that dies is followed by the next.
    pub(super) fn start(
        handlers: Arc<Handlers>,
        watched: Arc<Watched>,
        store: Arc<MemoryProvider>,
        chaos: &Chaos,
    ) -> Self {
        let (seed, deck) = (chaos.seed, chaos.deck.clone());
        let supervise = async move {
            for life in 1u64.. {
                let faulty =
                    FaultProvider::new(store.clone()).with_source(deck.clone()).observed_by(watched.clone());
                let faulty = Arc::new(faulty);
                watched.set_node(&faulty);
                let options = options(handlers.options.clone(), seed.wrapping_mul(1_000_003) ^ life);
                let node = Node::start(&handlers, &watched, faulty.clone(), options).await;
                faulty.has_frozen().await;
                drop(node);
                tokio::time::sleep(deck.died()).await;
            }
        };
        Self { task: tokio::spawn(supervise) }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn options(options: RuntimeOptions, seed: u64) -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: LOCK,
        orchestrator_lock_renewal_buffer: LOCK / 3,
        worker_lock_timeout: LOCK,
        worker_lock_renewal_buffer: LOCK / 3,
        session_lock_timeout: LOCK,
        session_lock_renewal_buffer: LOCK / 3,
        max_attempts: MAX_ATTEMPTS,
        ..quiet(options, seed)
    }
}
