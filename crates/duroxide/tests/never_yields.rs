//! Orchestrations that never yield, beside healthy ones on a SQLite file: they keep threads and end as poison, and no
//! node stops.

#![cfg(feature = "sqlite")]

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};
use tokio::sync::watch;

/// More than a node here has worker threads.
const HUNG: usize = 5;
const HEALTHY: usize = 200;
const MAX_ATTEMPTS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that was logged, on all threads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn install() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let level = tracing::Level::WARN;
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    }

    fn lines_with(&self, parts: &[&str]) -> Vec<String> {
        let text =
            String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("logs are text");
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).map(str::to_string).collect()
    }
}

/// Blocks whole threads until it is opened.
#[derive(Clone)]
struct Gate {
    closed: Arc<Mutex<mpsc::Receiver<()>>>,
    /// How many threads have come to it.
    arrived: watch::Sender<usize>,
}

impl Gate {
    fn new() -> (Self, mpsc::Sender<()>) {
        let (open, closed) = mpsc::channel();
        (Self { closed: Arc::new(Mutex::new(closed)), arrived: watch::Sender::new(0) }, open)
    }

    fn block(&self) {
        self.arrived.send_modify(|arrived| *arrived += 1);
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(closed.recv().is_err(), "nothing is sent: it is opened by dropping the sender");
    }

    async fn wait_for(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let all = tokio::time::timeout(PATIENCE, arrived.wait_for(|arrived| *arrived >= count)).await;
        all.unwrap_or_else(|_| panic!("only {} turns have begun", *self.arrived.borrow()))
            .expect("it is there");
    }
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        max_attempts: MAX_ATTEMPTS,
        max_turn_time: Duration::from_millis(500),
        orchestrator_lock_timeout: Duration::from_millis(1000),
        orchestrator_lock_renewal_buffer: Duration::from_millis(500),
        ..RuntimeOptions::default()
    }
}

/// A node, as a process of its own would have it.
struct OwnNode {
    tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
}

impl OwnNode {
    async fn start(number: u64, store: Arc<SqliteProvider>, gate: &Gate) -> Self {
        let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let tokio = workers.expect("a runtime");
        let gate = gate.clone();
        let orchestrations = OrchestrationRegistry::builder()
            .register("NeverYields", move |_ctx: OrchestrationContext, _input: String| {
                let gate = gate.clone();
                async move {
                    gate.block();
                    Ok("late".to_string())
                }
            })
            .register("Healthy", |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("Echo", input).await
            })
            .build();
        let activities = ActivityRegistry::builder()
            .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
            .build();
        let options = RuntimeOptions { process: ProcessScope::simulated(number), ..options() };
        let started = Runtime::start_with_options(store, activities, orchestrations, options);
        let runtime = tokio.spawn(started).await.expect("it starts");
        Self { tokio, runtime }
    }

    async fn stop(self) {
        self.runtime.shutdown(Some(100)).await;
        self.tokio.shutdown_background();
    }
}

async fn run_healthy(client: &Client, prefix: &str) {
    for number in 0..HEALTHY {
        let id = format!("{prefix}-{number}");
        client.start_orchestration(&id, "Healthy", "fine").await.expect("start");
    }
    for number in 0..HEALTHY {
        let id = format!("{prefix}-{number}");
        let ended = client.wait_for_orchestration(&id, PATIENCE).await.expect("it ends");
        assert!(
            matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "fine"),
            "{ended:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_that_never_yield_stop_no_node_and_end_as_poison() {
    let log = Log::install();
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = Arc::new(SqliteProvider::new(&url, None).await.expect("a store"));
    let client = Client::new(store.clone());
    let (gate, open) = Gate::new();
    let first = OwnNode::start(1, store.clone(), &gate).await;
    for number in 0..HUNG {
        client.start_orchestration(format!("hung-{number}"), "NeverYields", "").await.expect("start");
    }
    gate.wait_for(HUNG).await;
    run_healthy(&client, "beside").await;
    // The second node takes over what the first one has given up.
    let second = OwnNode::start(2, store.clone(), &gate).await;
    for number in 0..HUNG {
        let id = format!("hung-{number}");
        let ended = client.wait_for_orchestration(&id, PATIENCE).await.expect("it ends");
        let OrchestrationStatus::Failed { details, .. } = ended else { panic!("{id}: {ended:?}") };
        assert!(
            matches!(details, ErrorDetails::Poison { attempt_count, .. } if attempt_count > MAX_ATTEMPTS)
        );
        let instance = format!("instance_id={id}");
        let reports =
            log.lines_with(&["ERROR", &instance, "orchestration_name=NeverYields", "does not yield"]);
        assert_eq!(reports.len(), usize::try_from(MAX_ATTEMPTS).expect("small"), "{reports:#?}");
    }
    let healthy = log.lines_with(&["orchestration_name=Healthy", "does not yield"]);
    assert!(healthy.is_empty(), "{healthy:#?}");
    first.stop().await;
    run_healthy(&client, "second node").await;
    second.stop().await;
    // What comes back late changes nothing: its lock is gone.
    drop(open);
    let late = client.get_orchestration_status("hung-0").await.expect("status");
    assert!(matches!(late, OrchestrationStatus::Failed { .. }), "{late:?}");
}
