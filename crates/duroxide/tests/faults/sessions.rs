//! Activities of one session run with one owner, and never with two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{ActivityContext, RuntimeOptions};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::common::{Faulty, World, activities, options, orchestrations};

pub(super) const SESSION_LOCK: Duration = Duration::from_secs(30);
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// One run of an activity.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) node: String,
    pub(super) session: String,
    id: u64,
    pub(super) begun: Instant,
    ended: Option<Instant>,
}

/// All runs, in the order in which they began.
#[derive(Default)]
pub(super) struct Log {
    runs: Mutex<Vec<Run>>,
    changed: Notify,
}

impl Log {
    pub(super) fn runs(&self) -> Vec<Run> {
        self.runs.lock().expect("no test panics under it").clone()
    }

    fn begin(&self, ctx: &ActivityContext) -> usize {
        let mut runs = self.runs.lock().expect("no test panics under it");
        runs.push(Run {
            node: ctx.worker_id().to_string(),
            session: ctx.session_id().unwrap_or_default().to_string(),
            id: ctx.activity_id(),
            begun: Instant::now(),
            ended: None,
        });
        self.changed.notify_waiters();
        runs.len() - 1
    }

    fn end(&self, run: usize) {
        let mut runs = self.runs.lock().expect("no test panics under it");
        runs.get_mut(run).expect("it began").ended = Some(Instant::now());
        self.changed.notify_waiters();
    }

    /// The runs, once as many as asked for are as asked for.
    async fn when(&self, count: usize, is: impl Fn(&Run) -> bool) -> Vec<Run> {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                let runs = self.runs();
                if runs.iter().filter(|run| is(run)).count() >= count {
                    return runs;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(3600), wait).await;
        waited.unwrap_or_else(|_| panic!("not within an hour: {:?}", self.runs()))
    }

    pub(super) async fn ended(&self, count: usize) -> Vec<Run> {
        self.when(count, |run| run.ended.is_some()).await
    }

    pub(super) async fn begun(&self, count: usize) -> Vec<Run> {
        self.when(count, |_| true).await
    }
}

/// The most runs of one session, and of all, that overlapped.
pub(super) fn most_at_once(runs: &[Run], of: impl Fn(&Run) -> bool) -> usize {
    let runs: Vec<&Run> = runs.iter().filter(|run| of(run)).collect();
    let at_begin = |one: &Run| {
        let overlaps =
            |other: &&&Run| other.begun <= one.begun && other.ended.is_none_or(|ended| ended > one.begun);
        runs.iter().filter(overlaps).count()
    };
    runs.iter().map(|run| at_begin(run)).max().unwrap_or(0)
}

/// An activity that is logged and takes as many milliseconds as its input says.
pub(super) fn logged(log: &Arc<Log>) -> ActivityRegistryBuilder {
    let log = log.clone();
    activities().register("Work", move |ctx: ActivityContext, input: String| {
        let log = log.clone();
        async move {
            let run = log.begin(&ctx);
            let time = Duration::from_millis(input.parse().expect("a number"));
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = ctx.cancelled() => {}
            }
            log.end(run);
            Ok(ctx.worker_id().to_string())
        }
    })
}

pub(super) async fn queue(store: &dyn Provider, id: u64, session: &str, ms: u64) {
    let item = WorkItem::ActivityExecute {
        instance: "instance".to_string(),
        execution_id: 1,
        id,
        name: "Work".to_string(),
        input: ms.to_string(),
        session_id: (!session.is_empty()).then(|| session.to_string()),
        tag: None,
    };
    store.enqueue_for_worker(item).await.expect("queued");
}

pub(super) fn node(seed: u64) -> RuntimeOptions {
    RuntimeOptions { process: ProcessScope::simulated(seed), ..options() }
}

pub(super) fn named(name: &str, seed: u64) -> RuntimeOptions {
    RuntimeOptions { worker_node_id: Some(name.to_string()), ..node(seed) }
}

pub(super) async fn start(world: &World, log: &Arc<Log>, options: RuntimeOptions) -> Arc<Runtime> {
    world.start(logged(log), orchestrations(), options).await
}

