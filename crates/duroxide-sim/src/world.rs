//! What all parts of one simulation share: time, chance, the trace, and what has gone wrong so far.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::Event;
use duroxide::providers::WorkItem;
use duroxide::runtime::Runtime;
use duroxide::runtime::verify::ReplayAudit;
use duroxide::testing::{Fault, FaultProvider, Line, Method, SteppedClock};
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::backing::Store;
use crate::clock::VirtualClock;
use crate::counters::Counters;
use crate::faults::Weather;
use crate::generate::Workload;
use crate::ledger::Ledger;
use crate::program::Program;
use crate::rng::Rng;
use crate::simulate::{Breakage, Setup};
use crate::trace::Trace;

/// How many nodes there are.
pub(crate) const NODES: usize = 3;
/// Every commit is followed by a check of its instance, and every so many by a check of everything.
const COMMITS_PER_CHECK: u64 = 64;
/// Crashes by chance and outages in one simulation, together. Each may charge an attempt to whatever runs; fewer
/// than attempts until poison, so that healthy work that is poisoned was charged with what it did not do.
const MAX_DISASTERS: u32 = 8;
/// During an upgrade what has no handler yet is attempted as well.
const MAX_DISASTERS_WHILE_UPGRADING: u32 = 3;
/// The longest pause between two crashes, so that they do not all come at the beginning.
const CRASH_PAUSE_MS: u64 = 8_000;
/// Fetches of one node in a second of an outage. Two loops for each of two queues ask every other second once the
/// backoff has grown, which is two.
const FETCHES_PER_SECOND_OF_OUTAGE: u64 = 3;
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
    pub(crate) store: Store,
    pub(crate) clock: VirtualClock,
    /// The store's clock: the same, but stepped now and then.
    pub(crate) store_clock: Arc<SteppedClock>,
    lines: [Line; NODES + 1],
    pub(crate) weather: Weather,
    pub(crate) breakage: Breakage,
    /// Whether some instances fail until the nodes are upgraded.
    pub(crate) mends: bool,
    pub(crate) programs: Vec<Arc<Program>>,
    /// Instances of which the store does not accept everything.
    pub(crate) refused: Vec<String>,
    pub(crate) failed: Notify,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    trace: Trace,
    counters: Counters,
    failures: Vec<String>,
    ledger: Ledger,
    fetches_cut_off: u64,
    disasters_left: u32,
    next_crash_ms: u64,
    commits: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new(setup: &Setup, workload: &Workload) -> Self {
        let clock = VirtualClock::begin();
        let weather = Weather::of(&mut Rng::new(setup.seed, 1));
        let weather = if setup.fair { weather.fair() } else { weather };
        let mends = !workload.mended.is_empty() && !setup.fair;
        let weather = if mends { weather.with_late_upgrade(&mut Rng::new(setup.seed, 5)) } else { weather };
        let weather = if workload.kills { weather.without_expiries() } else { weather };
        let store_clock = Arc::new(SteppedClock::new(Arc::new(clock)));
        let disasters_left =
            if weather.upgrade.is_some() { MAX_DISASTERS_WHILE_UPGRADING } else { MAX_DISASTERS };
        Self {
            store: Store::new(setup.backing, store_clock.clone(), setup.seed),
            clock,
            store_clock,
            lines: std::array::from_fn(|_| Line::default()),
            weather,
            breakage: setup.breakage,
            mends,
            programs: workload.programs.iter().cloned().map(Arc::new).collect(),
            refused: workload.refused.clone(),
            failed: Notify::new(),
            state: Mutex::new(State {
                rng: Rng::new(setup.seed, 2),
                trace: Trace::new(setup.keep),
                counters: Counters::default(),
                failures: Vec::new(),
                ledger: Ledger::default(),
                fetches_cut_off: 0,
                disasters_left,
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

    /// The way of an actor to the store.
    pub(crate) fn line(&self, actor: Actor) -> Line {
        self.lines[actor.index()].clone()
    }

    /// What becomes of the next call: the time it takes, and perhaps a fault.
    pub(crate) fn fate(&self, actor: Actor) -> Vec<Fault> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let mut fault = self.weather.fault(&mut state.rng, now_ms);
        if matches!(fault, Some(Fault::Freeze | Fault::FreezeAfter | Fault::ExpireLock)) {
            if actor == Actor::Client || state.disasters_left == 0 || now_ms < state.next_crash_ms {
                fault = None;
            } else {
                state.disasters_left -= 1;
                state.next_crash_ms = now_ms + state.rng.range(0, CRASH_PAUSE_MS);
            }
        }
        let mut faults = vec![Fault::DelayBefore(state.rng.millis(0, 4))];
        faults.extend(fault);
        faults.push(Fault::DelayAfter(state.rng.millis(0, 3)));
        faults
    }

    /// A call found the line cut.
    pub(crate) fn cut_off(&self, method: Method) {
        if matches!(method, Method::FetchTurns | Method::FetchWork) {
            self.lock().fetches_cut_off += 1;
        }
    }

    /// Whether another disaster may come. Each may charge an attempt to whatever runs.
    pub(crate) fn takes_disaster(&self) -> bool {
        let mut state = self.lock();
        let left = state.disasters_left > 0;
        state.disasters_left = state.disasters_left.saturating_sub(1);
        left
    }

    /// Cuts one node, the clients, or everybody off from the store for a while.
    pub(crate) async fn outage(&self) {
        if !self.takes_disaster() {
            return;
        }
        let now_ms = self.now_ms();
        let (until_ms, whole, one) = self.random(|rng| {
            let until_ms = now_ms + rng.range(50, 15_000);
            (until_ms, rng.one_in(3), usize::try_from(rng.range(0, 1 + NODES as u64)).unwrap_or(0))
        });
        let until_ms = until_ms.min(self.weather.calm_from_ms);
        let cut = if whole {
            self.count("outage of the store");
            0..=NODES
        } else {
            self.count("outage of one");
            one..=one
        };
        self.cut(cut, until_ms).await;
    }

    /// Everybody is cut off until then.
    pub(crate) async fn long_outage(&self, until_ms: u64) {
        self.count("outage of minutes or hours");
        let fetches_before = self.lock().fetches_cut_off;
        let begun_ms = self.now_ms();
        self.cut(0..=NODES, until_ms).await;
        let fetches = self.lock().fetches_cut_off - fetches_before;
        let seconds = (self.now_ms() - begun_ms) / 1000 + 10;
        let most = seconds * FETCHES_PER_SECOND_OF_OUTAGE * NODES as u64;
        if fetches > most {
            self.fail(format!("{fetches} fetches during an outage of {seconds} s: a dispatcher spins"));
        }
    }

    async fn cut(&self, cut: std::ops::RangeInclusive<usize>, until_ms: u64) {
        self.trace("weather", format_args!("actors {cut:?} are cut off until {until_ms}"));
        for line in &self.lines[cut.clone()] {
            line.cut();
        }
        let left_ms = until_ms.saturating_sub(self.now_ms());
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
        for line in &self.lines[cut] {
            line.mend();
        }
        self.trace("weather", format_args!("and reach it again"));
    }

    /// Whether every node is upgraded, or will be when it is up again.
    pub(crate) fn upgraded_at_ms(&self) -> u64 {
        self.weather.upgrade.map_or(0, |upgrade| upgrade.from_ms + upgrade.apart_ms * NODES as u64)
    }

    /// Whether the store has an instance.
    pub(crate) fn exists(&self, instance: &str) -> bool {
        let info = self.store.admin().get_instance_info(instance).now_or_never();
        info.expect("a store in memory answers at once").is_ok()
    }

    /// Whether the store keeps this message for an instance that has failed.
    pub(crate) fn is_kept(&self, item: &WorkItem) -> bool {
        let kept = self.store.kept_messages(item.instance()).now_or_never();
        kept.expect("a store in memory answers at once").is_ok_and(|kept| kept.contains(item))
    }

    /// Whether the message lies in the inbox of an instance that runs.
    pub(crate) fn waits_in_inbox(&self, item: &WorkItem) -> bool {
        let waits = self.store.inspect(item.instance(), |inspection| {
            inspection.status == "Running" && inspection.inbox.contains(&item)
        });
        waits.unwrap_or(false)
    }

    /// A transaction about an instance was committed: it is looked at, and now and then everything.
    pub(crate) fn committed(&self, instance: &str) {
        let due = {
            let mut state = self.lock();
            state.commits += 1;
            state.commits.is_multiple_of(COMMITS_PER_CHECK)
        };
        if self.has_failed() {
            return;
        }
        if due { crate::audit::check(self) } else { crate::audit::check_instance(self, instance) }
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
        if self.ledger(|ledger| ledger.is_deletable(instance)) {
            // The turn may be one of an instance that was deleted, the history that of its successor.
            return Vec::new();
        }
        self.count("turn compared with its replay");
        let read = self.store.read_with_execution(instance, execution_id).now_or_never();
        read.expect("a store in memory answers at once").unwrap_or_default()
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
    /// Whether it runs the code of after the upgrade.
    pub(crate) upgraded: bool,
    dead: AtomicBool,
    pub(crate) ended: Notify,
    process: Mutex<Option<Process>>,
}

/// What ends with a process.
struct Process {
    runtime: Arc<Runtime>,
    store: Arc<FaultProvider>,
}

impl Process {
    fn kill(&self) {
        self.store.freeze();
        self.runtime.kill();
    }
}

impl Life {
    pub(crate) fn new(world: Arc<World>, node: usize, generation: u32, upgraded: bool) -> Self {
        let name = format!("node{node}.{generation}");
        Self {
            world,
            node,
            name,
            upgraded,
            dead: AtomicBool::new(false),
            ended: Notify::new(),
            process: Mutex::new(None),
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, runtime: Arc<Runtime>, store: Arc<FaultProvider>) {
        *self.process() = Some(Process { runtime, store });
        if self.is_dead() {
            self.let_go();
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The process dies where it stands.
    pub(crate) fn crash(&self, site: &str) {
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        self.world.ledger(|ledger| ledger.life_ends(&self.name));
        self.world.count(&format!("crash {site}"));
        self.world.trace(&self.name, format_args!("CRASH {site}"));
        self.let_go();
        self.ended.notify_one();
    }

    /// The simulation is over. The runtime holds the store, which holds this life: one of them has to let go.
    pub(crate) fn let_go(&self) {
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    /// The process is asked to end; it may still crash while it does.
    pub(crate) async fn shut_down(&self, timeout_ms: u64) {
        let runtime = self.process().as_ref().map(|process| process.runtime.clone());
        if let Some(runtime) = runtime {
            self.world.ledger(|ledger| ledger.life_ends(&self.name));
            self.world.count("graceful restart");
            self.world.trace(&self.name, format_args!("shuts down within {timeout_ms} ms"));
            runtime.shutdown(Some(timeout_ms)).await;
        }
        self.dead.store(true, Ordering::SeqCst);
        self.let_go();
    }
}
