//! What all parts of one simulation share: time, chance, the trace, and what has gone wrong so far.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::Event;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::verify::ReplayAudit;
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::clock::VirtualClock;
use crate::counters::Counters;
use crate::faults::{Fault, Weather};
use crate::generate::Workload;
use crate::ledger::Ledger;
use crate::rng::Rng;
use crate::simulate::{Breakage, Setup};
use crate::trace::Trace;

/// How many nodes there are.
pub(crate) const NODES: usize = 3;
/// The full check runs after every so many commits; a failure stays visible, so that not every one is needed.
const COMMITS_PER_CHECK: u64 = 16;
/// Crashes by chance and outages in one simulation, together. Each may charge an attempt to whatever runs; fewer
/// than attempts until poison, so that healthy work that is poisoned was charged with what it did not do.
const MAX_DISASTERS: u32 = 8;
/// The longest pause between two crashes, so that they do not all come at the beginning.
const CRASH_PAUSE_MS: u64 = 8_000;
/// Failures reported at most.
const MAX_FAILURES: usize = 5;

/// Who calls the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actor {
    Node(usize),
    Client,
}

impl Actor {
    fn index(self) -> usize {
        match self {
            Self::Node(node) => node,
            Self::Client => NODES,
        }
    }
}

/// What all parts of one simulation share.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryProvider>,
    pub(crate) clock: VirtualClock,
    pub(crate) weather: Weather,
    pub(crate) breakage: Breakage,
    pub(crate) failed: Notify,
    pub(crate) outage_begun: Notify,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    trace: Trace,
    counters: Counters,
    failures: Vec<String>,
    ledger: Ledger,
    outage_until_ms: [u64; NODES + 1],
    disasters_left: u32,
    next_crash_ms: u64,
    commits: u64,
}

/// What becomes of one call of the store.
pub(crate) struct Fate {
    pub(crate) fault: Fault,
    pub(crate) before: Duration,
    pub(crate) after: Duration,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new(setup: Setup, workload: &Workload) -> Self {
        let clock = VirtualClock::begin();
        let weather = Weather::of(&mut Rng::new(setup.seed, 1));
        let weather = if workload.kills { weather.without_expiries() } else { weather };
        Self {
            store: Arc::new(MemoryProvider::with_clock_and_seed(Arc::new(clock), setup.seed)),
            clock,
            weather,
            breakage: setup.breakage,
            failed: Notify::new(),
            outage_begun: Notify::new(),
            state: Mutex::new(State {
                rng: Rng::new(setup.seed, 2),
                trace: Trace::new(setup.keep),
                counters: Counters::default(),
                failures: Vec::new(),
                ledger: Ledger::default(),
                outage_until_ms: [0; NODES + 1],
                disasters_left: MAX_DISASTERS,
                next_crash_ms: 0,
                commits: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.now_ms() >= self.weather.calm_from_ms
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.lock().rng)
    }

    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(&mut self.lock().ledger)
    }

    pub(crate) fn trace(&self, who: &str, what: Arguments<'_>) {
        let now_ms = self.now_ms();
        self.lock().trace.add(now_ms, who, what);
    }

    pub(crate) fn count(&self, what: &str) {
        self.lock().counters.count(what);
    }

    /// Something is as it must never be.
    pub(crate) fn fail(&self, what: String) {
        self.trace("FAILED", format_args!("{what}"));
        let mut state = self.lock();
        if state.failures.len() < MAX_FAILURES {
            state.failures.push(format!("at {} ms: {what}", self.clock.elapsed_ms()));
        }
        drop(state);
        self.failed.notify_one();
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.lock().failures.is_empty()
    }

    /// What becomes of the next call.
    pub(crate) fn fate(&self, actor: Actor) -> Fate {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let mut fault = self.weather.fault(&mut state.rng, now_ms);
        if matches!(fault, Fault::CrashBefore | Fault::CrashAfter) {
            if actor == Actor::Client || state.disasters_left == 0 || now_ms < state.next_crash_ms {
                fault = Fault::None;
            } else {
                state.disasters_left -= 1;
                state.next_crash_ms = now_ms + state.rng.range(0, CRASH_PAUSE_MS);
            }
        }
        let before = state.rng.millis(0, 4);
        let after = state.rng.millis(0, 3);
        match fault {
            Fault::FailBefore => state.counters.count("call failed before the commit"),
            Fault::LoseAnswer => state.counters.count("call done, answer lost"),
            Fault::DelayBefore(_) | Fault::DelayAfter(_) => state.counters.count("call or answer delayed"),
            Fault::None | Fault::CrashBefore | Fault::CrashAfter => {}
        }
        Fate { fault, before, after }
    }

    pub(crate) fn is_cut_off(&self, actor: Actor) -> bool {
        self.now_ms() < self.lock().outage_until_ms[actor.index()]
    }

    /// Cuts one node, the clients, or everybody off from the store for a while.
    pub(crate) fn begin_outage(&self) {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        if state.disasters_left == 0 {
            return;
        }
        state.disasters_left -= 1;
        let until_ms = (now_ms + state.rng.range(50, 15_000)).min(self.weather.calm_from_ms);
        if state.rng.one_in(3) {
            state.outage_until_ms = [until_ms; NODES + 1];
            state.counters.count("outage of the store");
            state.trace.add(now_ms, "weather", format_args!("the store is away until {until_ms}"));
        } else {
            let actors: Vec<usize> = (0..=NODES).collect();
            let actor = *state.rng.pick(&actors);
            state.outage_until_ms[actor] = until_ms;
            state.counters.count("outage of one");
            state.trace.add(now_ms, "weather", format_args!("actor {actor} is cut off until {until_ms}"));
        }
        drop(state);
        self.outage_begun.notify_waiters();
    }

    /// A transaction was committed; now and then everything is looked at.
    pub(crate) fn committed(&self) {
        let due = {
            let mut state = self.lock();
            state.commits += 1;
            state.commits.is_multiple_of(COMMITS_PER_CHECK)
        };
        if due && !self.has_failed() {
            crate::audit::check(self);
        }
    }

    /// The end: the hash, the lines, the failures and the counters.
    pub(crate) fn close(&self) -> Closed {
        let mut state = self.lock();
        Closed {
            hash: state.trace.hash(),
            lines: state.trace.take_lines(),
            failures: std::mem::take(&mut state.failures),
            counters: std::mem::take(&mut state.counters),
        }
    }
}

/// What is left of a simulation.
pub(crate) struct Closed {
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) failures: Vec<String>,
    pub(crate) counters: Counters,
}

