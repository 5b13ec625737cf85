//! Activities that a turn gives up, and instances that somebody cancels.

use duroxide_core::limits::MAX_MESSAGES_PER_FETCH;

use super::ProviderFactory;
use super::fixture::{
    Commit, Store, activity, cancel, completed, event, expect_lock_lost, named, queue_message, scheduled,
    start, start_child,
};

/// The turn that gives up an activity deletes it, whether it waits or runs.
pub async fn a_turn_deletes_the_activities_that_it_cancels(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3), activity("a", 4)])).await;
    let runs = store.work().await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).cancels([named("a", 2), named("a", 3)])).await;
    expect_lock_lost(store.provider.renew_work_item_lock(&runs.token, store.lock).await);
    expect_lock_lost(store.provider.ack_work_item(&runs.token, Some(completed("a", 2))).await);
    store.expect_no_turn().await;
    assert_eq!(store.work().await.item, activity("a", 4));
    store.expire_locks().await;
    assert_eq!(store.work().await.item, activity("a", 4));
    store.expect_no_work().await;
}

/// To give up what is not queued (any more) is no mistake.
pub async fn cancelling_what_is_not_queued_is_no_mistake(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let work = store.work().await;
    store.complete(&work).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).cancels([named("a", 2), named("a", 99), named("nobody", 1)])).await;
    store.expect_no_work().await;
}

/// An activity that is scheduled and given up in one turn never runs.
pub async fn an_activity_scheduled_and_cancelled_in_one_turn_never_runs(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store
        .begin_with("a", |commit| {
            commit
                .events([scheduled(2, "a")])
                .work([activity("a", 2), activity("a", 3)])
                .cancels([named("a", 2)])
        })
        .await;
    assert_eq!(store.work().await.item, activity("a", 3));
    store.expect_no_work().await;
}

/// The store deletes the activities it is told to delete and no others, also at the end of an instance.
pub async fn an_ended_instance_keeps_the_activities_that_it_did_not_cancel(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).cancels([named("a", 3)]).completes("done")).await;
    assert_eq!(store.work().await.item, activity("a", 2));
    store.expect_no_work().await;
}

/// Activities are named by instance, execution and id; a cancellation hits none but its own.
pub async fn a_cancellation_hits_only_what_it_names(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("b", |commit| commit.work([activity("b", 2)])).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let mut other_execution = named("a", 2);
    other_execution.execution_id = 2;
    store.commit(&turn, Commit::of(&turn).cancels([other_execution])).await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).cancels([named("a", 2)])).await;
    assert_eq!(store.work().await.item, activity("b", 2));
    store.expect_no_work().await;
}

/// A cancel reaches an instance that has not begun, has begun, or runs a turn right now.
pub async fn a_cancel_reaches_the_instance(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), cancel("a")]).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a"), cancel("a")]);
    store.send(cancel("a")).await;
    store.pass(&turn).await;
    assert_eq!(store.turn_of("a").await.item.messages, vec![cancel("a")]);
}

/// A cancel comes with the first fetch after it, also when more messages wait than one fetch takes. The messages keep
/// their order, and none is lost or comes twice.
pub async fn a_cancel_is_fetched_before_a_deep_inbox(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("sender").await;
    store.begin("a").await;
    store.send(event("sender", "go")).await;
    let turn = store.turn_of("sender").await;
    let numbered: Vec<_> =
        (0..=MAX_MESSAGES_PER_FETCH).map(|number| queue_message("a", &number.to_string())).collect();
    store.commit(&turn, Commit::of(&turn).messages(numbered.clone())).await;
    store.send(cancel("a")).await;
    let first = store.turn_of("a").await;
    assert_eq!(first.item.messages.len(), MAX_MESSAGES_PER_FETCH);
    let (cancels, mut others): (Vec<_>, Vec<_>) =
        first.item.messages.iter().cloned().partition(|message| *message == cancel("a"));
    assert_eq!(cancels.len(), 1, "the first fetch brings the cancel");
    store.pass(&first).await;
    let second = store.turn_of("a").await;
    others.extend(second.item.messages.iter().cloned());
    assert_eq!(others, numbered);
    store.pass(&second).await;
    store.expect_no_turn().await;
}

/// The same for a cancel that comes while a turn holds messages: the turn's ack does not take it away.
pub async fn a_cancel_during_a_turn_is_fetched_before_a_deep_inbox(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("sender").await;
    store.begin("a").await;
    store.send(event("sender", "go")).await;
    let turn = store.turn_of("sender").await;
    let numbered = (0..=2 * MAX_MESSAGES_PER_FETCH).map(|number| queue_message("a", &number.to_string()));
    store.commit(&turn, Commit::of(&turn).messages(numbered)).await;
    let held = store.turn_of("a").await;
    store.send(cancel("a")).await;
    store.pass(&held).await;
    let next = store.turn_of("a").await;
    assert!(next.item.messages.contains(&cancel("a")), "the next fetch brings the cancel");
    store.pass(&next).await;
    let rest = [2 * MAX_MESSAGES_PER_FETCH - 1, 2 * MAX_MESSAGES_PER_FETCH];
    let rest = rest.map(|number| queue_message("a", &number.to_string()));
    assert_eq!(store.turn_of("a").await.item.messages, rest);
}

/// A turn cancels its own children and nobody else, also in the turn whose start of the id came too late.
pub async fn a_turn_cancels_only_its_own_children(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("other").await;
    let sent = [start_child("mine", "a", 2), start_child("other", "a", 3), cancel("mine"), cancel("other")];
    store.begin_with("a", |commit| commit.messages(sent)).await;
    let mut turns = Vec::new();
    while let Some(turn) = store.fetch().await {
        turns.push((turn.item.instance.clone(), turn.item.messages.clone()));
    }
    turns.sort_by(|(one, _), (other, _)| one.cmp(other));
    let [(told, answers), (cancelled, messages)] = turns.as_slice() else { panic!("{turns:?}") };
    assert_eq!((told.as_str(), cancelled.as_str()), ("a", "mine"));
    assert_eq!(answers.len(), 1, "the answer to the start of an id that was taken");
    assert_eq!(*messages, vec![start_child("mine", "a", 2), cancel("mine")]);
}
