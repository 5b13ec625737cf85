//! A small workload for a process that is ended at one of its commits: one life of it, and the audit afterwards. Any
//! store.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};

use crate::audit::audit;

/// What the children write down outside the store.
const ACKNOWLEDGED: &str = "acknowledged";
const REPEATED: &str = "repeated";
/// The workload, with what it gives.
const WORKLOAD: [(&str, &str, &str); 5] = [
    ("chain", "Chain", "x.."),
    ("timer", "Timer", "timer"),
    ("parent", "Parent", "child."),
    ("eternal", "Eternal", "3"),
    ("waits", "Waits", "first second"),
];
const EVENTS: [&str; 2] = ["first", "second"];
/// Long enough for everything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn write_down(directory: &Path, file: &str, line: &str) {
    let mut file =
        OpenOptions::new().create(true).append(true).open(directory.join(file)).expect("the log opens");
    writeln!(file, "{line}").expect("the log takes a line");
}

fn read_back(directory: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join(file)).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

fn activities(directory: &Path) -> ActivityRegistry {
    let directory = directory.to_path_buf();
    ActivityRegistry::builder()
        .register("Step", move |ctx: ActivityContext, input: String| {
            let directory = directory.clone();
            async move {
                let client = ctx.get_client();
                let history = client.read_execution_history(ctx.instance_id(), ctx.execution_id()).await;
                let is_result = |event: &duroxide::Event| {
                    event.source_event_id == Some(ctx.activity_id())
                        && matches!(event.kind, EventKind::ActivityCompleted { .. })
                };
                if history.is_ok_and(|history| history.iter().any(is_result)) {
                    write_down(&directory, REPEATED, &ctx.idempotency_key());
                }
                Ok(format!("{input}."))
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Chain", |ctx: OrchestrationContext, _input: String| async move {
            let once = ctx.schedule_activity("Step", "x").await?;
            ctx.schedule_activity("Step", once).await
        })
        .register("Timer", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_timer(Duration::from_millis(20)).await;
            Ok("timer".to_string())
        })
        .register("Parent", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_sub_orchestration("Child", "child").await
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Step", input).await
        })
        .register("Eternal", |ctx: OrchestrationContext, input: String| async move {
            let round: u32 = input.parse().unwrap_or(1);
            if round == 3 {
                return Ok(round.to_string());
            }
            ctx.continue_as_new((round + 1).to_string()).await
        })
        .register("Waits", |ctx: OrchestrationContext, _input: String| async move {
            let first = ctx.dequeue_event("q").await;
            Ok(format!("{first} {}", ctx.dequeue_event("q").await))
        })
        .build()
}

fn options() -> RuntimeOptions {
    let (lock, buffer) = (Duration::from_millis(200), Duration::from_millis(100));
    RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: buffer,
        worker_lock_timeout: lock,
        worker_lock_renewal_buffer: buffer,
        ..RuntimeOptions::default()
    }
}

/// One life: does what has not been acknowledged, and waits until all has ended.
pub(crate) async fn live(provider: Arc<dyn Provider>, directory: &Path) {
    let client = Client::new(provider.clone());
    let runtime =
        Runtime::start_with_options(provider, activities(directory), orchestrations(), options()).await;
    let done = read_back(directory, ACKNOWLEDGED);
    for (instance, name, _) in WORKLOAD {
        if !done.iter().any(|line| line == instance) {
            client.start_orchestration(instance, name, "1").await.expect("start");
            write_down(directory, ACKNOWLEDGED, instance);
        }
        // One after the other, so that few calls share a commit and there are many points to crash at.
        if instance != "waits" {
            client.wait_for_orchestration(instance, PATIENCE).await.expect("it ends");
        }
    }
    for data in EVENTS {
        if !done.iter().any(|line| line == data) {
            client.enqueue_event("waits", "q", data).await.expect("enqueue");
            write_down(directory, ACKNOWLEDGED, data);
        }
    }
    client.wait_for_orchestration("waits", PATIENCE).await.expect("it ends");
    runtime.shutdown(None).await;
}

/// Nothing acknowledged is missing, all ended as it must, and nothing ran again whose result was stored.
pub(crate) async fn check_all(client: &Client, directory: &Path, site: &str) {
    for (instance, _, expected) in WORKLOAD {
        check(client, instance, expected, site).await;
    }
    let repeated = read_back(directory, REPEATED);
    assert!(repeated.is_empty(), "{site}: ran again although their results were stored: {repeated:?}");
}

async fn check(client: &Client, instance: &str, expected: &str, site: &str) {
    let status = client.get_orchestration_status(instance).await.expect("the status can be read");
    let OrchestrationStatus::Completed { output, .. } = status else {
        panic!("{site}: {instance}: {status:?}")
    };
    // An event whose acknowledgement the crash swallowed was sent twice: the client cannot know.
    let twice = instance == "waits" && output == "first first";
    assert!(output == expected || twice, "{site}: {instance}: {output}");
    for execution in client.list_executions(instance).await.expect("the executions can be listed") {
        let history =
            client.read_execution_history(instance, execution).await.expect("the history can be read");
        audit(instance, &history);
    }
}
