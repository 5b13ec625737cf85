//! Activities that block their thread, beside ordinary work on a SQLite file: each costs its own slot and nothing else.

#![cfg(feature = "sqlite")]

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};
use tokio::sync::watch;

/// Far more than a node here has worker threads.
const BLOCKING: usize = 8;
const PATIENCE: Duration = Duration::from_secs(30);
const LOCK: Duration = Duration::from_secs(1);
/// Longer than a lock lives without renewals, in timers of a tenth of a second.
const CHAIN_STEPS: usize = 25;
/// What ordinary steps may take beside their timers, all together.
const CHAIN_SLACK: Duration = Duration::from_secs(3);

/// Blocks whole threads until it is opened.
#[derive(Clone)]
struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
    /// How many threads have come to it, and how many have left it.
    arrived: watch::Sender<usize>,
    left: watch::Sender<usize>,
}

impl Gate {
    fn new() -> Self {
        Self { open: Arc::default(), arrived: watch::Sender::new(0), left: watch::Sender::new(0) }
    }

    fn block(&self) {
        self.arrived.send_modify(|arrived| *arrived += 1);
        let (open, opened) = &*self.open;
        let open = open.lock().expect("no holder panics");
        drop(opened.wait_while(open, |open| !*open).expect("no holder panics"));
        self.left.send_modify(|left| *left += 1);
    }

    fn open(&self) {
        *self.open.0.lock().expect("no holder panics") = true;
        self.open.1.notify_all();
    }

    fn arrived(&self) -> usize {
        *self.arrived.borrow()
    }
}

async fn wait_for(counter: &watch::Sender<usize>, count: usize) {
    let mut counted = counter.subscribe();
    let reached = tokio::time::timeout(PATIENCE, counted.wait_for(|counted| *counted >= count)).await;
    reached.unwrap_or_else(|_| panic!("only {} of {count} came", *counter.borrow())).expect("it is there");
}

/// A node on a tokio runtime of its own with two workers, as a process of its own would have it.
struct OwnNode {
    tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    gate: Gate,
    /// How many values of aborted activities were dropped in tokio's context.
    dropped: watch::Sender<usize>,
    client: Client,
    _directory: tempfile::TempDir,
}

impl OwnNode {
    async fn start(process: u64, worker_concurrency: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("store.db").display());
        let store = Arc::new(SqliteProvider::new(&url, None).await.expect("a store"));
        let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let tokio = workers.expect("a runtime");
        let (gate, dropped) = (Gate::new(), watch::Sender::new(0));
        let client = Client::new(store.clone());
        let options = RuntimeOptions {
            process: ProcessScope::simulated(process),
            worker_concurrency,
            worker_lock_timeout: LOCK,
            worker_lock_renewal_buffer: LOCK / 2,
            activity_cancellation_grace_period: Duration::from_millis(10),
            ..RuntimeOptions::default()
        };
        let started =
            Runtime::start_with_options(store, activities(&gate, &dropped), orchestrations(), options);
        let runtime = tokio.spawn(started).await.expect("it starts");
        Self { tokio, runtime, gate, dropped, client, _directory: directory }
    }

    async fn begin(&self, orchestration: &str, count: usize) {
        for number in 0..count {
            let id = format!("{orchestration}-{number}");
            self.client.start_orchestration(id, orchestration, "fine").await.expect("start");
        }
    }

    async fn output(&self, id: &str) -> Result<String, String> {
        match self.client.wait_for_orchestration(id, PATIENCE).await.expect("it ends") {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other @ (OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {
                panic!("{id}: {other:?}")
            }
        }
    }

    async fn stop(self) {
        self.runtime.shutdown(Some(100)).await;
        self.tokio.shutdown_background();
    }
}

/// Counts how often a value is dropped where tokio's context is.
struct Dropped(watch::Sender<usize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.0.send_modify(|dropped| *dropped += 1);
        }
    }
}

