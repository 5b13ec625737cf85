//! A node with concurrency 0 for one kind of work runs the other kind only, and says so.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationStatus, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};

const ORCHESTRATOR: &str = "orchestrator";
const WORKER: &str = "worker";

fn only_orchestrations() -> RuntimeOptions {
    RuntimeOptions { worker_concurrency: 0, worker_node_id: Some(ORCHESTRATOR.to_string()), ..options() }
}

fn only_activities() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 0,
        worker_node_id: Some(WORKER.to_string()),
        process: ProcessScope::simulated(2),
        ..options()
    }
}

/// Every node has all handlers.
fn acts() -> ActivityRegistryBuilder {
    activities().register("Where", |ctx: ActivityContext, _input: String| async move {
        Ok(ctx.worker_id().to_string())
    })
}

fn orchs() -> OrchestrationRegistryBuilder {
    orchestrations().register("Flow", |ctx: OrchestrationContext, session: String| async move {
        let plain = ctx.schedule_activity("Where", "").await?;
        let of_session = ctx.schedule_activity_on_session("Where", "", session).await?;
        Ok(format!("{plain} {of_session}"))
    })
}

async fn start(store: &Arc<dyn Provider>, options: RuntimeOptions) -> Arc<Runtime> {
    Runtime::start_with_options(store.clone(), acts().build(), orchs().build(), options).await
}

async fn both_kinds_together(store: Arc<dyn Provider>) {
    let nodes = [start(&store, only_orchestrations()).await, start(&store, only_activities()).await];
    let client = Client::new(store);
    client.start_orchestration("i", "Flow", "s").await.expect("started");
    let ended = client.wait_for_orchestration("i", Duration::from_secs(60)).await.expect("waited");
    let OrchestrationStatus::Completed { output, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(output, format!("{WORKER} {WORKER}"));
    let counts = nodes.each_ref().map(|node| {
        let counted = node.metrics_snapshot().expect("counted");
        (counted.orch_dispatcher_items_fetched > 0, counted.worker_dispatcher_items_fetched)
    });
    assert_eq!(counts, [(true, 0), (false, 2)], "each fetched from its own queue");
    for node in nodes {
        node.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_with_concurrency_zero_runs_none_of_that_kind() {
    both_kinds_together(World::new().store).await;
}

#[tokio::test]
async fn a_node_with_concurrency_zero_runs_none_of_that_kind_on_a_file() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    both_kinds_together(Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_concurrency_zero_does_not_say_that_it_can_do_that_kind() {
    let world = World::new();
    let store: Arc<dyn Provider> = world.store.clone();
    let orchestrator = start(&store, only_orchestrations()).await;
    world.client.start_orchestration("i", "Flow", "s").await.expect("started");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let missing = async || -> Vec<String> {
        let found = world.client.find_unprocessable_work().await.expect("looked");
        found.iter().map(|work| format!("{}: {}", work.what, work.missing)).collect()
    };
    assert_eq!(missing().await, ["activity 'Where': no live node has the activity"]);
    orchestrator.shutdown(None).await;
    let worker = start(&store, only_activities()).await;
    world.client.start_orchestration("j", "Flow", "s").await.expect("started");
    world.client.start_orchestration("k", "Flow", "s").await.expect("started");
    world.client.cancel_instance("k", "not even this").await.expect("cancelled");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut seen = missing().await;
    seen.sort();
    let pinned = format!("pinned to {}", duroxide::current_build_version());
    let none = "no live node has the orchestration";
    assert_eq!(
        seen,
        [
            format!("an orchestration: {none}"),
            format!("orchestration 'Flow' 1.0.0, {pinned}: {none}"),
            format!("orchestration 'Flow': {none}"),
        ]
    );
    worker.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_both_at_zero_is_listed_and_shuts_down() {
    let world = World::new();
    let store: Arc<dyn Provider> = world.store.clone();
    let nothing = RuntimeOptions { worker_concurrency: 0, ..only_activities() };
    let node = start(&store, nothing).await;
    world.client.start_orchestration("i", "Flow", "s").await.expect("started");
    tokio::time::sleep(Duration::from_secs(100)).await;
    let listed = world.client.list_nodes().await.expect("listed");
    let info = listed[0].info.as_ref().expect("readable");
    assert_eq!((listed.len(), info.node_id.as_str()), (1, WORKER));
    assert!(info.orchestrations.orchestrations.is_empty() && info.activities.is_empty(), "{info:?}");
    let fetches = ["fetch_turns", "fetch_work", "fetch_orchestration_item", "fetch_work_item"];
    assert_eq!(fetches.map(|call| world.store.calls(call)), [0; 4]);
    let begun = tokio::time::Instant::now();
    node.shutdown(None).await;
    assert!(begun.elapsed() < Duration::from_millis(10), "nothing to wait for: {:?}", begun.elapsed());
    assert!(world.client.list_nodes().await.expect("listed")[0].left_at_ms.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_runs_no_activities_does_not_keep_the_sessions_of_the_one_before() {
    let world = World::new();
    let store: Arc<dyn Provider> = world.store.clone();
    let before = start(&store, RuntimeOptions { worker_concurrency: 8, ..only_orchestrations() }).await;
    world.client.start_orchestration("i", "Flow", "s").await.expect("started");
    assert_eq!(world.output("i").await, format!("{ORCHESTRATOR} {ORCHESTRATOR}"));
    before.kill();
    let after = start(&store, only_orchestrations()).await;
    let worker = start(&store, only_activities()).await;
    world.client.start_orchestration("j", "Flow", "s").await.expect("started");
    let begun = tokio::time::Instant::now();
    assert_eq!(world.output("j").await, format!("{WORKER} {WORKER}"));
    let longest = options().session_lock_timeout + Duration::from_secs(1);
    assert!(begun.elapsed() <= longest, "the claim ended by itself: {:?}", begun.elapsed());
    for node in [after, worker] {
        node.shutdown(None).await;
    }
}
