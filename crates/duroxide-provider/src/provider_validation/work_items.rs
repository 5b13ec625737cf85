//! The worker queue.

use std::time::Duration;

use duroxide_core::limits::MAX_PROGRESS_BYTES;

use super::ProviderFactory;
use super::fixture::{Store, activity, completed, event, expect_lock_lost};
use crate::{ProviderErrorKind, SessionLimits, Suspects, TagFilter, WorkRequest};

/// Work items come in the order of their arrival, each once.
pub async fn work_items_come_in_the_order_of_arrival(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 5), activity("a", 3)])).await;
    store.begin_with("b", |commit| commit.work([activity("b", 4)])).await;
    for expected in [activity("a", 5), activity("a", 3), activity("b", 4)] {
        let work = store.work().await;
        assert_eq!((work.item, work.attempts), (expected, 1));
    }
    store.expect_no_work().await;
}

/// Of many that fetch at once, one gets the work item.
pub async fn concurrent_fetches_lock_a_work_item_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.queue_work(activity("a", 2)).await;
    let mut fetches = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (provider, lock) = (store.provider.clone(), store.lock);
        fetches.spawn(async move {
            provider.fetch_work_item(lock, Duration::ZERO, None, &TagFilter::DefaultOnly).await
        });
    }
    let mut winners = 0;
    while let Some(fetched) = fetches.join_next().await {
        winners += usize::from(fetched.expect("no panic").expect("a fetch does not fail").is_some());
    }
    assert_eq!(winners, 1);
}

/// The same activity, enqueued again, is the same work item.
pub async fn an_activity_is_queued_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 2)])).await;
    store.queue_work(activity("a", 2)).await;
    let work = store.work().await;
    store.queue_work(activity("a", 2)).await;
    store.expect_no_work().await;
    store.complete(&work).await;
    store.expire_locks().await;
    store.expect_no_work().await;
}

/// A work item may be done without a completion; then nobody hears of it.
pub async fn a_work_item_may_end_without_a_completion(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let work = store.work().await;
    store.provider.ack_work_item(&work.token, None).await.expect("acked");
    store.expect_no_turn().await;
    store.expire_locks().await;
    store.expect_no_work().await;
}

/// A token that was never given out, or has done its work, holds nothing.
pub async fn an_unknown_work_token_is_a_lost_lock(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let given_back = store.work().await;
    store.abandon_work(&given_back, None, false).await;
    let work = store.work().await;
    let almost = format!("{}0", work.token);
    for token in ["", "x", "1", "-1", "1-1", "1.1.1", "99999999999999999999", "ü", &almost, &given_back.token]
    {
        expect_lock_lost(store.provider.ack_work_item(token, Some(completed("a", 2))).await);
        expect_lock_lost(store.provider.abandon_work_item(token, None, false).await);
        expect_lock_lost(store.provider.renew_work_item_lock(token, store.lock).await);
    }
    store.expect_no_turn().await;
    store.complete(&work).await;
    expect_lock_lost(store.provider.renew_work_item_lock(&work.token, store.lock).await);
    expect_lock_lost(store.provider.abandon_work_item(&work.token, None, false).await);
}

/// Which of the running activities are lost can be asked for all at once.
pub async fn lost_work_items_are_named(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store
        .begin_with("a", |commit| {
            commit.work([activity("a", 2), activity("a", 3), activity("a", 4), activity("a", 5)])
        })
        .await;
    let (first, second, third) = (store.work().await, store.work().await, store.work().await);
    let tokens: Vec<String> = [&first, &second, &third].map(|work| work.token.clone()).into();
    let lost = |tokens: Vec<String>| {
        let (provider, lock) = (store.provider.clone(), store.lock);
        async move { provider.lost_work_items(&tokens, lock).await.expect("answered") }
    };
    assert_eq!(lost(tokens.clone()).await, Vec::<String>::new());
    store.complete(&second).await;
    assert_eq!(lost(tokens.clone()).await, vec![second.token.clone()]);
    store.abandon_work(&first, None, false).await;
    let mut both = lost(tokens.clone()).await;
    both.sort();
    let mut expected = vec![first.token.clone(), second.token.clone()];
    expected.sort();
    assert_eq!(both, expected);
    store.expire_locks().await;
    assert_eq!(lost(tokens.clone()).await.len(), 3);
    assert_eq!(lost(vec!["x".to_string(), String::new()]).await.len(), 2);
    assert_eq!(lost(vec![]).await, Vec::<String>::new());
}

