//! Missing handlers, versions and cancels during backoff: delays for one instance, never a silent loss.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, WorkItem};
use duroxide::{
    ActivityContext, ConfigErrorKind, ErrorDetails, Event, EventKind, OrchestrationContext, RuntimeOptions,
    SemverRange,
};
use semver::Version;

use crate::common::{World, activities, options, orchestrations};

#[tokio::test(start_paused = true)]
async fn what_is_not_registered_is_given_back_at_once_and_poisoned_in_the_end() {
    let world = World::new();
    let orchs = orchestrations().register("Calls", |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Missing", "").await
    });
    let runtime = world.start(activities(), orchs, RuntimeOptions { max_attempts: 4, ..options() }).await;
    let begun = tokio::time::Instant::now();
    world.client.start_orchestration("o", "Missing", "").await.expect("start");
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    let orchestration = world.failure("o").await;
    assert_eq!(orchestration.display_message(), "poison: orchestration o exceeded 5 attempts (max 4)");
    let activity = world.failure("a").await;
    assert_eq!(activity.display_message(), "poison: activity Missing#2 exceeded 5 attempts (max 4)");
    assert_eq!(activity.category(), "poison");
    // 100 + 200 + 400 + 800 ms; a lock left to expire would cost 5 s or 30 s each time.
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(1500) && elapsed < Duration::from_secs(2), "{elapsed:?}");
    let metrics = runtime.metrics_snapshot().expect("always there");
    assert_eq!((metrics.unregistered_orch_backoff, metrics.unregistered_activity_backoff), (4, 4));
    assert_eq!((metrics.orch_poison, metrics.activity_poison), (2, 1));
    let deleted = world.client.delete_instance("o", false).await.expect("a poisoned instance needs no force");
    assert_eq!(deleted.instances_deleted, 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_works_at_once_while_nobody_has_the_handler() {
    let world = World::new();
    let options = RuntimeOptions {
        unregistered_backoff: duroxide::runtime::UnregisteredBackoffConfig::default(),
        ..options()
    };
    let runtime = world.start(activities(), orchestrations(), options).await;
    world.client.start_orchestration_versioned("c", "Missing", "2.5.0", "").await.expect("start");
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

/// Puts an instance into the store whose execution another build has begun.
async fn pinned(world: &World, instance: &str, version: &str) {
    let start = WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Wait".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    world.memory.enqueue_for_orchestrator(start, None).await.expect("start");
    let second = Duration::from_secs(1);
    let (_, token, _) = world
        .memory
        .fetch_orchestration_item(second, Duration::ZERO, None)
        .await
        .expect("fetch")
        .expect("ready");
    let kind = EventKind::OrchestrationStarted {
        name: "Wait".to_string(),
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
        orchestration_name: Some("Wait".to_string()),
        orchestration_version: Some("1.0.0".to_string()),
        pinned_duroxide_version: Some(Version::parse(version).expect("valid")),
        ..ExecutionMetadata::default()
    };
    world
        .memory
        .ack_orchestration_item(&token, 1, vec![started], vec![], vec![], metadata, vec![])
        .await
        .expect("ack");
}

fn waits() -> duroxide::OrchestrationRegistryBuilder {
    orchestrations().register("Wait", |ctx: OrchestrationContext, _input: String| async move {
        Ok(ctx.schedule_wait("go").await)
    })
}

#[tokio::test(start_paused = true)]
async fn an_execution_of_a_later_build_is_left_alone_until_a_node_can_replay_it() {
    let world = World::new();
    pinned(&world, "later", "99.0.0").await;
    pinned(&world, "older", "0.0.1").await;
    let runtime = world.start(activities(), waits(), options()).await;
    for instance in ["later", "older"] {
        world.client.raise_event(instance, "go", instance).await.expect("raise");
    }
    assert_eq!(world.output("older").await, "older");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.memory.max_attempt_count("later"), 0, "never fetched");
    runtime.shutdown(None).await;
    let wide = SemverRange::new(Version::new(0, 0, 0), Version::new(99, 0, 0));
    let options = RuntimeOptions { supported_replay_versions: Some(wide), ..options() };
    let runtime = world.start(activities(), waits(), options).await;
    assert_eq!(world.output("later").await, "later");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_incompatible_execution_that_arrives_all_the_same_ends_as_a_configuration_error() {
    let world = World::with(crate::common::Faulty::ignoring_filter);
    pinned(&world, "later", "99.0.0").await;
    let runtime = world.start(activities(), waits(), RuntimeOptions { max_attempts: 3, ..options() }).await;
    let begun = tokio::time::Instant::now();
    world.client.raise_event("later", "go", "x").await.expect("raise");
    let failure = world.failure("later").await;
    let ErrorDetails::Configuration { kind: ConfigErrorKind::UnsupportedReplayVersion, message, .. } =
        &failure
    else {
        panic!("{failure:?}")
    };
    let message = message.as_deref().unwrap_or_default();
    assert!(message.contains("99.0.0") && message.contains(">=0.0.0, <="), "{message}");
    assert!(begun.elapsed() >= Duration::from_secs(3), "given back three times for a second");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn changed_code_fails_as_nondeterministic_and_says_what_differs() {
    let world = World::new();
    let orchs = |activity: &'static str| {
        orchestrations().register("Changes", move |ctx: OrchestrationContext, _input: String| async move {
            let result = ctx.schedule_activity(activity, "in").await?;
            ctx.schedule_wait("go").await;
            Ok(result)
        })
    };
    let acts =
        || activities().register("Old", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let runtime = world.start(acts(), orchs("Old"), options()).await;
    world.client.start_orchestration("i", "Changes", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.shutdown(None).await;
    let runtime = world.start(acts(), orchs("New"), options()).await;
    world.client.raise_event("i", "go", "").await.expect("raise");
    let text = world.failure("i").await.display_message();
    assert_eq!(
        text,
        "nondeterministic: schedule mismatch at event 2: recorded activity 'Old' (input of 2 bytes), but the code \
         now asks for activity 'New' (input of 2 bytes); differs in name (recorded 'Old', now 'New')"
    );
    runtime.shutdown(None).await;
}
