//! Backoff belongs to the instance, not to the messages.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Store, activity, cancel, event, start};

/// An instance that was given back with a delay waits for it.
pub async fn an_abandoned_instance_waits_for_its_delay(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(store.lock)).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    store.expect_no_turn().await;
    factory.advance(store.lock / 2).await;
    assert_eq!(store.turn_of("a").await.attempts, 2);
}

/// Messages that arrive during the backoff wait with the instance, so that they do not use up its attempts.
pub async fn a_busy_inbox_does_not_use_up_the_attempts(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(store.lock)).await;
    for n in 0..20 {
        store.send(event("a", &n.to_string())).await;
        store.expect_no_turn().await;
    }
    assert_eq!(store.max_attempts("a").await, 1);
    factory.advance(store.lock).await;
    let turn = store.turn_of("a").await;
    assert_eq!((turn.item.messages.len(), turn.attempts), (21, 2));
}

/// A message that arrived during the turn waits for the backoff as well.
pub async fn a_message_of_the_turn_s_time_waits_for_the_backoff(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "late")).await;
    store.abandon(&turn, Some(store.lock)).await;
    store.expect_no_turn().await;
    factory.advance(store.lock).await;
    assert_eq!(store.turn_of("a").await.item.messages.len(), 2);
}

/// Who cancels need not wait for the backoff.
pub async fn a_cancel_ends_the_backoff(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(store.lock)).await;
    store.send(cancel("a")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a"), cancel("a")]);
}

/// A cancel that arrives while the turn runs is not delayed by the backoff at its end.
pub async fn a_cancel_during_the_turn_prevents_the_backoff(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.send(cancel("a")).await;
    store.abandon(&turn, Some(store.lock)).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a"), cancel("a")]);
    // The node has seen the cancel and backs off all the same: that holds.
    store.abandon(&turn, Some(store.lock)).await;
    store.expect_no_turn().await;
}

/// One instance's backoff is nothing to another.
pub async fn a_backoff_delays_no_other_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), start("b")]).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(store.lock)).await;
    store.turn_of("b").await;
}

/// A turn that is committed ends the backoff for good.
pub async fn a_committed_turn_clears_the_backoff(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(store.lock)).await;
    store.send(cancel("a")).await;
    let turn = store.turn_of("a").await;
    store.pass(&turn).await;
    store.send(event("a", "go")).await;
    store.turn_of("a").await;
}

/// A work item that was given back with a delay waits for it, alone.
pub async fn an_abandoned_work_item_waits_for_its_delay(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3)])).await;
    let work = store.work().await;
    assert_eq!(work.item, activity("a", 2));
    store.abandon_work(&work, Some(store.lock), false).await;
    let other = store.work().await;
    assert_eq!(other.item, activity("a", 3));
    store.complete(&other).await;
    store.expect_no_work().await;
    factory.advance(store.lock / 2).await;
    store.expect_no_work().await;
    factory.advance(store.lock / 2).await;
    assert_eq!(store.work().await.attempts, 2);
}

/// A backoff of zero is none.
pub async fn a_delay_of_zero_is_no_delay(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(Duration::ZERO)).await;
    store.turn_of("a").await;
    let work = store.work().await;
    store.abandon_work(&work, Some(Duration::ZERO), false).await;
    store.work().await;
}
