//! What is given back again and again says why: in its error, in the log, and to a client that asks meanwhile.

use std::time::Duration;

use duroxide::providers::{Bounces, WorkItem};
use duroxide::runtime::process::ProcessScope;
use duroxide::{
    BounceCause, ErrorDetails, OrchestrationContext, OrchestrationRegistryBuilder, RuntimeOptions,
};

use crate::common::{Fault, World, activities, options, orchestrations};
use crate::log::Log;
use crate::pinned::{begin, go, range, waits_on};

fn limited(max_attempts: u32) -> RuntimeOptions {
    RuntimeOptions { max_attempts, ..options() }
}

/// An orchestration whose one activity no node has.
fn calls_missing() -> OrchestrationRegistryBuilder {
    orchestrations().register("Calls", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Missing", input).await
    })
}

/// The cause in the error of an instance that was poisoned. The messages are behind it.
async fn cause_of(world: &World, instance: &str) -> String {
    let details = world.failure(instance).await;
    let ErrorDetails::Poison { message, .. } = &details else { panic!("{details:?}") };
    let parts = message.strip_prefix("cause: ").and_then(|rest| rest.split_once("; messages: "));
    let Some((cause, messages)) = parts else { panic!("{message}") };
    let messages: Vec<WorkItem> = serde_json::from_str(messages).expect("the messages as they were sent");
    assert!(!messages.is_empty());
    cause.to_string()
}

