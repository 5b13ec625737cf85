//! Nodes that differ for good: each gets what it has registered.

use std::time::Duration;

use duroxide::runtime::{Runtime, VersionPolicy};
use duroxide::{
    AppErrorKind, CapabilityRouting, ErrorDetails, OrchestrationContext, OrchestrationRegistry,
    RuntimeOptions,
};

use crate::common::{World, activities, options, orchestrations};

fn routed() -> RuntimeOptions {
    RuntimeOptions { capability_routing: CapabilityRouting::Handlers, ..options() }
}

fn calls(activity: &'static str) -> OrchestrationRegistry {
    let run = move |ctx: OrchestrationContext, _| async move { ctx.schedule_activity(activity, "").await };
    orchestrations().register("Flow", run).build()
}

fn abandons(world: &World) -> u64 {
    world.store.calls("abandon_orchestration_item") + world.store.calls("abandon_work_item")
}

/// A node without the activity leaves it to the one that has it, and one without the orchestration does so too.
#[tokio::test(start_paused = true)]
async fn a_node_that_lacks_a_handler_leaves_the_work_where_it_is() {
    let world = World::new();
    let turns =
        Runtime::start_with_options(world.store.clone(), activities().build(), calls("Late"), routed()).await;
    let other = world.start(
        activities().register("Other", |_, _| async { Ok(String::new()) }),
        orchestrations(),
        routed(),
    );
    let other = other.await;
    for number in 0..20 {
        world.client.start_orchestration(format!("flow {number}"), "Flow", "").await.expect("started");
    }
    // An hour in which nobody has the activity: under the default routing it would be poison by now.
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    let late = activities().register("Late", |_, _| async { Ok("done".to_string()) });
    let third = world.start(late, orchestrations(), routed()).await;
    for number in 0..20 {
        assert_eq!(world.output(&format!("flow {number}")).await, "done");
    }
    assert_eq!(abandons(&world), 0);
    for node in [turns, other, third] {
        let snapshot = node.metrics_snapshot().expect("a runtime counts");
        assert_eq!((snapshot.unregistered_orch_backoff, snapshot.unregistered_activity_backoff), (0, 0));
        node.shutdown(None).await;
    }
}

/// Work for others, however much of it, does not keep a node from its own.
#[tokio::test(start_paused = true)]
async fn others_work_does_not_stand_in_the_way() {
    let world = World::new();
    for number in 0..2_000 {
        world.client.start_orchestration(format!("theirs {number}"), "Theirs", "").await.expect("started");
    }
    world.client.start_orchestration("mine", "Mine", "").await.expect("started");
    let mine = orchestrations().register("Mine", |_, _| async { Ok("done".to_string()) });
    let node = world.start(activities(), mine, routed()).await;
    assert_eq!(world.output("mine").await, "done");
    assert_eq!(node.metrics_snapshot().expect("a runtime counts").orch_dispatcher_items_fetched, 1);
    node.shutdown(None).await;
}

/// A cancel works at once, also when no node has the orchestration; so it does for one that has begun.
#[tokio::test(start_paused = true)]
async fn a_cancel_needs_no_handler() {
    let world = World::new();
    let waits = orchestrations().register("Waits", |ctx: OrchestrationContext, _| async move {
        Ok(ctx.schedule_wait("never").await)
    });
    let first = world.start(activities(), waits, routed()).await;
    world.client.start_orchestration("begun", "Waits", "").await.expect("started");
    while world.client.read_execution_history("begun", 1).await.map_or(0, |history| history.len()) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.shutdown(None).await;
    let node = world.start(activities(), orchestrations(), routed()).await;
    world.client.start_orchestration("new", "Unknown", "").await.expect("started");
    for instance in ["begun", "new"] {
        world.client.cancel_instance(instance, "enough").await.expect("sent");
        let details = world.failure(instance).await;
        let ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } = &details else {
            panic!("{instance}: {details:?}")
        };
        assert_eq!(reason, "enough");
    }
    assert_eq!(abandons(&world), 0);
    node.shutdown(None).await;
}

/// A change of the version policy counts for the next fetch, also for one that waits already.
#[tokio::test(start_paused = true)]
async fn a_changed_policy_counts_at_once() {
    let world = World::new();
    let registry = orchestrations()
        .register_versioned("Flow", "1.0.0", |_, _| async { Ok("one".to_string()) })
        .set_policy("Flow", VersionPolicy::Exact(semver::Version::new(9, 9, 9)))
        .build();
    let node =
        Runtime::start_with_options(world.store.clone(), activities().build(), registry.clone(), routed())
            .await;
    world.client.start_orchestration("a", "Flow", "").await.expect("started");
    world.client.start_orchestration_versioned("b", "Flow", "1.0.0", "").await.expect("started");
    assert_eq!(world.output("b").await, "one");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = tokio::time::Instant::now();
    registry.set_version_policy("Flow", VersionPolicy::Latest);
    assert_eq!(world.output("a").await, "one");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(abandons(&world), 0);
    node.shutdown(None).await;
}

/// Continuing as new goes to a node that has what is asked for.
#[tokio::test(start_paused = true)]
async fn the_next_execution_moves_to_the_node_that_has_it() {
    let world = World::new();
    let one =
        orchestrations().register_versioned("Flow", "1.0.0", |ctx: OrchestrationContext, _| async move {
            ctx.continue_as_new_versioned("2.0.0", "").await
        });
    let two = orchestrations().register_versioned("Flow", "2.0.0", |_, _| async { Ok("two".to_string()) });
    let first = world.start(activities(), one, routed()).await;
    let second = world.start(activities(), two, routed()).await;
    for number in 0..20 {
        let id = format!("flow {number}");
        world.client.start_orchestration_versioned(&id, "Flow", "1.0.0", "").await.expect("started");
    }
    for number in 0..20 {
        assert_eq!(world.output(&format!("flow {number}")).await, "two");
    }
    assert_eq!(abandons(&world), 0);
    first.shutdown(None).await;
    second.shutdown(None).await;
}

/// A store, or a wrapper, without the extension still runs everything: what is missing here bounces as ever.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_route_falls_back() {
    let world = World::with(|faulty| faulty.plain());
    let old =
        Runtime::start_with_options(world.store.clone(), activities().build(), calls("Act"), routed()).await;
    for number in 0..10 {
        world.client.start_orchestration(format!("flow {number}"), "Flow", "").await.expect("started");
    }
    while old.metrics_snapshot().expect("a runtime counts").unregistered_activity_backoff < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let nodes = world.client.list_nodes().await.expect("this wrapper forwards the call");
    assert!(nodes.is_empty(), "but no node beats on it");
    old.shutdown(None).await;
    let act = activities().register("Act", |_, _| async { Ok("done".to_string()) }).build();
    let new = Runtime::start_with_options(world.store.clone(), act, calls("Act"), routed()).await;
    for number in 0..10 {
        assert_eq!(world.output(&format!("flow {number}")).await, "done");
    }
    new.shutdown(None).await;
}
