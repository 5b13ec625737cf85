//! Nodes are listed with what they can do, from their start until they leave or fall silent.

use std::time::Duration;

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::Runtime;
use duroxide::runtime::VersionPolicy;
use duroxide::{
    AcceptedTags, CapabilityRouting, NodeRecord, RuntimeOptions, TagFilter, current_build_version,
};
use semver::Version;

use crate::common::{Fault, World, activities, options, orchestrations};

const HEARTBEAT: Duration = Duration::from_secs(2);

fn named(name: &str) -> RuntimeOptions {
    RuntimeOptions { worker_node_id: Some(name.to_string()), node_heartbeat_interval: HEARTBEAT, ..options() }
}

async fn nodes(world: &World) -> Vec<NodeRecord> {
    world.client.list_nodes().await.expect("listed")
}

async fn now(world: &World) -> u64 {
    world.memory.now_ms().await.expect("the store knows the time")
}

async fn one(world: &World) -> NodeRecord {
    let mut nodes = nodes(world).await;
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    nodes.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_listed_with_all_that_it_can_do() {
    let world = World::new();
    let registry = orchestrations()
        .register_versioned("Flow", "1.0.0", |_, _| async { Ok(String::new()) })
        .register_versioned("Flow", "1.1.0", |_, _| async { Ok(String::new()) })
        .build();
    let acts = activities().register("Act", |_, _| async { Ok(String::new()) }).build();
    let options = RuntimeOptions {
        worker_tag_filter: TagFilter::default_and(["gpu"]),
        capability_routing: CapabilityRouting::Handlers,
        ..named("here")
    };
    let node = Runtime::start_with_options(world.store.clone(), acts, registry.clone(), options).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let record = one(&world).await;
    let info = record.info.clone().expect("readable");
    assert_eq!((info.node_id.as_str(), &info.build_version), ("here", &current_build_version()));
    assert_eq!(info.routing, CapabilityRouting::Handlers);
    let replays = format!(">=0.0.0, <={}", current_build_version());
    assert_eq!(info.replays.iter().map(ToString::to_string).collect::<Vec<_>>(), [replays]);
    let flow = info.orchestrations.orchestrations.get("Flow").expect("registered");
    assert_eq!(flow.versions.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1.0.0", "1.1.0"]);
    assert_eq!(flow.unversioned, Some(Version::new(1, 1, 0)));
    assert!(info.activities.contains("Act") && info.activities.len() == 1);
    assert_eq!(info.tags, AcceptedTags::These { untagged: true, tags: ["gpu".to_string()].into() },);
    registry.set_version_policy("Flow", VersionPolicy::Exact(Version::new(1, 0, 0)));
    tokio::time::sleep(HEARTBEAT * 5).await;
    let later = one(&world).await;
    assert!(later.is_live(now(&world).await) && later.joined_at_ms == record.joined_at_ms);
    assert!(later.last_seen_ms >= record.last_seen_ms + 8_000);
    let flow = later.info.and_then(|info| info.orchestrations.orchestrations.get("Flow").cloned());
    assert_eq!(flow.and_then(|flow| flow.unversioned), Some(Version::new(1, 0, 0)), "by the policy of now");
    node.shutdown(None).await;
    let left = one(&world).await;
    assert!(left.left_at_ms.is_some() && !left.is_live(now(&world).await));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_is_gone_after_three_heartbeats() {
    let world = World::new();
    let node = world.start(activities(), orchestrations(), named("here")).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    node.kill();
    tokio::time::sleep(HEARTBEAT * 3 - Duration::from_millis(1)).await;
    assert!(one(&world).await.is_live(now(&world).await));
    tokio::time::sleep(Duration::from_millis(2)).await;
    let gone = one(&world).await;
    assert!(!gone.is_live(now(&world).await) && gone.left_at_ms.is_none());
    let again = world.start(activities(), orchestrations(), named("here")).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let back = one(&world).await;
    assert!(back.is_live(now(&world).await) && back.joined_at_ms > gone.last_seen_ms);
    again.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_fails_is_counted_and_the_next_one_comes() {
    let world = World::new();
    world.store.plan("heartbeat_node", [Fault::FailBefore, Fault::LoseAnswer, Fault::FailBefore]);
    let node = world.start(activities(), orchestrations(), named("here")).await;
    tokio::time::sleep(HEARTBEAT * 3 + Duration::from_millis(1)).await;
    assert_eq!(world.store.calls("heartbeat_node"), 4);
    assert_eq!(node.metrics_snapshot().expect("a runtime counts").provider_errors, 3);
    assert!(one(&world).await.info.is_some());
    node.shutdown(None).await;
    assert!(one(&world).await.left_at_ms.is_some());
}

#[tokio::test]
#[should_panic(expected = "node_heartbeat_interval must be at least 1 ms")]
async fn a_heartbeat_that_is_always_due_is_refused() {
    let options = RuntimeOptions { node_heartbeat_interval: Duration::ZERO, ..options() };
    World::new().start(activities(), orchestrations(), options).await;
}

#[tokio::test]
#[should_panic(expected = "worker_node_id: node id is empty")]
async fn a_node_without_a_name_is_refused() {
    World::new().start(activities(), orchestrations(), named("")).await;
}
