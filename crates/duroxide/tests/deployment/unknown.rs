//! A name, a version or a next version that nobody has ends in a failure that says so, and stops nobody else.

use duroxide::{
    ErrorDetails, OrchestrationContext, OrchestrationRegistryBuilder, PoisonMessageType, RuntimeOptions,
};

use crate::common::{World, activities, options, orchestrations};

fn existing() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("ExistingOrch", |_ctx: OrchestrationContext, input: String| async move { Ok(input) })
        .register("Continues", |ctx: OrchestrationContext, version: String| async move {
            ctx.continue_as_new_versioned(version, "next").await
        })
}

/// The instance is poisoned in this execution, its error has this text in its message, and the node goes on.
async fn fails_gracefully(world: &World, instance: &str, execution_id: u64, part: &str) {
    let details = world.failure(instance).await;
    let ErrorDetails::Poison { attempt_count: 4, max_attempts: 3, message_type, message } = &details else {
        panic!("{details:?}")
    };
    let orchestration = PoisonMessageType::Orchestration { instance: instance.to_string(), execution_id };
    assert_eq!(*message_type, orchestration);
    assert!(message.contains(part), "{message}");
    world.client.start_orchestration("next one", "ExistingOrch", "fine").await.expect("start");
    assert_eq!(world.output("next one").await, "fine");
}

fn limited() -> RuntimeOptions {
    RuntimeOptions { max_attempts: 3, ..options() }
}

#[tokio::test(start_paused = true)]
async fn unknown_orchestration_fails_gracefully() {
    let world = World::new();
    let runtime = world.start(activities(), existing(), limited()).await;
    world.client.start_orchestration("inst", "DoesNotExist", "").await.expect("start");
    fails_gracefully(&world, "inst", 1, "\"orchestration\":\"DoesNotExist\"").await;
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_version_fails_gracefully() {
    let world = World::new();
    let runtime = world.start(activities(), existing(), limited()).await;
    world.client.start_orchestration_versioned("inst", "ExistingOrch", "9.9.9", "").await.expect("start");
    fails_gracefully(&world, "inst", 1, "\"version\":\"9.9.9\"").await;
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn continue_as_new_to_missing_version_fails_gracefully() {
    let world = World::new();
    let runtime = world.start(activities(), existing(), limited()).await;
    world.client.start_orchestration("inst", "Continues", "9.9.9").await.expect("start");
    fails_gracefully(&world, "inst", 2, "\"version\":\"9.9.9\"").await;
    let statuses = [1, 2].map(|execution| world.client.get_execution_info("inst", execution));
    let [first, second] = statuses;
    assert_eq!(first.await.expect("read").status, "ContinuedAsNew");
    assert_eq!(second.await.expect("read").status, "Failed");
    assert_eq!(runtime.metrics_snapshot().expect("always there").unregistered_orch_backoff, 3);
    runtime.shutdown(None).await;
}