#[tokio::test(start_paused = true)]
async fn poison_names_the_orchestration_and_version_that_no_live_node_has() {
    let log = Log::listen();
    let world = World::new();
    let runtime = world.start(activities(), calls_missing(), limited(3)).await;
    world.client.start_orchestration_versioned("o", "Order", "2.0.0", "secret").await.expect("start");
    let cause = "orchestration Order 2.0.0 is registered on no live node";
    assert_eq!(cause_of(&world, "o").await, cause);
    world.client.start_orchestration("p", "Order", "secret").await.expect("start");
    assert_eq!(cause_of(&world, "p").await, "orchestration Order is registered on no live node");
    let errors = log.lines("ERROR");
    assert!(errors.iter().any(|line| line.contains(&format!("cause={cause}"))), "{errors:#?}");
    assert!(!errors.iter().any(|line| line.contains("secret")), "{errors:#?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn poison_names_the_activity_that_no_live_node_has() {
    let log = Log::listen();
    let world = World::new();
    let runtime = world.start(activities(), calls_missing(), limited(3)).await;
    world.client.start_orchestration("a", "Calls", "secret").await.expect("start");
    let cause = "activity Missing is registered on no live node";
    assert_eq!(cause_of(&world, "a").await, cause);
    let errors = log.lines("ERROR");
    assert!(errors.iter().any(|line| line.contains(&format!("cause={cause}"))), "{errors:#?}");
    assert!(!errors.iter().any(|line| line.contains("secret")), "{errors:#?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn poison_says_what_this_node_lacks_where_the_store_cannot_tell_of_others() {
    let world = World::with(|store| store.plain());
    let runtime = world.start(activities(), calls_missing(), limited(2)).await;
    world.client.start_orchestration("o", "Order", "").await.expect("start");
    assert_eq!(cause_of(&world, "o").await, "orchestration Order is not registered on this node");
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    assert_eq!(cause_of(&world, "a").await, "activity Missing is not registered on this node");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn poison_says_that_the_lock_expired_when_every_process_died() {
    let world = World::new();
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    for n in 0..=3 {
        let options = RuntimeOptions { process: ProcessScope::simulated(n), ..limited(3) };
        let (node, store) = world.start_apart(activities(), calls_missing(), options).await;
        if n < 3 {
            store.plan("ack_orchestration_item", [Fault::Freeze]);
            store.has_frozen().await;
            node.kill();
            continue;
        }
        let cause = cause_of(&world, "a").await;
        assert_eq!(cause, "the lock expired 3 times: the process that ran it probably died or hung");
        node.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn poison_names_the_panic_and_the_log_does_not() {
    let log = Log::listen();
    let world = World::new();
    world.store.plan("ack_orchestration_item", vec![Fault::Panic; 3]);
    let runtime = world.start(activities(), calls_missing(), limited(3)).await;
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    let text = "the store panics in ack_orchestration_item";
    assert_eq!(cause_of(&world, "a").await, format!("processing panicked: {text}"));
    let errors = log.lines("ERROR");
    assert!(errors.iter().any(|line| line.contains("cause=processing panicked")), "{errors:#?}");
    assert!(!errors.iter().any(|line| line.contains(text)), "{errors:#?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn poison_names_the_event_that_does_not_decode() {
    let world = World::new();
    begin(&world, "u", "1.0.0").await;
    assert!(world.memory.corrupt_history("u"));
    go(&world, "u").await;
    let wide = RuntimeOptions { supported_replay_versions: Some(range("0.0.0", "99.0.0")), ..limited(2) };
    let runtime = world.start(activities(), waits_on("node"), wide).await;
    let cause = cause_of(&world, "u").await;
    assert!(cause.starts_with("stored rows cannot be decoded: event at position 1: "), "{cause}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_an_obstacle_of_its_own_names_the_last_one_of_others() {
    let world = World::new();
    let old = world.start(activities(), orchestrations(), limited(9)).await;
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    while world.store.given_back("abandon_orchestration_item").len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    old.shutdown(None).await;
    let strict = RuntimeOptions { process: ProcessScope::simulated(2), ..limited(2) };
    let new = world.start(activities(), calls_missing(), strict).await;
    let cause = "orchestration Calls is not registered on the node that fetched it";
    assert_eq!(cause_of(&world, "a").await, cause);
    new.shutdown(None).await;
}

/// Asks until something of the instance was given back.
async fn bounced(world: &World, instance: &str) -> Bounces {
    loop {
        let bounces = world.client.get_bounces(instance).await.expect("known");
        if bounces != Bounces::default() {
            return bounces;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_why_a_turn_was_given_back_and_when_it_is_tried_again() {
    let world = World::new();
    let runtime = world.start(activities(), calls_missing(), options()).await;
    world.client.start_orchestration_versioned("o", "Order", "2.0.0", "").await.expect("start");
    let turn = bounced(&world, "o").await.turn.expect("it was given back");
    let cause = BounceCause::OrchestrationNotRegistered {
        name: "Order".to_string(),
        version: Some("2.0.0".to_string()),
    };
    assert_eq!((&turn.cause, turn.attempts, turn.next_try_ms), (&cause, 1, Some(turn.at_ms + 100)));
    assert_eq!(
        turn.cause.to_string(),
        "orchestration Order 2.0.0 is not registered on the node that fetched it"
    );
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    let bounces = bounced(&world, "a").await;
    assert_eq!(bounces.turn, None, "its turn was committed");
    let [activity] = bounces.activities.as_slice() else { panic!("{bounces:?}") };
    assert_eq!((activity.execution_id, activity.activity_id, activity.name.as_str()), (1, 2, "Missing"));
    assert_eq!(activity.bounce.cause, BounceCause::ActivityNotRegistered { name: "Missing".to_string() });
    assert_eq!(activity.bounce.attempts, 1);
    assert!(world.client.get_bounces("unknown").await.is_err());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_of_a_version_that_is_not_replayed() {
    let world = World::with(|store| store.ignoring_filter());
    begin(&world, "v", "99.0.0").await;
    go(&world, "v").await;
    let narrow = RuntimeOptions { supported_replay_versions: Some(range("1.0.0", "2.0.0")), ..options() };
    let runtime = world.start(activities(), waits_on("node"), narrow).await;
    let turn = bounced(&world, "v").await.turn.expect("it was given back");
    let text = "the execution is pinned to 99.0.0, the node that fetched it replays ";
    assert!(turn.cause.to_string().starts_with(text), "{}", turn.cause);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_of_code_that_does_not_fit_the_history() {
    let world = World::new();
    let waits = |activity: &'static str| {
        orchestrations().register("Flow", move |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity(activity, "").await?;
            ctx.schedule_wait("go").await;
            Ok("done".to_string())
        })
    };
    let act = || {
        activities()
            .register("Old", |_, _| async { Ok(String::new()) })
            .register("New", |_, _| async { Ok(String::new()) })
    };
    let old = world.start(act(), waits("Old"), options()).await;
    world.client.start_orchestration("f", "Flow", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    old.shutdown(None).await;
    let hands_back = RuntimeOptions {
        on_nondeterminism: duroxide::runtime::OnNondeterminism::HandBack,
        process: ProcessScope::simulated(2),
        ..options()
    };
    let new = world.start(act(), waits("New"), hands_back).await;
    world.client.raise_event("f", "go", "").await.expect("raise");
    let turn = bounced(&world, "f").await.turn.expect("it was given back");
    let BounceCause::Nondeterministic { diff } = &turn.cause else { panic!("{turn:?}") };
    assert!(diff.contains("Old") && diff.contains("New"), "{diff}");
    new.shutdown(None).await;
}

/// The store was away when the activity was to be ended: its attempts begin anew, and so do its delays.
#[tokio::test(start_paused = true)]
async fn the_delays_of_an_activity_count_what_is_not_excused() {
    let log = Log::listen();
    let world = World::new();
    let runtime = world.start(activities(), calls_missing(), limited(3)).await;
    world.store.plan("ack_work_item", [Fault::FailBefore]);
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    cause_of(&world, "a").await;
    let bounces = world.store.given_back("abandon_work_item");
    let counted: Vec<_> = bounces.iter().filter(|given_back| !given_back.ignore_attempt).collect();
    let delays: Vec<u128> =
        counted.iter().map(|bounce| bounce.delay.expect("a backoff").as_millis()).collect();
    assert_eq!(delays, [100, 200, 400, 100, 200, 400]);
    let warnings = log.lines("WARN");
    for left in ["2", "1", "0"] {
        let text = format!("will poison in {left} more attempts");
        assert_eq!(warnings.iter().filter(|line| line.contains(&text)).count(), 2, "{warnings:#?}");
    }
    runtime.shutdown(None).await;
}

/// Looked at ten times a second, through backoffs of one to eight seconds.
#[tokio::test(start_paused = true)]
async fn work_that_backs_off_is_found_at_every_moment() {
    let world = World::new();
    let backoff = duroxide::runtime::UnregisteredBackoffConfig::default();
    let runtime = world
        .start(activities(), calls_missing(), RuntimeOptions { unregistered_backoff: backoff, ..options() })
        .await;
    world.client.start_orchestration("a", "Calls", "").await.expect("start");
    world.client.start_orchestration("o", "Order", "").await.expect("start");
    while world.store.given_back("abandon_work_item").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let found = world.client.find_unprocessable_work().await.expect("looked");
        let mut names: Vec<String> = found.iter().map(|work| work.what.to_string()).collect();
        names.sort();
        assert_eq!(names, ["activity 'Missing'", "orchestration 'Order'"], "after {:?}", begun.elapsed());
        assert!(found.iter().all(|work| work.oldest_age >= begun.elapsed()), "{found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.store.given_back("abandon_work_item").len(), 5, "after 0, 1, 3, 7 and 15 s");
    runtime.shutdown(None).await;
}
