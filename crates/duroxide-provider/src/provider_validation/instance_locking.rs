//! One turn of an instance at a time.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Commit, LONG, Store, event, expect_lock_lost, start};

/// While a turn runs, nobody else gets the instance, whatever arrives for it.
pub async fn a_locked_instance_is_not_fetched_again(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let _turn = store.turn_of("a").await;
    store.expect_no_turn().await;
    store.send(event("a", "late")).await;
    store.expect_no_turn().await;
}

/// The lock of one instance is nothing to another.
pub async fn instances_are_locked_one_by_one(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), start("b")]).await;
    let first = store.turn_of("a").await;
    let second = store.turn_of("b").await;
    assert_ne!(first.token, second.token);
    store.pass(&second).await;
    store.expect_no_turn().await;
    store.pass(&first).await;
}

/// What arrives during a turn is neither part of it nor lost with it.
pub async fn messages_that_arrive_during_a_turn_wait_for_the_next(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![start("a")]);
    store.send(event("a", "late")).await;
    store.pass(&turn).await;
    let turn = store.turn_of("a").await;
    assert_eq!(turn.item.messages, vec![event("a", "late")]);
    assert_eq!(turn.attempts, 1);
    store.pass(&turn).await;
    store.expect_no_turn().await;
}

/// Of many that fetch at once, one gets the instance.
pub async fn concurrent_fetches_lock_an_instance_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let mut fetches = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (provider, lock) = (store.provider.clone(), store.lock);
        fetches.spawn(async move { provider.fetch_orchestration_item(lock, Duration::ZERO, None).await });
    }
    let mut winners = 0;
    while let Some(fetched) = fetches.join_next().await {
        winners += usize::from(fetched.expect("no panic").expect("a fetch does not fail").is_some());
    }
    assert_eq!(winners, 1);
    assert_eq!(store.max_attempts("a").await, 1);
}

/// Many that fetch and commit at once share the instances without loss or repetition.
pub async fn concurrent_turns_of_many_instances_are_each_committed_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for n in 0..40 {
        store.send(start(&format!("i{n}"))).await;
    }
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let provider = store.provider.clone();
        nodes.spawn(async move {
            let mut done = Vec::new();
            while let Some((item, token, attempts)) = provider
                .fetch_orchestration_item(LONG, Duration::ZERO, None)
                .await
                .expect("a fetch does not fail")
            {
                assert_eq!(attempts, 1);
                provider
                    .ack_orchestration_item(&token, 1, vec![], vec![], vec![], Default::default(), vec![])
                    .await
                    .expect("the turn is committed");
                done.push(item.instance);
            }
            done
        });
    }
    let mut all = Vec::new();
    while let Some(done) = nodes.join_next().await {
        all.extend(done.expect("no panic"));
    }
    all.sort();
    let mut expected: Vec<String> = (0..40).map(|n| format!("i{n}")).collect();
    expected.sort();
    assert_eq!(all, expected);
}

/// A token that was never given out, however it looks, holds nothing.
pub async fn an_unknown_token_is_a_lost_lock(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let almost = format!("{}0", turn.token);
    for token in ["", "x", "1", "-1", "1-1", "1.1.1", "99999999999999999999", "ü", "1-0", &almost] {
        let commit = Commit::of(&turn);
        let acked = store
            .provider
            .ack_orchestration_item(token, 1, vec![], vec![], vec![], commit.metadata, vec![])
            .await;
        expect_lock_lost(acked);
        expect_lock_lost(store.provider.abandon_orchestration_item(token, None, false).await);
        expect_lock_lost(store.provider.renew_orchestration_item_lock(token, store.lock).await);
    }
    store.expect_no_turn().await;
    store.pass(&turn).await;
}

/// Every call that names a token fails with a text that says so: programs look for it.
pub async fn the_text_of_a_lost_lock_names_the_token(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let (provider, lock) = (&store.provider, store.lock);
    let metadata = crate::ExecutionMetadata::default();
    let acked = provider.ack_orchestration_item("1-1", 1, vec![], vec![], vec![], metadata, vec![]).await;
    expect_lock_lost(acked);
    expect_lock_lost(provider.abandon_orchestration_item("1-1", None, false).await);
    expect_lock_lost(provider.renew_orchestration_item_lock("1-1", lock).await);
    expect_lock_lost(provider.ack_work_item("1-1", None).await);
    expect_lock_lost(provider.abandon_work_item("1-1", None, false).await);
    expect_lock_lost(provider.renew_work_item_lock("1-1", lock).await);
    if provider.keeps_progress() {
        expect_lock_lost(provider.record_progress("1-1", "").await);
    }
}

/// A token ends with its lock: with the ack, with the abandon, and for the other queue it never was one.
pub async fn a_token_holds_for_one_lock_only(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let given_back = store.turn_of("a").await;
    store.abandon(&given_back, None).await;
    let turn = store.turn_of("a").await;
    assert_ne!(turn.token, given_back.token);
    expect_lock_lost(store.try_commit(&given_back, Commit::of(&given_back)).await);
    expect_lock_lost(store.provider.renew_orchestration_item_lock(&given_back.token, store.lock).await);
    expect_lock_lost(store.provider.abandon_orchestration_item(&given_back.token, None, true).await);
    expect_lock_lost(store.provider.ack_work_item(&turn.token, None).await);
    expect_lock_lost(store.provider.renew_work_item_lock(&turn.token, store.lock).await);
    store.pass(&turn).await;
    expect_lock_lost(store.provider.renew_orchestration_item_lock(&turn.token, store.lock).await);
    expect_lock_lost(store.provider.abandon_orchestration_item(&turn.token, None, false).await);
}

/// What is given back without a delay may be fetched at once, with the same messages in the same order.
pub async fn an_abandoned_turn_is_ready_at_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), event("a", "1"), event("a", "2")]).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, None).await;
    let again = store.turn_of("a").await;
    assert_eq!(again.item, turn.item);
    assert_eq!(again.attempts, 2);
}

/// The instance that has been ready longest comes first.
pub async fn the_instance_that_has_been_ready_longest_comes_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for instance in ["a", "b", "c"] {
        store.begin(instance).await;
    }
    for instance in ["b", "c", "a"] {
        store.send(event(instance, "go")).await;
        factory.advance(Duration::from_millis(5)).await;
    }
    // Arrived last, but for an instance that waits already.
    store.send(event("b", "again")).await;
    for instance in ["b", "c", "a"] {
        store.turn_of(instance).await;
    }
}
