//! Work that no live node can do is named, and ended only if that was asked for and nobody can be wronged by it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::{Runtime, SweeperOptions};
use duroxide::{
    AppErrorKind, CapabilityRouting, ErrorDetails, MissingCapability, OrchestrationContext,
    OrchestrationStatus, PoisonMessageType, RuntimeOptions,
};

use crate::common::{World, activities, options, orchestrations};

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// A node that ends what nobody could do for an hour.
fn ending(number: u64) -> RuntimeOptions {
    RuntimeOptions {
        capability_routing: CapabilityRouting::Handlers,
        sweeper: Some(SweeperOptions { end_after: Some(HOUR), ..SweeperOptions::default() }),
        process: ProcessScope::simulated(number),
        ..options()
    }
}

async fn status(world: &World, instance: &str) -> OrchestrationStatus {
    world.client.get_orchestration_status(instance).await.expect("read")
}

fn is_running(status: &OrchestrationStatus) -> bool {
    matches!(status, OrchestrationStatus::Running { .. })
}

/// A node that runs turns of `Flow`, which calls an activity and a child that nobody has.
async fn flow_node(world: &World, options: RuntimeOptions) -> Arc<Runtime> {
    let flow = orchestrations()
        .register("Flow", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("Nobody's", "").await
        })
        .register("Parent", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_sub_orchestration("Missing", "").await
        });
    world.start(activities(), flow, options).await
}

