//! Locks expire by the store's clock, and only the holder of a live one commits.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, completed, event, expect_lock_lost, scheduled, start, started,
};

/// An instance whose lock expired is ready again, with what arrived meanwhile.
pub async fn an_expired_lock_makes_the_instance_ready_again(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let lost = store.turn_of("a").await;
    store.send(event("a", "late")).await;
    store.expect_no_turn().await;
    store.expire_locks().await;
    let turn = store.turn_of("a").await;
    assert_ne!(turn.token, lost.token);
    assert_eq!(turn.attempts, 2);
    assert_eq!(turn.item.messages, vec![start("a"), event("a", "late")]);
}

/// A lock holds up to the last millisecond of its time and not in the next.
pub async fn a_lock_holds_exactly_as_long_as_it_says(factory: &dyn ProviderFactory) {
    if !factory.has_manual_clock() {
        return;
    }
    let store = Store::new(factory).await;
    let moment = Duration::from_millis(1);
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let work = store.work().await;
    factory.advance(store.lock - moment).await;
    store.expect_no_turn().await;
    store.provider.renew_orchestration_item_lock(&turn.token, store.lock).await.expect("still held");
    store.provider.renew_work_item_lock(&work.token, store.lock).await.expect("still held");
    factory.advance(store.lock - moment).await;
    store.expect_no_turn().await;
    factory.advance(moment).await;
    expect_lock_lost(store.try_commit(&turn, Commit::of(&turn)).await);
    expect_lock_lost(store.provider.ack_work_item(&work.token, None).await);
    store.turn_of("a").await;
    assert_eq!(store.work().await.item, activity("a", 3), "it has waited longest");
    assert_eq!(store.work().await.item, activity("a", 2));
}

/// A lock that is renewed in time is not lost.
pub async fn a_renewed_lock_holds_longer(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let work = store.work().await;
    for _ in 0..4 {
        store.provider.renew_orchestration_item_lock(&turn.token, store.lock).await.expect("held");
        store.provider.renew_work_item_lock(&work.token, store.lock).await.expect("held");
        factory.advance(store.lock / 2).await;
        store.expect_no_turn().await;
        store.expect_no_work().await;
    }
    store.complete(&work).await;
    store.pass(&turn).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![completed("a", 2)]);
}

/// Who lost the lock changes nothing, even while nobody else holds it.
pub async fn the_holder_of_an_expired_lock_changes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let lost = store.turn_of("a").await;
    store.expire_locks().await;
    let commit = Commit::of(&lost).events([started("a", 1)]).work([activity("a", 2)]).completes("wrong");
    expect_lock_lost(store.try_commit(&lost, commit).await);
    expect_lock_lost(store.provider.renew_orchestration_item_lock(&lost.token, store.lock).await);
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    expect_lock_lost(store.provider.abandon_orchestration_item(&lost.token, Some(week), true).await);
    assert_eq!(store.history("a").await, vec![]);
    store.expect_no_work().await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.attempts, 2, "an abandon after the lock was lost takes nothing back");
}

/// The loser of a lock does not disturb the one who holds it now.
pub async fn the_former_holder_does_not_disturb_the_new_one(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let lost = store.turn_of("a").await;
    store.expire_locks().await;
    let held = store.turn_of("a").await;
    let commit =
        |turn| Commit::of(turn).events([started("a", 1), scheduled(2, "a")]).work([activity("a", 2)]);
    expect_lock_lost(store.try_commit(&lost, commit(&lost)).await);
    expect_lock_lost(store.provider.abandon_orchestration_item(&lost.token, None, false).await);
    expect_lock_lost(store.provider.renew_orchestration_item_lock(&lost.token, store.lock).await);
    store.expect_no_turn().await;
    store.commit(&held, commit(&held)).await;
    assert_eq!(store.history("a").await.len(), 2);
    assert_eq!(store.admin().get_queue_depths().await.expect("read").worker_queue, 1);
}

/// The same for activities: a late worker completes nothing.
pub async fn the_former_holder_of_a_work_item_completes_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let lost = store.work().await;
    store.expire_locks().await;
    expect_lock_lost(store.provider.ack_work_item(&lost.token, Some(completed("a", 2))).await);
    let held = store.work().await;
    assert_eq!(held.attempts, 2);
    expect_lock_lost(store.provider.ack_work_item(&lost.token, Some(completed("a", 2))).await);
    expect_lock_lost(store.provider.abandon_work_item(&lost.token, None, true).await);
    expect_lock_lost(store.provider.renew_work_item_lock(&lost.token, store.lock).await);
    store.expect_no_turn().await;
    store.complete(&held).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![completed("a", 2)]);
}

/// A lock of any length can be asked for; arithmetic at its end does not go wrong.
pub async fn a_lock_may_be_as_long_as_one_likes(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.provider.renew_orchestration_item_lock(&turn.token, Duration::MAX).await.expect("held");
    let work = store.work().await;
    store.provider.renew_work_item_lock(&work.token, Duration::MAX).await.expect("held");
    store.expire_locks().await;
    store.expect_no_turn().await;
    store.expect_no_work().await;
    store.abandon_work(&work, Some(Duration::MAX), false).await;
    store.abandon(&turn, Some(Duration::MAX)).await;
    store.expire_locks().await;
    store.expect_no_turn().await;
    store.expect_no_work().await;
}
