//! One simulation, from its seed to its report.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use duroxide_core::protection::Protection;

use crate::audit::Kind;
use crate::backing::Backing;
use crate::counters::Counters;
use crate::generate::{Besides, Call, Send, Workload};
use crate::generate_long::LONG_MS;
use crate::program::PANIC_MARK;
use crate::rng::Rng;
use crate::trace::Keep;
use crate::world::{NODES, World};
use crate::{audit, clients, nodes, redrive};

/// How long everything may take to finish once nothing fails any more, in virtual time. The slowest is a
/// program that kills its process: ten attempts, each with an expired lock and a restart.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// How often to look whether everything has finished, in virtual time.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a simulation is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Decides everything.
    pub seed: u64,
    /// Whether to keep a readable trace.
    pub keep: Keep,
    /// The store that it runs on.
    pub backing: Backing,
    /// How the store is broken, to see that the checks notice.
    pub breakage: Breakage,
    /// Which protection is switched off, to see that it is needed and that the checks notice.
    pub without: Option<Protection>,
    /// Which of the generated root programs are left out, by their place, to make a failure small.
    pub leave_out: Vec<usize>,
    /// Whether no call fails: what is left is the workload alone.
    pub fair: bool,
}

impl Setup {
    /// A simulation of this seed on the memory store, which works.
    pub fn of_seed(seed: u64) -> Self {
        Self {
            seed,
            keep: Keep::Hash,
            backing: Backing::Memory,
            breakage: Breakage::None,
            without: None,
            leave_out: Vec::new(),
            fair: false,
        }
    }
}

/// How a store is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// Not at all.
    None,
    /// Events and messages are acknowledged and forgotten.
    DropsAMessage,
    /// A turn's ack says `Ok` and does nothing.
    AcksWithoutCommitting,
    /// A completion is written into the history twice.
    RecordsACompletionTwice,
    /// Another result arrives before the real one.
    DeliversAForgedResultFirst,
}

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The store that it ran on.
    pub backing: Backing,
    /// How many root programs the seed generates, those left out included.
    pub roots: usize,
    /// The hash of all that happened, in its order.
    pub hash: u64,
    /// What was violated; empty if nothing was.
    pub failures: Vec<String>,
    /// How often what happened.
    pub counters: Counters,
    /// The readable trace, if it was to be kept.
    pub lines: Vec<String>,
    /// How much time passed in the simulation.
    pub virtual_time: Duration,
}

thread_local! {
    /// Panics on this thread that no program asked for.
    static UNEXPECTED_PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs one simulation on the calling thread.
///
/// # Panics
/// When the virtual clock cannot be set up.
pub fn simulate(setup: Setup) -> Report {
    hear_panics();
    UNEXPECTED_PANICS.with_borrow_mut(Vec::clear);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    Protection::switch_off(setup.without);
    let report = runtime.block_on(run(setup));
    drop(runtime);
    Protection::switch_off(None);
    report
}

async fn run(setup: Setup) -> Report {
    let sequence = |number| Rng::new(setup.seed, number);
    let mut besides =
        Besides { mended: sequence(4), spinner: sequence(5), long: sequence(6), hostile: sequence(7) };
    let mut workload = Workload::of(&mut sequence(3), &mut besides);
    let roots = workload.roots().len();
    workload.leave_out(&setup.leave_out);
    let world = Arc::new(World::new(&setup, &workload));
    world.trace("weather", format_args!("{:?}", world.weather));
    let supervisors: Vec<_> =
        (0..NODES).map(|node| tokio::spawn(nodes::supervise(world.clone(), node))).collect();
    let weather = tokio::spawn(nodes::blow(world.clone()));
    let mut senders = Vec::new();
    let mut waiters = Vec::new();
    let mended = workload.mended.clone();
    for (instance, calls) in by_instance(workload) {
        let starts = calls.iter().any(|call| matches!(call.what, Send::Start { .. }));
        let deletes = calls.iter().any(|call| matches!(call.what, Send::Delete | Send::DeleteFinished));
        if starts && mended.contains(&instance) {
            senders.push(tokio::spawn(redrive::until_mended(world.clone(), instance)));
        } else if starts && !deletes {
            waiters.push(tokio::spawn(clients::wait(world.clone(), instance)));
        }
        senders.push(tokio::spawn(clients::send_all(world.clone(), calls)));
    }
    let finished = finish(&world, senders, waiters);
    tokio::select! {
        biased;
        () = world.failed.notified() => {}
        () = finished => {}
    }
    if !world.has_failed() {
        audit::check_end(&world);
    }
    UNEXPECTED_PANICS.with_borrow(|panics| {
        for text in panics {
            world.fail(format!("unexpected panic: {text}"));
        }
    });
    let ended_ms = world.now_ms();
    world.trace("end", format_args!("{:?}", world.store.snapshot()));
    for task in supervisors {
        task.abort();
    }
    weather.abort();
    let closed = world.close();
    Report {
        seed: setup.seed,
        backing: setup.backing,
        roots,
        hash: closed.hash,
        failures: closed.failures,
        counters: closed.counters,
        lines: closed.lines,
        virtual_time: Duration::from_millis(ended_ms),
    }
}

type Task = tokio::task::JoinHandle<()>;

/// Waits until clients have sent everything, every instance has ended and every client has seen it.
async fn finish(world: &Arc<World>, senders: Vec<Task>, waiters: Vec<Task>) {
    join(world, senders).await;
    let patience_ms = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
    let deadline_ms = world.weather.calm_from_ms.max(world.now_ms()) + patience_ms;
    // What takes an hour comes last: nothing else waits for it.
    for (kind, deadline_ms) in [(Kind::Short, deadline_ms), (Kind::Long, deadline_ms + LONG_MS)] {
        loop {
            let unfinished = audit::unfinished(world, kind);
            if unfinished.is_empty() {
                break;
            }
            if world.now_ms() > deadline_ms {
                let unfinished = unfinished.join(", ");
                world.fail(format!("does not finish although nothing fails any more: {unfinished}"));
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    join(world, waiters).await;
}

async fn join(world: &World, tasks: Vec<Task>) {
    for task in tasks {
        if let Err(error) = task.await {
            world.fail(format!("a client's task ended early: {error}"));
        }
    }
}

fn by_instance(workload: Workload) -> BTreeMap<String, Vec<Call>> {
    let mut calls: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    for call in workload.calls {
        calls.entry(call.instance.clone()).or_default().push(call);
    }
    calls
}

/// Silences the panics that programs ask for and remembers the others, for the report.
fn hear_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            if text.is_some_and(|text| text.contains(PANIC_MARK)) {
                return;
            }
            UNEXPECTED_PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
        }));
    });
}
