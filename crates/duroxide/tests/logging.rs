//! What reaches the log. A process has one log, so this is one test in a program of its own.
#![cfg(feature = "sqlite")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

/// Stands in every payload and nowhere else.
const SECRET: &str = "hunter2-in-every-payload";
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |ctx: ActivityContext, input: String| async move {
            ctx.trace_info("echoing");
            Ok(input)
        })
        .register("Fail", |_ctx: ActivityContext, input: String| async move { Err::<String, _>(input) })
        .register("Panic", |_ctx: ActivityContext, input: String| async move {
            std::panic::resume_unwind(Box::new(input))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("All", |ctx: OrchestrationContext, input: String| async move {
            ctx.trace_info("begun");
            let event = ctx.schedule_wait("event").await;
            let message = ctx.dequeue_event("queue").await;
            let echoed = ctx.schedule_activity("Echo", event + &message + &input).await?;
            let failed = ctx.schedule_activity("Fail", SECRET).await;
            let panicked = ctx.schedule_activity("Panic", SECRET).await;
            let undecodable = ctx.schedule_activity_typed::<_, u64>("Echo", &SECRET).await;
            let child = ctx.schedule_sub_orchestration("Fail", SECRET).await;
            assert!(failed.is_err() && panicked.is_err() && undecodable.is_err() && child.is_err());
            ctx.continue_as_new_versioned("2.0.0", echoed).await
        })
        .register_versioned(
            "All",
            "2.0.0",
            |_ctx: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("Fail", |_ctx: OrchestrationContext, input: String| async move { Err::<String, _>(input) })
        .register("Panic", |_ctx: OrchestrationContext, input: String| async move {
            std::panic::resume_unwind(Box::new(input))
        })
        .register("Unregistered", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("nobody has it", input).await
        })
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("never").await)
        })
        .build()
}

async fn run_on(store: Arc<dyn Provider>) {
    let backoff = Duration::from_millis(1);
    let options = RuntimeOptions {
        max_attempts: 2,
        unregistered_backoff: UnregisteredBackoffConfig { base_delay: backoff, max_delay: backoff },
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities(), orchestrations(), options).await;
    let client = Client::new(store);
    client.start_orchestration_versioned("all", "All", "1.0.0", SECRET).await.expect("start");
    client.raise_event("all", "event", SECRET).await.expect("raise");
    client.enqueue_event("all", "queue", SECRET).await.expect("enqueue");
    // Nobody has it, so that it is poisoned with its messages.
    for name in ["Fail", "Panic", "Unregistered", "nobody has it", "Wait"] {
        client.start_orchestration(name, name, SECRET).await.expect("start");
        client.raise_event(name, "event", SECRET).await.expect("raise");
    }
    client.cancel_instance("Wait", SECRET).await.expect("cancel");
    for id in ["all", "Fail", "Panic", "Unregistered", "nobody has it", "Wait"] {
        let ended = client.wait_for_orchestration(id, PATIENCE).await.expect("it ends");
        assert_eq!(format!("{ended:?}").contains("Completed"), id == "all", "{id}: {ended:?}");
    }
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn no_payload_is_logged_and_no_subscriber_is_installed_by_a_runtime() {
    run_on(Arc::new(MemoryProvider::new())).await;
    assert!(!tracing::dispatcher::has_been_set(), "a runtime installed a subscriber");
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .try_init()
        .expect("nobody has installed one");
    run_on(Arc::new(MemoryProvider::new())).await;
    run_on(Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory opens"))).await;
    let text = log.text();
    for expected in ["runtime started", "begun", "echoing", "not registered"] {
        assert!(text.contains(expected), "'{expected}' is logged:\n{text}");
    }
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "payloads in the log:\n{}", leaks.join("\n"));
}
