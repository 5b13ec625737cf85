//! Attempts are counted when a row is fetched, not when something comes of it, so that a runtime can end what
//! fails again and again.

use duroxide_core::{ErrorDetails, OrchestrationStatus, PoisonMessageType};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, child_failed, event, failed_event, start, start_child, started,
};

fn poison(instance: &str, attempt_count: u32) -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: instance.to_string(), execution_id: 1 },
        message: "[]".to_string(),
    }
}

/// A fetch counts, whether it ends by an abandon or by the loss of the lock.
pub async fn every_fetch_is_an_attempt(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    assert_eq!(store.max_attempts("a").await, 0);
    let turn = store.turn_of("a").await;
    assert_eq!(turn.attempts, 1);
    assert_eq!(store.max_attempts("a").await, 1);
    store.abandon(&turn, None).await;
    assert_eq!(store.turn_of("a").await.attempts, 2);
    store.expire_locks().await;
    assert_eq!(store.turn_of("a").await.attempts, 3);
    assert_eq!(store.max_attempts("a").await, 3);
}

/// The count returned is the highest among the messages; each has its own.
pub async fn the_count_is_the_highest_among_the_messages(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "late")).await;
    store.abandon(&turn, None).await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages.len(), turn.attempts), (2, 2));
    store.pass(&turn).await;
    store.send(event("a", "new")).await;
    assert_eq!(store.turn_of("a").await.attempts, 1, "a new message begins at one");
}

/// A message that was not fetched was not attempted.
pub async fn a_message_that_was_not_fetched_is_not_counted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "first")).await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "second")).await;
    store.pass(&turn).await;
    assert_eq!(store.max_attempts("a").await, 0);
    assert_eq!(store.turn_of("a").await.attempts, 1);
}

/// `ignore_attempt` takes back what this fetch counted, and no more.
pub async fn ignoring_an_attempt_takes_back_one(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, None).await;
    for _ in 0..3 {
        let turn = store.turn_of("a").await;
        assert_eq!(turn.attempts, 2);
        store.abandon_uncounted(&turn).await;
        assert_eq!(store.max_attempts("a").await, 1);
    }
}

/// `ignore_attempt` does not touch messages that the fetch did not return.
pub async fn ignoring_an_attempt_concerns_the_messages_of_its_fetch(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "late")).await;
    store.abandon_uncounted(&turn).await;
    assert_eq!(store.max_attempts("a").await, 0);
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages.len(), turn.attempts), (2, 1));
}

/// Work items are counted the same way, each for itself.
pub async fn every_fetch_of_a_work_item_is_an_attempt(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let work = store.work().await;
    assert_eq!(work.attempts, 1);
    store.abandon_work(&work, None, false).await;
    let work = store.work().await;
    assert_eq!(work.attempts, 2);
    store.abandon_work(&work, None, true).await;
    assert_eq!(store.work().await.attempts, 2);
    store.expire_locks().await;
    assert_eq!(store.work().await.attempts, 3);
    store.queue_work(activity("a", 3)).await;
    assert_eq!(store.work().await.attempts, 1);
}

/// The count goes on past any limit; the item stays available, so that the runtime can end it.
pub async fn the_count_grows_past_every_limit(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "bad")).await;
    for attempt in 1..=25 {
        let turn = store.turn_of("a").await;
        assert_eq!(turn.attempts, attempt);
        assert_eq!(turn.item.messages, vec![event("a", "bad")]);
        store.abandon(&turn, None).await;
        let work = store.work().await;
        assert_eq!(work.attempts, attempt);
        store.abandon_work(&work, None, false).await;
    }
}

/// A count lost with the lock is not lost: a process that dies each time is found out.
pub async fn attempts_that_end_in_a_crash_are_counted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "deadly")).await;
    for attempt in 1..=3 {
        assert_eq!(store.turn_of("a").await.attempts, attempt);
        assert_eq!(store.work().await.attempts, attempt);
        store.expire_locks().await;
    }
}

/// An instance poisoned in its first turn can be read as failed, and its parent is told.
pub async fn a_first_turn_can_end_as_poison(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("parent").await;
    store.send(start_child("child", "parent", 2)).await;
    let turn = store.turn_of("child").await;
    let details = poison("child", 11);
    let commit = Commit::of(&turn)
        .events([started("child", 1), failed_event(2, "child", &details)])
        .messages([child_failed("parent", 2, "poisoned")])
        .fails("poisoned");
    store.commit(&turn, commit).await;
    let seen = store.provider.orchestration_status("child").await.expect("read");
    assert_eq!(seen, OrchestrationStatus::Failed { details, custom_status: None, custom_status_version: 0 });
    assert_eq!(store.turn_of("parent").await.item.messages, vec![child_failed("parent", 2, "poisoned")]);
}

/// A poisoned neighbour costs the others nothing.
pub async fn a_poisoned_instance_leaves_the_others_alone(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("bad")).await;
    for _ in 0..5 {
        let turn = store.turn_of("bad").await;
        store.abandon(&turn, None).await;
    }
    let bad = store.turn_of("bad").await;
    store.send(start("good")).await;
    assert_eq!(store.turn_of("good").await.attempts, 1);
    store.commit(&bad, Commit::of(&bad).fails("poisoned")).await;
    store.expect_no_turn().await;
}