#[tokio::test(start_paused = true)]
async fn work_that_no_node_can_do_is_named() {
    let world = World::new();
    let node =
        flow_node(&world, RuntimeOptions { capability_routing: CapabilityRouting::Handlers, ..options() })
            .await;
    for (instance, name) in [("a", "Flow"), ("b", "Missing"), ("c", "Missing")] {
        world.client.start_orchestration(instance, name, "").await.expect("started");
    }
    world.client.start_orchestration_versioned("d", "Flow", "7.0.0", "").await.expect("started");
    tokio::time::sleep(MINUTE * 3).await;
    let found = world.client.find_unprocessable_work().await.expect("looked");
    let mut texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    texts.sort();
    assert_eq!(
        texts,
        [
            "activity 'Nobody's': no live node has the activity (1 waiting, the oldest for 180 s)",
            "orchestration 'Flow' 7.0.0: no live node has this version of the orchestration \
             (1 waiting, the oldest for 180 s)",
            "orchestration 'Missing': no live node has the orchestration (2 waiting, the oldest for 180 s)",
        ]
    );
    assert!(found.iter().all(|work| work.missing != MissingCapability::LiveNode));
    // By default it only reports: nothing is ended, however long it takes.
    tokio::time::sleep(HOUR * 24).await;
    for instance in ["a", "b", "c", "d"] {
        let seen = status(&world, instance).await;
        assert!(is_running(&seen), "{instance}: {seen:?}");
    }
    assert_eq!(world.store.calls("fetch_unprocessable_turns"), 0);
    node.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_can_do_is_ended_as_poison_when_told_to() {
    let world = World::new();
    let node = flow_node(&world, ending(1)).await;
    for (instance, name) in [("flow", "Flow"), ("lost", "Missing"), ("parent", "Parent")] {
        world.client.start_orchestration(instance, name, "input").await.expect("started");
    }
    tokio::time::sleep(HOUR - MINUTE).await;
    for instance in ["flow", "lost", "parent"] {
        assert!(is_running(&status(&world, instance).await), "{instance}: not yet an hour");
    }
    let details = world.failure("lost").await;
    let ErrorDetails::Poison { attempt_count, max_attempts, message_type, message } = &details else {
        panic!("{details:?}")
    };
    assert_eq!((*attempt_count, *max_attempts), (1, 0), "the fetch that ended it, and none was allowed");
    let instance = PoisonMessageType::Orchestration { instance: "lost".to_string(), execution_id: 1 };
    assert_eq!(*message_type, instance);
    assert!(message.contains("StartOrchestration") && message.contains("input"), "{message}");
    assert_eq!(details.display_message(), "poison: orchestration lost exceeded 1 attempts (max 0)");
    let details = world.failure("flow").await;
    assert_eq!(details.display_message(), "poison: activity Nobody's#2 exceeded 1 attempts (max 0)");
    let told = world.failure("parent").await.display_message();
    assert_eq!(told, "poison: orchestration parent::sub::2 exceeded 1 attempts (max 0)");
    let snapshot = node.metrics_snapshot().expect("a runtime counts");
    assert_eq!((snapshot.activity_poison, snapshot.provider_errors), (1, 0));
    assert_eq!(snapshot.orch_poison, 3, "two were lost, and one fails with its activity");
    assert_eq!(world.client.find_unprocessable_work().await.expect("looked"), vec![]);
    node.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ended_that_a_live_node_can_do() {
    let world = World::new();
    let sweeper = flow_node(&world, ending(1)).await;
    // It has the orchestration, and is too busy to run it: its only slot is taken for hours.
    let busy = orchestrations().register("Missing", |_, _| async { Ok("done".to_string()) });
    let held = activities().register("Long", |_, _| async {
        tokio::time::sleep(HOUR * 5).await;
        Ok(String::new())
    });
    let able = world.start(held, busy, RuntimeOptions { worker_concurrency: 1, ..ending(2) }).await;
    let caller = orchestrations().register("Calls", |ctx: OrchestrationContext, _| async move {
        let long = ctx.schedule_activity("Long", "");
        let later = ctx.schedule_activity("Long", "");
        ctx.join2(long, later).await.0
    });
    let third = world.start(activities(), caller, ending(3)).await;
    world.client.start_orchestration("calls", "Calls", "").await.expect("started");
    assert_eq!(world.output("calls").await, "");
    for node in [sweeper, able, third] {
        node.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ended_soon_after_a_node_joined_or_one_that_could_left() {
    let world = World::new();
    let sweeper = flow_node(&world, ending(1)).await;
    world.client.start_orchestration("lost", "Missing", "").await.expect("started");
    // A node joins every half hour, as in a roll-out: one of them may be the one.
    for number in 0..10 {
        tokio::time::sleep(HOUR / 2).await;
        let node = flow_node(&world, ending(10 + number)).await;
        tokio::time::sleep(MINUTE).await;
        node.shutdown(None).await;
        assert!(is_running(&status(&world, "lost").await));
    }
    // And now one that has it, but leaves before it was asked.
    let has = orchestrations().register("Other", |_, _| async { Ok(String::new()) });
    let node = world.start(activities(), has, ending(30)).await;
    world.client.start_orchestration("other", "Other", "").await.expect("started");
    assert_eq!(world.output("other").await, "");
    node.shutdown(None).await;
    world.client.start_orchestration("waits", "Other", "").await.expect("started");
    tokio::time::sleep(HOUR - MINUTE).await;
    assert!(is_running(&status(&world, "waits").await), "its node left within the hour");
    assert_eq!(world.failure("waits").await.category(), "poison");
    assert_eq!(world.failure("lost").await.category(), "poison");
    sweeper.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ended_in_a_cluster_without_live_nodes() {
    let world = World::new();
    world.client.start_orchestration("lost", "Missing", "").await.expect("started");
    tokio::time::sleep(HOUR * 3).await;
    let request = duroxide::providers::SweepRequest { end_after: HOUR, lock_timeout: MINUTE, max_items: 10 };
    assert!(world.store.fetch_unprocessable_turns(request).await.expect("asked").is_empty());
    // The store is away for hours: nobody is seen. The first one back must not end what the others can do.
    let able = orchestrations().register("Missing", |ctx: OrchestrationContext, _| async move {
        ctx.schedule_timer(HOUR * 2).await;
        Ok("done".to_string())
    });
    let able = world.start(activities(), able, ending(2)).await;
    tokio::time::sleep(MINUTE).await;
    world.store.set_away(true);
    tokio::time::sleep(HOUR * 3).await;
    able.kill();
    let other = flow_node(&world, ending(1)).await;
    tokio::time::sleep(MINUTE * 3).await;
    world.store.set_away(false);
    tokio::time::sleep(HOUR - MINUTE).await;
    assert!(is_running(&status(&world, "lost").await), "its timer is due since long, and nobody is wronged");
    let again = orchestrations().register("Missing", |ctx: OrchestrationContext, _| async move {
        ctx.schedule_timer(HOUR * 2).await;
        Ok("done".to_string())
    });
    let again = world.start(activities(), again, ending(3)).await;
    assert_eq!(world.output("lost").await, "done");
    other.shutdown(None).await;
    again.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_nobody_could_replay_ends_as_a_cancel() {
    let world = World::new();
    let waits = || {
        orchestrations().register("Waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("never").await)
        })
    };
    let first = world.start(activities(), waits(), ending(1)).await;
    world.client.start_orchestration("a", "Waits", "").await.expect("started");
    tokio::time::sleep(MINUTE).await;
    first.shutdown(None).await;
    // Only versions that are not this build's.
    let range = duroxide::SemverRange::new(semver::Version::new(0, 0, 1), semver::Version::new(0, 0, 2));
    let old = RuntimeOptions { supported_replay_versions: Some(range), ..ending(2) };
    let old = world.start(activities(), waits(), old).await;
    world.client.cancel_instance("a", "enough").await.expect("sent");
    let details = world.failure("a").await;
    let ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } = &details else {
        panic!("{details:?}")
    };
    assert_eq!(reason, "enough");
    old.shutdown(None).await;
}

#[tokio::test]
#[should_panic(expected = "sweeper.interval must be above zero")]
async fn a_sweeper_that_never_rests_is_refused() {
    let sweeper = Some(SweeperOptions { interval: Duration::ZERO, end_after: None });
    World::new().start(activities(), orchestrations(), RuntimeOptions { sweeper, ..options() }).await;
}

#[tokio::test]
#[should_panic(expected = "sweeper.end_after must be above zero")]
async fn a_sweeper_that_waits_for_nobody_is_refused() {
    let sweeper = Some(SweeperOptions { end_after: Some(Duration::ZERO), ..SweeperOptions::default() });
    World::new().start(activities(), orchestrations(), RuntimeOptions { sweeper, ..options() }).await;
}
