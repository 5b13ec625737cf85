//! Messages for instances that do not exist, not yet or no more.

use std::time::Duration;

use duroxide_core::{OrchestrationStatus, limits};

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, child_failed, completed, event, expect_not_found, queue_message, start,
    timer,
};

/// Events and queue messages that come before the start are admitted behind it, in their order.
pub async fn events_before_the_start_are_kept_for_it(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let early =
        [event("a", "1"), queue_message("a", "2"), queue_message("a", "3"), event("a", "4"), event("a", "5")];
    store.send_all(early.clone()).await;
    store.send(event("b", "for another")).await;
    store.expect_no_turn().await;
    store.send(start("a")).await;
    store.send(event("a", "after")).await;
    let turn = store.turn_of("a").await;
    let mut expected = vec![start("a")];
    expected.extend(early);
    expected.push(event("a", "after"));
    assert_eq!(turn.item.messages, expected);
    assert_eq!(turn.attempts, 1);
    store.pass(&turn).await;
    store.expect_no_turn().await;
}

/// Time that passes before the start changes nothing about the order.
pub async fn early_events_stay_behind_a_start_that_comes_later(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(event("a", "early")).await;
    factory.advance(Duration::from_millis(20)).await;
    store.send(start("a")).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![start("a"), event("a", "early")]);
}

/// A message for an id that does not exist stops nothing else.
pub async fn a_message_for_an_unknown_instance_blocks_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let strays = [
        event("nobody", "x"),
        queue_message("nobody", "x"),
        cancel("nobody"),
        completed("nobody", 2),
        child_failed("nobody", 2, "x"),
        timer("nobody", 2, 1),
    ];
    store.send_all(strays).await;
    store.expect_no_turn().await;
    factory.advance(Duration::from_millis(5)).await;
    store.send(start("a")).await;
    store.turn_of("a").await;
    store.expect_no_turn().await;
}

/// Completions, timers and cancels for an id that does not exist are dropped: a later start does not see them.
pub async fn what_nobody_can_want_is_dropped(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([cancel("a"), completed("a", 2), child_failed("a", 2, "x"), timer("a", 2, 1)]).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a")]);
    store.pass(&turn).await;
    store.expect_no_turn().await;
}

/// A kept message makes no instance.
pub async fn an_early_event_is_no_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(event("a", "early")).await;
    assert_eq!(store.provider.orchestration_status("a").await.expect("read"), OrchestrationStatus::NotFound);
    assert_eq!(store.history("a").await, vec![]);
    assert_eq!(store.provider.get_instance_stats("a").await.expect("read"), None);
    assert_eq!(store.admin().list_instances().await.expect("read"), Vec::<String>::new());
    expect_not_found(store.admin().get_instance_info("a").await);
    assert_eq!(store.admin().get_queue_depths().await.expect("read").orchestrator_queue, 0);
}

/// Whatever comes for a finished instance is dropped, and the sender is none the worse.
pub async fn messages_for_a_finished_instance_are_dropped(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("a").await;
    let late = [event("a", "x"), queue_message("a", "x"), cancel("a"), completed("a", 2), timer("a", 2, 1)];
    store.send_all(late).await;
    store.expect_no_turn().await;
    assert_eq!(store.admin().get_queue_depths().await.expect("read").orchestrator_queue, 0);
    assert_eq!(store.history("a").await.len(), 2);
}

/// What is left in the inbox when an instance ends is dropped with it.
pub async fn the_end_of_an_instance_empties_its_inbox(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.send_all([event("a", "late"), cancel("a"), timer("a", 2, u64::MAX)]).await;
    let commit = Commit::of(&turn).messages([event("a", "to itself")]).completes("done");
    store.commit(&turn, commit).await;
    store.expect_no_turn().await;
    let depths = store.admin().get_queue_depths().await.expect("read");
    assert_eq!((depths.orchestrator_queue, depths.timer_queue), (0, 0));
}

/// The completion of an activity whose instance is gone is dropped; the worker's ack succeeds.
pub async fn a_completion_for_nobody_is_acked_and_dropped(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.queue_work(activity("nobody", 2)).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)]).completes("done")).await;
    for _ in 0..2 {
        let work = store.work().await;
        store.complete(&work).await;
    }
    store.expect_no_work().await;
    store.expect_no_turn().await;
}

/// A message that a turn sends to an id without an instance is kept as one sent by a client is.
pub async fn a_turn_s_message_to_a_later_instance_is_kept(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.messages([event("b", "early"), cancel("c")])).await;
    store.expect_no_turn().await;
    store.send(start("b")).await;
    assert_eq!(store.turn_of("b").await.item.messages, vec![start("b"), event("b", "early")]);
}

/// Kept messages are kept for seven days.
pub async fn early_events_expire(factory: &dyn ProviderFactory) {
    if !factory.has_manual_clock() {
        return;
    }
    let store = Store::new(factory).await;
    let retention = Duration::from_millis(limits::EARLY_MESSAGE_RETENTION_MS);
    store.send(event("a", "old")).await;
    factory.advance(Duration::from_millis(1)).await;
    store.send(event("a", "young")).await;
    factory.advance(retention).await;
    store.send(start("a")).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![start("a"), event("a", "young")]);
}

/// Deleting an instance does not delete what was sent early for the next of its id; nor does it invent any.
pub async fn early_events_outlive_a_deletion(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.finish("a").await;
    store.admin().delete_instance("a", false).await.expect("deleted");
    store.send(event("a", "for the next")).await;
    let ids = ["a".to_string()];
    store.admin().delete_instances_atomic(&ids, true).await.expect("nothing to delete");
    store.send(start("a")).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![start("a"), event("a", "for the next")]);
}
