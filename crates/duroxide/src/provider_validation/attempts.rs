//! Attempts are counted when a row is fetched, not when something comes of it.

use duroxide_core::limits::MAX_PROGRESS_BYTES;

use super::ProviderFactory;
use super::fixture::{Store, activity, event, expect_lock_lost, start};
use crate::providers::{ProviderErrorKind, SessionLimits, Suspects, TagFilter, WorkRequest};

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

async fn fetch_progress(store: &Store<'_>) -> (String, Option<String>) {
    let request = WorkRequest {
        lock_timeout: store.lock,
        poll_timeout: std::time::Duration::ZERO,
        session: None,
        session_limits: SessionLimits::NONE,
        tags: TagFilter::DefaultOnly,
        max_items: 1,
        suspects: Suspects::AdmitOne,
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