fn activities(gate: &Gate, dropped: &watch::Sender<usize>) -> ActivityRegistry {
    let (gate, dropped) = (gate.clone(), dropped.clone());
    ActivityRegistry::builder()
        .register("Block", move |_ctx: ActivityContext, input: String| {
            let gate = gate.clone();
            async move {
                gate.block();
                Ok(input)
            }
        })
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
        .register("UseTokio", |_ctx: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let input = tokio::spawn(async move { input }).await.map_err(|error| error.to_string())?;
            let upper = tokio::task::spawn_blocking(move || input.to_uppercase());
            upper.await.map_err(|error| error.to_string())
        })
        .register("Forever", move |_ctx: ActivityContext, _input: String| {
            let dropped = Dropped(dropped.clone());
            async move {
                let _held_while_it_waits = dropped;
                std::future::pending().await
            }
        })
        .register("Panic", |_ctx: ActivityContext, _input: String| async move { panic!("on purpose") })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Blocking", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Block", input).await
        })
        .register("Chain", |ctx: OrchestrationContext, input: String| async move {
            let mut last = input;
            for _ in 0..CHAIN_STEPS {
                ctx.schedule_timer(Duration::from_millis(100)).await;
                last = ctx.schedule_activity("Echo", last).await?;
            }
            Ok(last)
        })
        .register("Overdue", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Block", input).with_start_to_close(Duration::from_millis(50)).await
        })
        .register("Timers", |ctx: OrchestrationContext, input: String| async move {
            for _ in 0..5 {
                ctx.schedule_timer(Duration::from_millis(100)).await;
            }
            Ok(input)
        })
        .register("Waiting", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Forever", input).await
        })
        .register("Aborted", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Forever", input).with_start_to_close(Duration::from_millis(50)).await
        })
        .register("UsesTokio", |ctx: OrchestrationContext, input: String| async move {
            let upper = ctx.schedule_activity("UseTokio", input).await?;
            let failed = ctx.schedule_activity("Panic", "").await.expect_err("it panics");
            Ok(format!("{upper}, {failed}"))
        })
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_that_block_cost_their_own_slots_only() {
    let node = OwnNode::start(1, 512).await;
    node.begin("Blocking", BLOCKING).await;
    wait_for(&node.gate.arrived, BLOCKING).await;
    let begun = Instant::now();
    node.begin("Chain", 3).await;
    for number in 0..3 {
        assert_eq!(node.output(&format!("Chain-{number}")).await.as_deref(), Ok("fine"));
    }
    let timers = Duration::from_millis(100) * u32::try_from(CHAIN_STEPS).expect("small");
    let took = begun.elapsed();
    assert!(took < timers + CHAIN_SLACK, "{CHAIN_STEPS} steps took {took:?}");
    // Their locks have been renewed: none has begun again.
    assert!(took > LOCK * 2, "{took:?}");
    assert_eq!(node.gate.arrived(), BLOCKING);
    node.gate.open();
    for number in 0..BLOCKING {
        assert_eq!(node.output(&format!("Blocking-{number}")).await.as_deref(), Ok("fine"));
    }
    assert_eq!(node.gate.arrived(), BLOCKING, "each has run once");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_activity_that_is_overdue_fails_in_time_and_gives_its_slot_up() {
    let node = OwnNode::start(2, 2).await;
    node.begin("Overdue", 6).await;
    for number in 0..6 {
        let failed = node.output(&format!("Overdue-{number}")).await.expect_err("it has a deadline");
        assert!(failed.contains("50"), "{failed}");
    }
    assert_eq!(node.gate.arrived(), 6, "all of them block, more than there are slots");
    node.begin("UsesTokio", 1).await;
    assert_eq!(
        node.output("UsesTokio-0").await.as_deref(),
        Ok("FINE, activity panicked: on purpose"),
        "timers, tasks and blocking threads of tokio are there, and panics are failures"
    );
    node.gate.open();
    wait_for(&node.gate.left, 6).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_is_aborted_is_dropped_with_the_context_of_tokio() {
    let node = OwnNode::start(3, 2).await;
    node.begin("Aborted", 4).await;
    wait_for(&node.dropped, 4).await;
    for number in 0..4 {
        node.output(&format!("Aborted-{number}")).await.expect_err("it has a deadline");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_beside_blocking_activities_returns_and_gives_the_others_back() {
    let node = OwnNode::start(4, 512).await;
    node.begin("Waiting", 4).await;
    node.begin("Blocking", BLOCKING).await;
    wait_for(&node.gate.arrived, BLOCKING).await;
    let begun = Instant::now();
    node.runtime.clone().shutdown(Some(100)).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(100 + 1500) + CHAIN_SLACK, "{took:?}");
    wait_for(&node.dropped, 4).await;
    node.gate.open();
    wait_for(&node.gate.left, BLOCKING).await;
    node.tokio.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_a_limit_handlers_that_block_keep_their_slots() {
    const SLOTS: usize = 4;
    const LEFT: usize = 256;
    let node = OwnNode::start(5, SLOTS).await;
    node.begin("Overdue", LEFT + SLOTS + 6).await;
    wait_for(&node.gate.arrived, LEFT + SLOTS).await;
    // Turns go on, and for all that time nothing else begins.
    node.begin("Timers", 1).await;
    assert_eq!(node.output("Timers-0").await.as_deref(), Ok("fine"));
    assert_eq!(node.gate.arrived(), LEFT + SLOTS);
    node.gate.open();
    for number in 0..LEFT + SLOTS + 6 {
        // Those that begin last find the gate open.
        drop(node.output(&format!("Overdue-{number}")).await);
    }
    wait_for(&node.gate.left, LEFT + SLOTS + 6).await;
    node.stop().await;
}