/// A completion is one message of the instance among the others.
pub async fn completions_join_the_inbox_in_their_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3)])).await;
    let (first, second) = (store.work().await, store.work().await);
    store.complete(&second).await;
    store.send(event("a", "between")).await;
    store.complete(&first).await;
    let expected = vec![completed("a", 3), event("a", "between"), completed("a", 2)];
    assert_eq!(store.turn_of("a").await.item.messages, expected);
}

async fn fetch_progress(store: &Store<'_>) -> (String, Option<String>) {
    let request = WorkRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        session: None,
        session_limits: SessionLimits::NONE,
        tags: TagFilter::DefaultOnly,
        activities: None,
        max_items: 1,
        suspects: Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
    };
    let mut work = store.provider.fetch_work(request).await.expect("a fetch does not fail");
    let work = work.pop().expect("ready");
    (work.lock_token, work.progress)
}

/// What an attempt reports is there for the next one, however it ended; who lost the lock reports nothing.
pub async fn progress_is_kept_for_the_next_attempt(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_progress() {
        return;
    }
    store.queue_work(activity("a", 2)).await;
    let (first, progress) = fetch_progress(&store).await;
    assert_eq!(progress, None);
    for details in ["one", "two"] {
        store.provider.record_progress(&first, details).await.expect("held");
    }
    store.provider.abandon_work_item(&first, None, false).await.expect("held");
    let (second, progress) = fetch_progress(&store).await;
    assert_eq!(progress.as_deref(), Some("two"));
    store.expire_locks().await;
    let lost = store.provider.record_progress(&second, "late").await.expect_err("the lock expired");
    assert_eq!(lost.kind(), ProviderErrorKind::LockLost);
    let (third, progress) = fetch_progress(&store).await;
    assert_eq!(progress.as_deref(), Some("two"), "an attempt that reports nothing keeps what was there");
    store.provider.ack_work_item(&third, None).await.expect("held");
    let ended = store.provider.record_progress(&third, "after").await.expect_err("it is done");
    assert_eq!(ended.kind(), ProviderErrorKind::LockLost);
}

/// Progress goes with its own work item: others have theirs, and one that is queued anew has none.
pub async fn progress_belongs_to_its_work_item(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_progress() {
        return;
    }
    store.begin_with("a", |commit| commit.work([activity("a", 2), activity("a", 3)])).await;
    let (two, _) = fetch_progress(&store).await;
    let (three, _) = fetch_progress(&store).await;
    let large = "é".repeat(MAX_PROGRESS_BYTES / 2);
    store.provider.record_progress(&two, &large).await.expect("held");
    store.provider.record_progress(&three, "").await.expect("held");
    for token in [&two, &three] {
        store.provider.abandon_work_item(token, None, true).await.expect("held");
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (token, progress) = fetch_progress(&store).await;
        seen.push(progress);
        store.provider.abandon_work_item(&token, Some(store.lock), false).await.expect("held");
    }
    seen.sort();
    assert_eq!(
        seen,
        [Some(String::new()), Some(large)],
        "an attempt that did not count reported all the same"
    );
    // Cancelled, and then scheduled under the same id by the instance's next life.
    store.admin().delete_instance("a", true).await.expect("deleted");
    store.begin_with("a", |commit| commit.work([activity("a", 2)])).await;
    let (again, progress) = fetch_progress(&store).await;
    assert_eq!(progress, None);
    expect_lock_lost(store.provider.record_progress(&two, "of the deleted one").await);
    store.provider.abandon_work_item(&again, None, false).await.expect("held");
    assert_eq!(fetch_progress(&store).await.1, None);
}