#[tokio::test(start_paused = true)]
async fn activities_of_one_session_run_on_one_worker_one_at_a_time() {
    for shape in [Faulty::plain as fn(Faulty) -> Faulty, |faulty| faulty] {
        let world = World::with(shape);
        let log = Arc::new(Log::default());
        for id in 0..30 {
            queue(&*world.store, id, ["s", "t", "u"][usize::try_from(id % 3).expect("small")], 500).await;
        }
        let nodes = [start(&world, &log, node(1)).await, start(&world, &log, node(2)).await];
        let runs = log.ended(30).await;
        let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for run in &runs {
            owners.entry(&run.session).or_default().push(&run.node);
        }
        for (session, mut nodes) in owners {
            nodes.dedup();
            assert_eq!(nodes.len(), 1, "session {session} ran on {nodes:?}");
            assert_eq!(most_at_once(&runs, |run| run.session == session), 1, "session {session}");
        }
        assert!(most_at_once(&runs, |_| true) >= 2, "different sessions run side by side");
        assert_eq!(runs.len(), 30, "nothing ran twice");
        for node in nodes {
            node.shutdown(None).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_node_id_the_activities_of_one_session_run_in_parallel() {
    let world = World::new();
    let log = Arc::new(Log::default());
    for id in 0..8 {
        queue(&*world.store, id, "s", 1000).await;
    }
    let nodes = [start(&world, &log, named("n1", 1)).await, start(&world, &log, named("n2", 2)).await];
    let runs = log.ended(8).await;
    assert_eq!(most_at_once(&runs, |_| true), 8);
    let owner = &runs.first().expect("eight").node;
    assert!(runs.iter().all(|run| run.node == *owner), "all on {owner}");
    for node in nodes {
        node.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_stays_with_its_worker_while_it_is_used_and_moves_when_it_idles() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let first = start(&world, &log, node(1)).await;
    queue(&*world.store, 0, "s", 10).await;
    let owner = log.ended(1).await.first().expect("one").node.clone();
    let second = start(&world, &log, node(2)).await;
    for id in 1..5 {
        tokio::time::sleep(IDLE - Duration::from_secs(10)).await;
        queue(&*world.store, id, "s", 10).await;
        let runs = log.ended(usize::try_from(id + 1).expect("small")).await;
        assert!(runs.iter().all(|run| run.node == owner), "used every {IDLE:?}, it stays: {runs:?}");
    }
    tokio::time::sleep(IDLE + SESSION_LOCK).await;
    // The claim has ended: whoever asks first may have it now. The first node is gone, but did not say so.
    first.kill();
    queue(&*world.store, 5, "s", 10).await;
    let begun = Instant::now();
    let runs = log.ended(6).await;
    assert_ne!(runs.last().expect("six").node, owner);
    assert!(begun.elapsed() < Duration::from_secs(1), "no claim had to be waited for");
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_crashed_workers_sessions_are_taken_over_when_its_claims_end() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let first = start(&world, &log, node(1)).await;
    queue(&*world.store, 0, "s", 1_000_000).await;
    queue(&*world.store, 1, "s", 10).await;
    log.begun(1).await;
    let second = start(&world, &log, node(2)).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(log.runs().len(), 1, "a live owner is not robbed");
    first.kill();
    let begun = Instant::now();
    let runs = log.begun(2).await;
    assert_ne!(runs.first().expect("one").node, runs.last().expect("two").node);
    assert!(begun.elapsed() <= SESSION_LOCK + Duration::from_secs(1), "took {:?}", begun.elapsed());
    second.shutdown(Some(0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_restarts_under_its_name_has_its_sessions_at_once() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let before = start(&world, &log, named("stable", 1)).await;
    queue(&*world.store, 0, "s", 10).await;
    log.ended(1).await;
    before.kill();
    let other = start(&world, &log, named("other", 2)).await;
    let after = start(&world, &log, named("stable", 3)).await;
    // Without work the new process keeps the claims of the old one alive.
    tokio::time::sleep(SESSION_LOCK * 3).await;
    queue(&*world.store, 1, "s", 10).await;
    let begun = Instant::now();
    let runs = log.ended(2).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "took {:?}", begun.elapsed());
    assert!(runs.iter().all(|run| run.node == "stable"), "{runs:?}");
    other.shutdown(None).await;
    after.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_shuts_down_leaves_its_sessions_to_others_at_once() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let first = start(&world, &log, node(1)).await;
    queue(&*world.store, 0, "s", 10).await;
    log.ended(1).await;
    first.shutdown(None).await;
    let second = start(&world, &log, node(2)).await;
    queue(&*world.store, 1, "s", 10).await;
    let begun = Instant::now();
    log.ended(2).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "took {:?}", begun.elapsed());
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_sessions_asks_nothing_about_them() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let runtime = start(&world, &log, node(1)).await;
    for id in 0..10 {
        queue(&*world.store, id, "", 10).await;
    }
    log.ended(10).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.store.calls("renew_session_lock"), 0);
    assert_eq!(world.store.calls("cleanup_orphaned_sessions"), 0);
    queue(&*world.store, 10, "s", 10).await;
    log.ended(11).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let renewals = world.store.calls("renew_session_lock");
    assert!((10..=16).contains(&renewals), "until it idled: {renewals}");
    assert!(world.store.calls("cleanup_orphaned_sessions") >= 1);
    assert!(world.memory.snapshot().sessions.is_empty(), "an orphan is removed");
    runtime.shutdown(None).await;
}

/// A node behind a link of its own to the shared store.
async fn behind_a_link(world: &World, log: &Arc<Log>, seed: u64) -> (Arc<Faulty>, Arc<Runtime>) {
    let link = Arc::new(Faulty::new(world.memory.clone()));
    let registry = logged(log).build();
    // A fetch that waits in the store when the link is cut ends before any lock does.
    let options = RuntimeOptions { dispatcher_long_poll_timeout: Duration::from_secs(1), ..node(seed) };
    let runtime =
        Runtime::start_with_options(link.clone(), registry, orchestrations().build(), options).await;
    (link, runtime)
}

/// Fault 19, sessions: the owner is cut off from the store while it runs an activity of its session.
#[tokio::test(start_paused = true)]
async fn two_processes_never_own_one_session_and_who_lost_it_does_not_commit() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let (link, first) = behind_a_link(&world, &log, 1).await;
    queue(&*world.memory, 0, "s", 1_000_000).await;
    queue(&*world.memory, 1, "s", 1000).await;
    log.begun(1).await;
    let second = start(&world, &log, node(2)).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    link.set_away(true);
    let runs = log.ended(2).await;
    // The cut-off node gave its activity up by its own clock before the store gave the session to another.
    assert!(most_at_once(&runs, |run| run.session == "s") == 1, "two owners at once: {runs:?}");
    link.set_away(false);
    let runs = log.when(1, |run| run.id == 0 && run.ended.is_none()).await;
    assert_ne!(runs.last().expect("some").node, runs.first().expect("some").node, "it runs again elsewhere");
    assert_eq!(world.client.get_queue_depths().await.expect("depths").worker_queue, 1, "no late commit");
    second.shutdown(Some(0)).await;
    first.shutdown(Some(0)).await;
}

/// Fault 19, locks: the same without a session.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_lock_expired_stops_and_does_not_commit() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let (link, first) = behind_a_link(&world, &log, 1).await;
    queue(&*world.memory, 0, "", 1_000_000).await;
    log.begun(1).await;
    let second = start(&world, &log, node(2)).await;
    link.set_away(true);
    let runs = log.begun(2).await;
    let (before, after) = (runs.first().expect("two"), runs.last().expect("two"));
    assert_ne!(before.node, after.node);
    let stopped = before.ended.expect("the holder stopped by its own clock");
    assert!(stopped <= after.begun, "before another began");
    link.set_away(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.runs().len(), 2, "the new holder is left alone");
    second.shutdown(Some(0)).await;
    first.shutdown(Some(0)).await;
}
