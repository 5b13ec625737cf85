//! Instances that builds of other versions have begun.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, WorkItem};
use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistryBuilder, SemverRange};
use semver::Version;

use crate::common::{World, orchestrations};

/// Puts an instance of `Wait` into the store whose execution another build has begun.
pub(crate) async fn begin(world: &World, instance: &str, version: &str) {
    begin_as(world, instance, "Wait", version).await;
}

pub(crate) async fn begin_as(world: &World, instance: &str, orchestration: &str, version: &str) {
    let start = WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: orchestration.to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    world.memory.enqueue_for_orchestrator(start, None).await.expect("start");
    let fetched = world.memory.fetch_orchestration_item(Duration::from_secs(1), Duration::ZERO, None).await;
    let (item, token, _) = fetched.expect("fetch").expect("ready");
    assert_eq!(item.instance, instance, "no node has been started yet");
    let kind = EventKind::OrchestrationStarted {
        name: orchestration.to_string(),
        version: "1.0.0".to_string(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let mut started = Event::with_event_id(1, instance, 1, None, kind);
    started.duroxide_version = version.to_string();
    let metadata = ExecutionMetadata {
        orchestration_name: Some(orchestration.to_string()),
        orchestration_version: Some("1.0.0".to_string()),
        pinned_duroxide_version: Some(Version::parse(version).expect("valid")),
        ..ExecutionMetadata::default()
    };
    let acked =
        world.memory.ack_orchestration_item(&token, 1, vec![started], vec![], vec![], metadata, vec![]);
    acked.await.expect("ack");
}

/// `Wait` ends when it gets the event `go`, with the name of the node that ran it.
pub(crate) fn waits_on(node: &'static str) -> OrchestrationRegistryBuilder {
    orchestrations().register("Wait", move |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_wait("go").await;
        Ok(node.to_string())
    })
}

/// Sends `go`.
pub(crate) async fn go(world: &World, instance: &str) {
    world.client.raise_event(instance, "go", "").await.expect("raise");
}

pub(crate) fn range(min: &str, max: &str) -> SemverRange {
    let version = |text| Version::parse(text).expect("valid");
    SemverRange::new(version(min), version(max))
}
