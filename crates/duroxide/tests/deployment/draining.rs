//! Histories that do not decode end as poison, and a wide range reaches those that nobody else would.

use duroxide::{ErrorDetails, PoisonMessageType, RuntimeOptions};

use crate::common::{Faulty, World, activities, options};
use crate::pinned::{begin, go, range, waits_on};

/// The instance was given back `max` times and then poisoned because its history does not decode.
async fn check_drained(world: &World, instance: &str, max: u32) {
    let details = world.failure(instance).await;
    let text = format!(
        "poison: orchestration {instance} history deserialization failed after {} attempts (max {max}): event at position 1: ",
        max + 1
    );
    assert!(details.display_message().starts_with(&text), "{}", details.display_message());
    let ErrorDetails::Poison { attempt_count, max_attempts, message_type, .. } = details else {
        panic!("{details:?}")
    };
    assert_eq!((attempt_count, max_attempts), (max + 1, max));
    let PoisonMessageType::FailedDeserialization { instance: named, execution_id: 1, error } = message_type
    else {
        panic!("{message_type:?}")
    };
    assert!(named == instance && error.starts_with("event at position 1: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn wide_supported_range_drains_stuck_items_via_deserialization_error() {
    let world = World::new();
    for instance in ["unreadable", "unreadable too", "readable"] {
        begin(&world, instance, "99.0.0").await;
    }
    assert!(world.memory.corrupt_history("unreadable") && world.memory.corrupt_history("unreadable too"));
    for instance in ["unreadable", "unreadable too", "readable"] {
        go(&world, instance).await;
    }
    // No node can do it: it stays as it is, for as long as it takes.
    let node = world.start(activities(), waits_on("usual node"), options()).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    for instance in ["unreadable", "unreadable too", "readable"] {
        assert_eq!(world.memory.max_attempt_count(instance), 0, "{instance}: never fetched");
    }
    let wide = RuntimeOptions {
        supported_replay_versions: Some(range("0.0.0", "99.0.0")),
        max_attempts: 3,
        ..options()
    };
    let draining = world.start(activities(), waits_on("draining node"), wide).await;
    assert_eq!(world.output("readable").await, "draining node", "what decodes is processed");
    for instance in ["unreadable", "unreadable too"] {
        check_drained(&world, instance, 3).await;
    }
    assert_eq!(world.store.given_back("abandon_orchestration_item").len(), 6, "three times each");
    node.shutdown(None).await;
    draining.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn fetch_deserialization_error_eventually_reaches_poison() {
    for max_attempts in [1, 3, 10] {
        let world = World::with(Faulty::ignoring_filter);
        begin(&world, "broken", "1.0.0").await;
        assert!(world.memory.corrupt_history("broken"));
        let limited = RuntimeOptions { max_attempts, ..options() };
        let runtime = world.start(activities(), waits_on("here"), limited).await;
        go(&world, "broken").await;
        check_drained(&world, "broken", max_attempts).await;
        let times = usize::try_from(max_attempts).expect("small");
        assert_eq!(world.store.given_back("abandon_orchestration_item").len(), times);
        assert_eq!(world.client.get_instance_info("broken").await.expect("read").status, "Failed");
        runtime.shutdown(None).await;
    }
}
