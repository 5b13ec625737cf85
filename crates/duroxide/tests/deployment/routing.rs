//! Nodes of several versions on one store: each gets what it replays, and nobody gets anything twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistryBuilder, RuntimeOptions,
};
use duroxide::{SemverRange, current_build_version};
use semver::Version;

use crate::common::{World, activities, options, orchestrations};
use crate::pinned::{begin, begin_as, go, range, waits_on};

/// From `min` up to, but without, `max`.
fn below(min: u64, max: u64) -> SemverRange {
    SemverRange::below(Version::new(min, 0, 0), Version::new(max, 0, 0))
}

async fn node(world: &World, name: &'static str, range: SemverRange, seed: u64) -> Arc<Runtime> {
    let process = ProcessScope::simulated(seed);
    let options = RuntimeOptions { supported_replay_versions: Some(range), process, ..options() };
    world.start(activities(), waits_on(name), options).await
}

fn fetched(node: &Runtime) -> u64 {
    node.metrics_snapshot().expect("always there").orch_dispatcher_items_fetched
}

#[tokio::test(start_paused = true)]
async fn two_runtimes_different_version_ranges_route_correctly() {
    let world = World::new();
    begin(&world, "x", "1.2.0").await;
    begin(&world, "y", "2.3.0").await;
    let a = node(&world, "A", below(1, 2), 1).await;
    let b = node(&world, "B", below(2, 3), 2).await;
    go(&world, "x").await;
    go(&world, "y").await;
    assert_eq!((world.output("x").await.as_str(), world.output("y").await.as_str()), ("A", "B"));
    assert_eq!((fetched(&a), fetched(&b)), (1, 1), "neither saw the other's");
    assert_eq!(world.store.calls("abandon_orchestration_item"), 0);
    a.shutdown(None).await;
    b.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn overlapping_version_ranges_both_can_process() {
    let world = World::new();
    begin(&world, "shared", "2.5.0").await;
    let a = node(&world, "A", below(1, 3), 1).await;
    let b = node(&world, "B", below(2, 4), 2).await;
    go(&world, "shared").await;
    let output = world.output("shared").await;
    assert!(output == "A" || output == "B", "{output}");
    assert_eq!(fetched(&a) + fetched(&b), 1, "one of them, once");
    a.shutdown(None).await;
    b.shutdown(None).await;
    // Each of them alone can do it as well.
    for (name, range) in [("A", below(1, 3)), ("B", below(2, 4))] {
        begin(&world, name, "2.5.0").await;
        let alone = node(&world, name, range, 3).await;
        go(&world, name).await;
        assert_eq!(world.output(name).await, name);
        alone.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mixed_cluster_compatible_and_incompatible_items() {
    let world = World::new();
    let seeded = [("1", "1.0.0"), ("2", "2.0.0"), ("3", "1.5.0"), ("4", "2.9.9"), ("5", "1.99.0")];
    for (instance, version) in seeded {
        begin(&world, instance, version).await;
    }
    let a = node(&world, "A", below(1, 2), 1).await;
    let b = node(&world, "B", below(2, 3), 2).await;
    for (instance, _) in seeded {
        go(&world, instance).await;
    }
    for (instance, version) in seeded {
        let expected = if version.starts_with('1') { "A" } else { "B" };
        assert_eq!(world.output(instance).await, expected, "{instance} pinned to {version}");
    }
    assert_eq!((fetched(&a), fetched(&b)), (3, 2));
    a.shutdown(None).await;
    b.shutdown(None).await;
}

/// The first execution has an activity open when it continues as new; the second ends on `end`.
fn restarts() -> OrchestrationRegistryBuilder {
    orchestrations().register("Restarts", |ctx: OrchestrationContext, input: String| async move {
        if input == "again" {
            return Ok(ctx.schedule_wait("end").await);
        }
        let _open = ctx.schedule_activity("Slow", "");
        ctx.schedule_wait("go").await;
        ctx.continue_as_new("again").await
    })
}

/// An activity that ends only when it is cancelled, and counts its runs.
fn slow(begun: &Arc<AtomicU32>) -> ActivityRegistryBuilder {
    let begun = begun.clone();
    activities().register("Slow", move |ctx: ActivityContext, _input: String| {
        begun.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.cancelled().await;
            Ok("too late".to_string())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn activity_completion_after_continue_as_new_is_discarded() {
    let world = World::new();
    let begun = Arc::new(AtomicU32::new(0));
    begin_as(&world, "i", "Restarts", "0.9.0").await;
    let both = world.start(slow(&begun), restarts(), options()).await;
    world.client.raise_event("i", "other", "").await.expect("raise");
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    go(&world, "i").await;
    while world.client.get_instance_info("i").await.expect("read").current_execution_id == 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The activity learns that it is cancelled; what it returns then reaches nobody.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.store.calls("ack_work_item"), 0, "no completion was sent");
    let depths = world.client.get_queue_depths().await.expect("read");
    assert_eq!((depths.worker_queue, depths.orchestrator_queue), (0, 0));
    both.shutdown(None).await;

    // A completion that was faster than the cancellation goes where execution 2 goes, and is dropped there.
    let old = RuntimeOptions { supported_replay_versions: Some(range("0.0.0", "0.9.0")), ..options() };
    let old = world.start(slow(&begun), restarts(), old).await;
    let current = current_build_version().to_string();
    let new = RuntimeOptions { supported_replay_versions: Some(range(&current, &current)), ..options() };
    let new = world.start(slow(&begun), restarts(), new).await;
    let late = WorkItem::ActivityCompleted {
        instance: "i".to_string(),
        execution_id: 1,
        id: 2,
        result: "too late".to_string(),
    };
    world.memory.enqueue_for_orchestrator(late, None).await.expect("sent");
    world.client.raise_event("i", "end", "over").await.expect("raise");
    assert_eq!(world.output("i").await, "over");
    let history = world.client.read_execution_history("i", 2).await.expect("read");
    let completed = history.iter().find(|event| matches!(event.kind, EventKind::ActivityCompleted { .. }));
    assert_eq!(completed, None, "the second execution knows nothing of it");
    assert_eq!(fetched(&old), 0, "execution 2 is pinned to its own version");
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    old.shutdown(None).await;
    new.shutdown(None).await;
}