impl ReplayAudit for World {
    fn stored_history(&self, instance: &str, execution_id: u64) -> Vec<Event> {
        self.count("turn compared with its replay");
        let read = self.store.read_with_execution(instance, execution_id).now_or_never();
        read.expect("the memory store answers at once").unwrap_or_default()
    }

    fn differs(&self, instance: &str, live: String, replayed: String) {
        self.fail(format!("a replay of {instance} differs\n  live:     {live}\n  replayed: {replayed}"));
    }
}

/// One process of a node, from its start to its end.
pub(crate) struct Life {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
    /// The node and which of its processes this is.
    pub(crate) name: String,
    dead: AtomicBool,
    pub(crate) ended: Notify,
    runtime: Mutex<Option<Arc<Runtime>>>,
}

impl Life {
    pub(crate) fn new(world: Arc<World>, node: usize, generation: u32) -> Self {
        let name = format!("node{node}.{generation}");
        Self {
            world,
            node,
            name,
            dead: AtomicBool::new(false),
            ended: Notify::new(),
            runtime: Mutex::new(None),
        }
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Arc<Runtime>>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, runtime: Arc<Runtime>) {
        *self.runtime() = Some(runtime);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The process dies where it stands.
    pub(crate) fn crash(&self, site: &str) {
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        self.world.count(&format!("crash {site}"));
        self.world.trace(&self.name, format_args!("CRASH {site}"));
        if let Some(runtime) = self.runtime().take() {
            runtime.kill();
        }
        self.ended.notify_one();
    }

    /// The simulation is over. The runtime holds the store, which holds this life: one of them has to let go.
    pub(crate) fn let_go(&self) {
        if let Some(runtime) = self.runtime().take() {
            runtime.kill();
        }
    }

    /// The process is asked to end; it may still crash while it does.
    pub(crate) async fn shut_down(&self, timeout_ms: u64) {
        let runtime = self.runtime().clone();
        if let Some(runtime) = runtime {
            self.world.count("graceful restart");
            self.world.trace(&self.name, format_args!("shuts down within {timeout_ms} ms"));
            runtime.shutdown(Some(timeout_ms)).await;
        }
        self.dead.store(true, Ordering::SeqCst);
        *self.runtime() = None;
    }
}
