//! Situations in which metrics are recorded.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::runtime::{
    HealthPolicy, ObservabilityConfig, OnNondeterminism, RetentionPolicy, Runtime, SweeperOptions,
};
use duroxide::{
    ActivityContext, BackoffStrategy, CapabilityRouting, Client, HealthOptions, OrchestrationContext,
    OrchestrationRegistryBuilder, RetryPolicy, RuntimeOptions,
};
use duroxide_core::ItemKind;

use crate::common::{Faulty, World, activities, options, orchestrations};
use crate::pinned::{begin, go, waits_on};

const SECOND: Duration = Duration::from_secs(1);

/// All of them, each in virtual time of its own; the one on a file in real time.
pub(crate) fn all() {
    in_virtual_time(lives_of_instances());
    in_virtual_time(missing_handlers());
    in_virtual_time(other_versions());
    in_virtual_time(changed_code());
    in_virtual_time(messages_without_effect());
    in_virtual_time(gauges_and_retention());
    in_virtual_time(work_that_no_node_can_do());
    in_virtual_time(repair());
    let real = tokio::runtime::Builder::new_current_thread().enable_all().build();
    real.expect("a runtime starts").block_on(on_a_file());
}

fn in_virtual_time(situation: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(situation);
}

/// `Flaky` fails at its first attempt.
pub(crate) fn flaky() -> ActivityRegistryBuilder {
    activities().register("Flaky", |ctx: ActivityContext, input: String| async move {
        tokio::time::sleep(SECOND).await;
        if ctx.attempt() == 1 { Err("not yet".to_string()) } else { Ok(input) }
    })
}

pub(crate) fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Retry", |ctx: OrchestrationContext, input: String| async move {
            let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
            let result = ctx.schedule_activity_with_retry("Flaky", input.clone(), policy).await?;
            if input == "again" { ctx.continue_as_new("last").await } else { Ok(result) }
        })
        .register("Fail", |_ctx: OrchestrationContext, _: String| async {
            Err::<String, _>("no".to_string())
        })
        .register("Call", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity(name, "").await
        })
        .register(
            "Wait",
            |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) },
        )
}

async fn start(world: &World, instance: &str, name: &str, input: &str) {
    world.client.start_orchestration(instance, name, input).await.expect("start");
}

async fn lives_of_instances() {
    let world = World::new();
    let runtime = world.start(flaky(), programs(), options()).await;
    start(&world, "retry", "Retry", "again").await;
    start(&world, "fail", "Fail", "").await;
    world.output("retry").await;
    world.failure("fail").await;
    runtime.shutdown(None).await;
}

/// An orchestration and an activity that no node has are given back, poisoned and redriven.
async fn missing_handlers() {
    let world = World::new();
    let few = RuntimeOptions { max_attempts: 2, ..options() };
    let runtime = world.start(activities(), programs(), few.clone()).await;
    start(&world, "orchestration", "nobody has it", "").await;
    start(&world, "activity", "Call", "Missing").await;
    world.failure("orchestration").await;
    world.failure("activity").await;
    runtime.shutdown(None).await;
    world.client.redrive("activity").await.expect("poisoned work can be redriven");
}

/// An execution of another version: given back by a node whose store does not filter, counted by one that does.
async fn other_versions() {
    let world = World::with(Faulty::ignoring_filter);
    begin(&world, "later", "99.0.0").await;
    let runtime = world.start(activities(), waits_on("here"), options()).await;
    go(&world, "later").await;
    world.failure("later").await;
    runtime.shutdown(None).await;
}

async fn changed_code() {
    let world = World::new();
    let runtime = world.start(activities(), programs(), options()).await;
    start(&world, "i", "Wait", "").await;
    tokio::time::sleep(SECOND).await;
    runtime.shutdown(None).await;
    let changed = orchestrations().register("Wait", |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Another", "").await
    });
    let handing_back = RuntimeOptions {
        max_attempts: 2,
        on_nondeterminism: OnNondeterminism::HandBack,
        process: ProcessScope::simulated(2),
        ..options()
    };
    let runtime = world.start(activities(), changed, handing_back).await;
    world.client.raise_event("i", "go", "").await.expect("raise");
    world.failure("i").await;
    runtime.shutdown(None).await;
}

async fn messages_without_effect() {
    let world = World::new();
    world.client.cancel_instance("nobody", "enough").await.expect("accepted");
    start(&world, "w", "Wait", "").await;
    world.client.raise_event("w", "go", "").await.expect("raise");
    assert_eq!(world.memory.corrupt_messages("w", ItemKind::Event), 1);
    let runtime = world.start(activities(), programs(), options()).await;
    tokio::time::sleep(SECOND).await;
    world.client.raise_event("w", "go", "").await.expect("raise");
    world.output("w").await;
    runtime.shutdown(None).await;
}

async fn gauges_and_retention() {
    let world = World::new();
    begin(&world, "later", "99.0.0").await;
    go(&world, "later").await;
    let keeping_little = RuntimeOptions {
        observability: ObservabilityConfig { gauge_poll_interval: SECOND, ..Default::default() },
        retention: Some(RetentionPolicy {
            finished_older_than: Some(SECOND),
            keep_executions: Some(1),
            interval: SECOND,
        }),
        health: Some(HealthPolicy { interval: SECOND, ..Default::default() }),
        ..options()
    };
    let runtime = world.start(flaky(), programs(), keeping_little).await;
    start(&world, "retry", "Retry", "again").await;
    world.output("retry").await;
    tokio::time::sleep(10 * SECOND).await;
    runtime.shutdown(None).await;
}

async fn work_that_no_node_can_do() {
    let world = World::new();
    let sweeping = RuntimeOptions {
        capability_routing: CapabilityRouting::Handlers,
        sweeper: Some(SweeperOptions { interval: SECOND, ..SweeperOptions::default() }),
        ..options()
    };
    let runtime = world.start(activities(), programs(), sweeping).await;
    start(&world, "orchestration", "nobody has it", "").await;
    start(&world, "activity", "Call", "Missing").await;
    tokio::time::sleep(60 * SECOND).await;
    runtime.shutdown(None).await;
}

/// The work item of an activity is removed behind the runtime's back, and put back.
async fn repair() {
    let world = World::new();
    let turns_only = RuntimeOptions { worker_tag_filter: TagFilter::none(), ..options() };
    let runtime = world.start(flaky(), programs(), turns_only).await;
    start(&world, "i", "Call", "Flaky").await;
    tokio::time::sleep(SECOND).await;
    let fetched = world.memory.fetch_work_item(SECOND, Duration::ZERO, None, &TagFilter::any()).await;
    let (_, token, _) = fetched.expect("fetch").expect("the activity waits");
    world.memory.ack_work_item(&token, None).await.expect("removed");
    let soon = HealthOptions { overdue_after: SECOND, ..HealthOptions::default() };
    tokio::time::sleep(60 * SECOND).await;
    let report = world.client.health_with(&soon).await.expect("checked");
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(world.client.repair("i").await.expect("repaired"), 1);
    runtime.shutdown(None).await;
}

async fn on_a_file() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store: Arc<dyn Provider> = Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"));
    let client = Client::new(store.clone());
    let runtime = Runtime::start_with_store(store, flaky().build(), programs().build()).await;
    client.start_orchestration("i", "Retry", "last").await.expect("start");
    client.wait_for_orchestration("i", 60 * SECOND).await.expect("it ends");
    runtime.shutdown(None).await;
}
