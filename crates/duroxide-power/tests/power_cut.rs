//! What a power cut leaves of a store: with `Synchronous::Full` everything that was acknowledged, with `Normal` not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider, Synchronous};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Event, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};
use duroxide_power::{Keep, cut, install};

const LONG: Duration = Duration::from_secs(60);
const INSTANCES: usize = 40;

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Step", |_ctx: ActivityContext, input: String| async move { Ok(format!("{input}.")) })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Steps", |ctx: OrchestrationContext, input: String| async move {
            let once = ctx.schedule_activity("Step", input).await?;
            let go = ctx.schedule_wait("go").await;
            ctx.schedule_activity("Step", once + &go).await
        })
        .build()
}

async fn open(path: &Path, synchronous: Synchronous) -> Arc<SqliteProvider> {
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let store = SqliteProvider::new(&format!("sqlite:{}", path.display()), Some(options)).await;
    Arc::new(store.expect("the file opens"))
}

/// A runtime whose locks expire soon, so that what it held at a cut is free again soon.
async fn start(store: Arc<SqliteProvider>) -> Arc<Runtime> {
    let (lock, buffer) = (Duration::from_millis(300), Duration::from_millis(150));
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: buffer,
        worker_lock_timeout: lock,
        worker_lock_renewal_buffer: buffer,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(store, activities(), orchestrations(), options).await
}

/// What was acknowledged so far.
#[derive(Default)]
struct Acknowledged {
    started: Vec<String>,
    raised: Vec<String>,
    ended: Vec<(String, Vec<Event>)>,
}

/// How much of what was acknowledged a power cut now would lose. What is left goes on and ends.
async fn lost_by_a_cut(path: &Path, acknowledged: &Acknowledged, keep: Keep, patience: Duration) -> usize {
    let directory = tempfile::tempdir().expect("a directory");
    let after = directory.path().join("after.db");
    cut(path, &after, keep).expect("the files can be copied");
    let store = open(&after, Synchronous::Full).await;
    let client = Client::new(store.clone());
    let mut lost = 0;
    for (instance, history) in &acknowledged.ended {
        let stored = client.read_execution_history(instance, 1).await.unwrap_or_default();
        lost += usize::from(stored != *history);
    }
    let runtime = start(store).await;
    for instance in &acknowledged.started {
        if client.get_orchestration_status(instance).await.expect("status") == OrchestrationStatus::NotFound {
            lost += 1;
        }
    }
    if lost == 0 {
        for instance in &acknowledged.raised {
            let ended = client.wait_for_orchestration(instance, patience).await;
            if !matches!(ended, Ok(OrchestrationStatus::Completed { .. })) {
                lost += 1;
                break;
            }
        }
    }
    runtime.shutdown(None).await;
    lost
}

/// Runs the workload, cuts the power after every few acknowledgements, and counts what is lost.
async fn run(synchronous: Synchronous, patience: Duration) -> usize {
    install();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.db");
    let store = open(&path, synchronous).await;
    let client = Client::new(store.clone());
    let runtime = start(store).await;
    let mut acknowledged = Acknowledged::default();
    let mut lost = 0;
    for n in 0..INSTANCES {
        let instance = format!("i{n}");
        client.start_orchestration(&instance, "Steps", "x").await.expect("start");
        acknowledged.started.push(instance.clone());
        client.raise_event(&instance, "go", "!").await.expect("raise");
        acknowledged.raised.push(instance.clone());
        if n % 4 == 3 {
            let early = format!("i{}", n - 3);
            client.wait_for_orchestration(&early, LONG).await.expect("it ends");
            let history = client.read_execution_history(&early, 1).await.expect("history");
            acknowledged.ended.push((early, history));
            let seed = u64::try_from(n).expect("small");
            let keep = if n % 8 == 3 { Keep::Nothing } else { Keep::Some(seed) };
            lost += lost_by_a_cut(&path, &acknowledged, keep, patience).await;
            if lost > 0 {
                break;
            }
        }
    }
    runtime.shutdown(None).await;
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn with_full_nothing_acknowledged_is_lost_by_a_power_cut() {
    assert_eq!(run(Synchronous::Full, LONG).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_normal_a_power_cut_loses_what_was_acknowledged() {
    assert!(
        run(Synchronous::Normal, Duration::from_secs(2)).await > 0,
        "otherwise the test above would show nothing"
    );
}
