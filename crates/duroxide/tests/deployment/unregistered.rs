//! What no node has registered is given back with growing delays, and poisoned in the end.

use std::time::Duration;

use duroxide::providers::WorkItem;
use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::testing::GivenBack;
use duroxide::{
    ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistryBuilder, PoisonMessageType,
};
use duroxide::{OrchestrationStatus, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};
use crate::log::Log;

const GIVEN_BACK: &str = "abandon_orchestration_item";
const WORK_GIVEN_BACK: &str = "abandon_work_item";

/// The delays of the default options, up to the default limit of ten attempts.
const DELAYS_S: [u64; 10] = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60];

fn with_default_backoff() -> RuntimeOptions {
    RuntimeOptions { unregistered_backoff: UnregisteredBackoffConfig::default(), ..options() }
}

/// An orchestration whose one activity no node has.
fn calls_missing() -> OrchestrationRegistryBuilder {
    orchestrations().register("Calls", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Missing", input).await
    })
}

/// Waits in virtual time until it has been given back this often.
async fn bounced(world: &World, method: &'static str, times: usize) {
    while world.store.given_back(method).len() < times {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Given back with exactly these delays, each counted, and fetched again as soon as each is over.
fn check_delays(given_back: &[GivenBack], ended: tokio::time::Instant) {
    let delays: Vec<Option<Duration>> = given_back.iter().map(|given_back| given_back.delay).collect();
    assert_eq!(delays, DELAYS_S.map(|seconds| Some(Duration::from_secs(seconds))));
    assert!(given_back.iter().all(|given_back| !given_back.ignore_attempt), "every attempt counts");
    let fetched_again = given_back.iter().skip(1).map(|next| next.at).chain([ended]);
    for (given_back, fetched_again) in given_back.iter().zip(fetched_again) {
        let waited = fetched_again - given_back.at;
        let late = waited.checked_sub(given_back.delay.expect("checked above")).expect("not too early");
        assert!(late < Duration::from_millis(100), "{late:?} late after {:?}", given_back.delay);
    }
}

#[tokio::test(start_paused = true)]
async fn test_unregistered_orchestration_abandons_with_backoff() {
    let world = World::new();
    let runtime = world.start(activities(), orchestrations(), with_default_backoff()).await;
    world.client.start_orchestration("o", "Missing", "").await.expect("start");
    bounced(&world, GIVEN_BACK, 3).await;
    assert_eq!(world.client.read_execution_history("o", 1).await.expect("read"), [], "no event is written");
    let status = world.client.get_orchestration_status("o").await.expect("status");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    world.failure("o").await;
    check_delays(&world.store.given_back(GIVEN_BACK), tokio::time::Instant::now());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn test_unregistered_activity_abandons_with_backoff() {
    let world = World::new();
    let runtime = world.start(activities(), calls_missing(), with_default_backoff()).await;
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    bounced(&world, WORK_GIVEN_BACK, 3).await;
    let history = world.client.read_execution_history("a", 1).await.expect("read");
    assert_eq!(history.len(), 2, "the start and the schedule: {history:?}");
    world.failure("a").await;
    check_delays(&world.store.given_back(WORK_GIVEN_BACK), tokio::time::Instant::now());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn e2e_unregistered_orchestration_eventually_poisons() {
    for max_attempts in [1, 3, 10] {
        let world = World::new();
        let limited = RuntimeOptions { max_attempts, ..options() };
        let runtime = world.start(activities(), orchestrations(), limited).await;
        world
            .client
            .start_orchestration_versioned("o", "Missing", "2.0.0", "the input")
            .await
            .expect("start");
        let start = WorkItem::StartOrchestration {
            instance: "o".to_string(),
            orchestration: "Missing".to_string(),
            input: "the input".to_string(),
            version: Some("2.0.0".to_string()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        };
        let details = world.failure("o").await;
        let expected = ErrorDetails::Poison {
            attempt_count: max_attempts + 1,
            max_attempts,
            message_type: PoisonMessageType::Orchestration { instance: "o".to_string(), execution_id: 1 },
            message: format!(
                "cause: orchestration Missing 2.0.0 is registered on no live node; messages: {}",
                serde_json::to_string(&[start]).expect("JSON")
            ),
        };
        assert_eq!(details, expected);
        let text =
            format!("poison: orchestration o exceeded {} attempts (max {max_attempts})", max_attempts + 1);
        assert_eq!(details.display_message(), text);
        assert_eq!((details.category(), details.is_retryable()), ("poison", false));
        let history = world.client.read_execution_history("o", 1).await.expect("read");
        let kinds: Vec<&EventKind> = history.iter().map(|event| &event.kind).collect();
        let [EventKind::OrchestrationStarted { version, .. }, EventKind::OrchestrationFailed { details }] =
            kinds.as_slice()
        else {
            panic!("{kinds:?}")
        };
        assert_eq!((version.as_str(), details), ("2.0.0", &expected));
        let bounces = u64::from(max_attempts);
        let counted = runtime.metrics_snapshot().expect("always there");
        assert_eq!(world.store.given_back(GIVEN_BACK).len(), usize::try_from(max_attempts).expect("small"));
        assert_eq!(
            (counted.unregistered_orch_backoff, counted.orch_dispatcher_items_fetched),
            (bounces, bounces + 1)
        );
        assert_eq!((counted.orch_poison, counted.orch_failures, counted.activity_poison), (1, 1, 0));
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn e2e_unregistered_activity_eventually_poisons() {
    for max_attempts in [1, 3, 10] {
        let world = World::new();
        let limited = RuntimeOptions { max_attempts, ..options() };
        let runtime = world.start(activities(), calls_missing(), limited).await;
        world.client.start_orchestration("a", "Calls", "the input").await.expect("start");
        let work = WorkItem::ActivityExecute {
            instance: "a".to_string(),
            execution_id: 1,
            id: 2,
            name: "Missing".to_string(),
            input: "the input".to_string(),
            session_id: None,
            tag: None,
        };
        let details = world.failure("a").await;
        let expected = ErrorDetails::Poison {
            attempt_count: max_attempts + 1,
            max_attempts,
            message_type: PoisonMessageType::Activity {
                instance: "a".to_string(),
                execution_id: 1,
                activity_name: "Missing".to_string(),
                activity_id: 2,
            },
            message: format!(
                "cause: activity Missing is registered on no live node; messages: {}",
                serde_json::to_string(&[work]).expect("JSON")
            ),
        };
        assert_eq!(details, expected);
        let text =
            format!("poison: activity Missing#2 exceeded {} attempts (max {max_attempts})", max_attempts + 1);
        assert_eq!(details.display_message(), text);
        let history = world.client.read_execution_history("a", 1).await.expect("read");
        let failed = EventKind::ActivityFailed { details: expected };
        assert_eq!((history.len(), &history[2].kind), (4, &failed));
        let bounces = u64::from(max_attempts);
        let counted = runtime.metrics_snapshot().expect("always there");
        assert_eq!(
            world.store.given_back(WORK_GIVEN_BACK).len(),
            usize::try_from(max_attempts).expect("small")
        );
        assert_eq!(
            (counted.unregistered_activity_backoff, counted.worker_dispatcher_items_fetched),
            (bounces, bounces + 1)
        );
        assert_eq!((counted.activity_poison, counted.orch_failures), (1, 1));
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_bounce_is_a_warning_with_the_attempts_left_and_the_poison_an_error() {
    let log = Log::listen();
    let world = World::new();
    let limited = RuntimeOptions { max_attempts: 3, ..with_default_backoff() };
    let runtime = world.start(activities(), calls_missing(), limited).await;
    world.client.start_orchestration("o", "Missing", "").await.expect("start");
    world.failure("o").await;
    let fields = "instance=o orchestration_name=Missing version=latest";
    check_log(&log, "Orchestration", fields, "poison: orchestration o exceeded 4 attempts (max 3)");
    let log = Log::listen();
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    world.failure("a").await;
    let fields = "instance=a activity_name=Missing";
    check_log(&log, "Activity", fields, "poison: activity Missing#2 exceeded 4 attempts (max 3)");
    runtime.shutdown(None).await;
}

/// Three warnings with delays of 1, 2 and 4 s, then one error.
fn check_log(log: &Log, what: &str, fields: &str, error: &str) {
    let warnings = log.lines("WARN");
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    for (attempt, line) in (1..).zip(&warnings) {
        let (delay, left) = (1 << (attempt - 1), 3 - attempt);
        let text = format!(
            "duroxide::runtime: {what} not registered, abandoning with {delay}.0s backoff (will poison in {left} more attempts)"
        );
        assert!(line.contains(&text) && line.contains(fields), "{line}");
        let counted =
            format!("attempt_count={attempt} max_attempts=3 remaining_attempts={left} backoff_secs={delay}");
        assert!(line.contains(&counted), "{line}");
    }
    let errors = log.lines("ERROR");
    assert_eq!(errors.iter().filter(|line| line.contains(error)).count(), 1, "{errors:#?}");
}
