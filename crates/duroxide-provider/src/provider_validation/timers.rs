//! Timers: messages that are visible from their due time on.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Commit, Store, completed_event, event, failed_event, happened, start, timer};
use crate::EventKind;

/// The store's time, as far as it can be seen from outside: when an instance was created.
async fn now_ms(store: &Store<'_>) -> u64 {
    store.send(start("clock")).await;
    let created = store.admin().get_instance_info("clock").await.expect("read").created_at;
    store.admin().delete_instance("clock", true).await.expect("deleted");
    created
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("short")
}

/// A timer is visible from its due time on and not before.
pub async fn a_timer_is_visible_from_its_due_time_on(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let due = now_ms(&store).await + ms(store.lock);
    store.begin_with("a", |commit| commit.messages([timer("a", 2, due)])).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![timer("a", 2, due)]);
}

/// A timer whose time has passed is visible at once.
pub async fn a_timer_of_the_past_is_visible_at_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.messages([timer("a", 2, 0)])).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![timer("a", 2, 0)]);
}

/// Timers are admitted in the order of their due times.
pub async fn timers_fire_in_the_order_of_their_due_times(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let timers = [timer("a", 2, 300), timer("a", 3, 100), timer("a", 4, 200), timer("a", 5, 100)];
    store.begin_with("a", |commit| commit.messages(timers)).await;
    let expected = vec![timer("a", 3, 100), timer("a", 5, 100), timer("a", 4, 200), timer("a", 2, 300)];
    assert_eq!(store.turn_of("a").await.item.messages, expected);
}

/// A timer that waits keeps no message waiting, nor the other way round.
pub async fn a_waiting_timer_delays_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let due = now_ms(&store).await + ms(store.lock);
    store.begin_with("a", |commit| commit.messages([timer("a", 2, due)])).await;
    store.send(event("a", "now")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![event("a", "now")]);
    store.pass(&turn).await;
    store.expect_no_turn().await;
    factory.advance(store.lock).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![timer("a", 2, due)]);
}

/// A timer that the program gave up is deleted, alone.
pub async fn a_cancelled_timer_is_deleted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let due = now_ms(&store).await + ms(store.lock);
    store.begin_with("a", |commit| commit.messages([timer("a", 2, due), timer("a", 3, due)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let mut given_up = happened(4, "a", EventKind::TimerCancelled { reason: "dropped_future".to_string() });
    given_up.source_event_id = Some(2);
    store.commit(&turn, Commit::of(&turn).events([given_up])).await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read").timer_queue, 1);
    factory.advance(store.lock).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![timer("a", 3, due)]);
}

/// The end of an execution deletes its timers.
pub async fn the_end_of_an_execution_deletes_its_timers(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for instance in ["completed", "failed", "other"] {
        store.begin_with(instance, |commit| commit.messages([timer(instance, 2, u64::MAX)])).await;
    }
    store.send_all([event("completed", "go"), event("failed", "go")]).await;
    let turn = store.turn_of("completed").await;
    let ended = completed_event(3, "completed", 1, "x");
    store.commit(&turn, Commit::of(&turn).events([ended]).completes("x")).await;
    let turn = store.turn_of("failed").await;
    let ended = failed_event(3, "failed", &duroxide_core::ErrorDetails::orchestration_failed("x"));
    store.commit(&turn, Commit::of(&turn).events([ended]).fails("x")).await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read").timer_queue, 1);
}

/// A timer that is due at the end of time waits, and breaks nothing.
pub async fn a_timer_may_be_due_at_the_end_of_time(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.messages([timer("a", 2, u64::MAX)])).await;
    store.send_after(event("a", "never"), Duration::MAX).await;
    store.expect_no_turn().await;
    let depths = store.admin().get_queue_depths().await.expect("read");
    assert_eq!((depths.timer_queue, depths.orchestrator_queue), (1, 1));
    store.send(event("a", "now")).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![event("a", "now")]);
}
