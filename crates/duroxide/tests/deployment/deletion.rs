//! Cancelling and deleting what bounces, and deleting what was poisoned.

use std::time::Duration;

use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::{ClientError, EventKind, OrchestrationContext, OrchestrationStatus, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};

fn with_default_backoff() -> RuntimeOptions {
    RuntimeOptions { unregistered_backoff: UnregisteredBackoffConfig::default(), ..options() }
}

#[tokio::test(start_paused = true)]
async fn test_cancel_orchestration_during_unregistered_backoff() {
    let world = World::new();
    let runtime = world.start(activities(), orchestrations(), with_default_backoff()).await;
    world.client.start_orchestration_versioned("c", "Missing", "2.5.0", "").await.expect("start");
    // In the middle of the delay of 16 s.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let begun = tokio::time::Instant::now();
    world.client.cancel_instance("c", "no longer wanted").await.expect("cancel");
    assert_eq!(world.failure("c").await.display_message(), "canceled: no longer wanted");
    assert!(begun.elapsed() < Duration::from_secs(1), "the cancel ended the backoff: {:?}", begun.elapsed());
    let history = world.client.read_execution_history("c", 1).await.expect("history");
    let kinds: Vec<&EventKind> = history.iter().map(|event| &event.kind).collect();
    assert!(
        matches!(
            kinds.as_slice(),
            [
                EventKind::OrchestrationStarted { version, .. },
                EventKind::OrchestrationCancelRequested { .. },
                EventKind::OrchestrationFailed { .. }
            ] if version == "2.5.0"
        ),
        "{kinds:?}"
    );
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_an_orchestration_ends_the_backoff_of_its_activity() {
    let world = World::new();
    let orchs = orchestrations().register("Calls", |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Missing", "").await
    });
    let runtime = world.start(activities(), orchs, with_default_backoff()).await;
    world.client.start_orchestration("c", "Calls", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.client.cancel_instance("c", "no longer wanted").await.expect("cancel");
    assert_eq!(world.failure("c").await.display_message(), "canceled: no longer wanted");
    assert_eq!(world.client.get_queue_depths().await.expect("read").worker_queue, 0);
    let bounces = world.store.given_back("abandon_work_item").len();
    assert_eq!(bounces, 5, "after 0, 1, 3, 7 and 15 s");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.store.given_back("abandon_work_item").len(), bounces, "it is gone");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn test_force_delete_orchestration_during_unregistered_backoff() {
    let world = World::new();
    let orchs = orchestrations()
        .register("Fine", |_ctx: OrchestrationContext, input: String| async move { Ok(input) });
    let runtime = world.start(activities(), orchs, with_default_backoff()).await;
    world.client.start_orchestration("d", "Missing", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let refused = world.client.delete_instance("d", false).await.expect_err("it runs");
    assert!(matches!(refused, ClientError::InstanceStillRunning { .. }), "{refused:?}");
    let deleted = world.client.delete_instance("d", true).await.expect("deleted by force");
    assert_eq!((deleted.instances_deleted, deleted.queue_messages_deleted), (1, 1));
    let bounces = world.store.given_back("abandon_orchestration_item").len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.store.given_back("abandon_orchestration_item").len(),
        bounces,
        "nobody fetches it again"
    );
    assert_eq!(
        world.client.get_orchestration_status("d").await.expect("status"),
        OrchestrationStatus::NotFound
    );
    world.client.start_orchestration("d", "Fine", "anew").await.expect("start");
    assert_eq!(world.output("d").await, "anew", "the id is free");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn test_delete_poisoned_orchestration() {
    let world = World::new();
    let runtime =
        world.start(activities(), orchestrations(), RuntimeOptions { max_attempts: 2, ..options() }).await;
    world.client.start_orchestration("p", "Missing", "").await.expect("start");
    assert_eq!(world.failure("p").await.category(), "poison");
    let deleted = world.client.delete_instance("p", false).await.expect("it has ended: no force is needed");
    assert_eq!((deleted.instances_deleted, deleted.executions_deleted, deleted.events_deleted), (1, 1, 2));
    assert_eq!(
        world.client.get_orchestration_status("p").await.expect("status"),
        OrchestrationStatus::NotFound
    );
    runtime.shutdown(None).await;
}
