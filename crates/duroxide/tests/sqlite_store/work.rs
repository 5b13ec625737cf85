//! Work items: locks, tags, sessions.

use std::time::Duration;

use duroxide::providers::{
    Provider, ProviderAdmin, ProviderErrorKind, SessionFetchConfig, Suspects, TagFilter, WorkItem,
};

use crate::fixture::{LONG, NOW, activity, assert_kind, completed, in_memory, work_request};

fn placed(id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "a".to_string(),
        execution_id: 1,
        id,
        name: "Step".to_string(),
        input: String::new(),
        session_id: session.map(str::to_string),
        tag: tag.map(str::to_string),
    }
}

#[tokio::test]
async fn a_work_item_is_queued_once_and_locked_once() {
    let (store, clock) = in_memory().await;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    let work = store.fetch_work(work_request(9, NOW)).await.unwrap();
    assert_eq!((work.len(), work[0].attempts), (1, 1));
    let token = work[0].lock_token.clone();
    let unknown = "no token".to_string();
    let lost = store.lost_work_items(&[token.clone(), unknown.clone()], LONG).await.unwrap();
    assert_eq!(lost, [unknown]);
    clock.advance(LONG);
    let tokens = [token.clone()];
    assert_eq!(store.lost_work_items(&tokens, LONG).await.unwrap(), tokens);
    assert_kind(store.ack_work_item(&token, None).await, ProviderErrorKind::LockLost, "");
    let mut refusing = work_request(1, NOW);
    refusing.suspects = Suspects::Refuse;
    assert!(store.fetch_work(refusing).await.unwrap().is_empty());
    let work = store.fetch_work(work_request(1, NOW)).await.unwrap();
    assert_eq!((work[0].attempts, work[0].suspect), (2, true));
    assert_kind(
        store.ack_work_item(&work[0].lock_token, Some(activity("a", 1))).await,
        ProviderErrorKind::Invalid,
        "does not belong into an inbox",
    );
    store.renew_work_item_lock(&work[0].lock_token, LONG).await.unwrap();
    store.ack_work_item(&work[0].lock_token, Some(completed("a", 1))).await.unwrap();
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 0);
}

#[tokio::test]
async fn an_abandoned_work_item_keeps_its_place_or_waits() {
    let (store, clock) = in_memory().await;
    for id in 1..=2 {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
        clock.advance(Duration::from_millis(1));
    }
    let work = store.fetch_work(work_request(2, NOW)).await.unwrap();
    store.abandon_work_item(&work[1].lock_token, None, true).await.unwrap();
    store.abandon_work_item(&work[0].lock_token, None, true).await.unwrap();
    let work = store.fetch_work(work_request(2, NOW)).await.unwrap();
    assert_eq!(
        work.iter().map(|work| work.item.clone()).collect::<Vec<_>>(),
        [activity("a", 1), activity("a", 2)]
    );
    assert_eq!(work[0].attempts, 1);
    store.abandon_work_item(&work[0].lock_token, Some(Duration::from_secs(1)), false).await.unwrap();
    assert!(store.fetch_work(work_request(2, NOW)).await.unwrap().is_empty());
    clock.advance(Duration::from_secs(1));
    assert_eq!(store.fetch_work(work_request(2, NOW)).await.unwrap()[0].attempts, 2);
}

#[tokio::test]
async fn tags_decide_who_gets_a_work_item() {
    let (store, _) = in_memory().await;
    for (id, tag) in [(1, None), (2, Some("gpu")), (3, Some("eu"))] {
        store.enqueue_for_worker(placed(id, None, tag)).await.unwrap();
    }
    for (filter, expected) in [
        (TagFilter::None, vec![]),
        (TagFilter::DefaultOnly, vec![1]),
        (TagFilter::tags(["gpu"]), vec![2]),
        (TagFilter::default_and(["eu"]), vec![1, 3]),
        (TagFilter::Any, vec![1, 2, 3]),
    ] {
        let mut request = work_request(9, NOW);
        request.tags = filter;
        let work = store.fetch_work(request).await.unwrap();
        assert_eq!(ids(&work), expected);
        for work in work {
            store.abandon_work_item(&work.lock_token, None, true).await.unwrap();
        }
    }
}

fn ids(work: &[duroxide::providers::FetchedWork]) -> Vec<u64> {
    let id = |item: &WorkItem| {
        let WorkItem::ActivityExecute { id, .. } = item else { panic!("not an activity: {item:?}") };
        *id
    };
    work.iter().map(|work| id(&work.item)).collect()
}

#[tokio::test]
async fn a_session_belongs_to_one_owner_at_a_time() {
    let (store, clock) = in_memory().await;
    let by = |owner: &str, max_items| {
        let mut request = work_request(max_items, NOW);
        request.session =
            Some(SessionFetchConfig { owner_id: owner.to_string(), lock_timeout: Duration::from_secs(30) });
        request
    };
    for (id, session) in [(1, Some("s")), (2, Some("s")), (3, None), (4, Some("t"))] {
        store.enqueue_for_worker(placed(id, session, None)).await.unwrap();
        clock.advance(Duration::from_millis(1));
    }
    let first = store.fetch_work(by("one", 1)).await.unwrap();
    assert_eq!(ids(&first), [1]);
    // The rest of the session is passed over by others, and its order is kept for its owner.
    assert_eq!(ids(&store.fetch_work(by("two", 9)).await.unwrap()), [3, 4]);
    assert!(store.fetch_work(work_request(9, NOW)).await.unwrap().is_empty());
    let second = store.fetch_work(by("one", 9)).await.unwrap();
    assert_eq!(ids(&second), [2]);
    for work in first.iter().chain(&second) {
        store.ack_work_item(&work.lock_token, None).await.unwrap();
    }
    assert_eq!(store.cleanup_orphaned_sessions(NOW).await.unwrap(), 0);
    store.enqueue_for_worker(placed(5, Some("s"), None)).await.unwrap();
    let renewed = store.renew_session_lock(&["one"], Duration::from_secs(40), LONG).await.unwrap();
    assert_eq!(renewed, 1);
    clock.advance(Duration::from_secs(35));
    assert!(store.fetch_work(by("two", 9)).await.unwrap().is_empty());
    clock.advance(Duration::from_secs(5));
    assert_eq!(ids(&store.fetch_work(by("two", 9)).await.unwrap()), [5]);
}

#[tokio::test]
async fn an_expired_session_without_work_is_cleaned_up() {
    let (store, clock) = in_memory().await;
    store.enqueue_for_worker(placed(1, Some("s"), None)).await.unwrap();
    let mut request = work_request(1, NOW);
    request.session =
        Some(SessionFetchConfig { owner_id: "one".to_string(), lock_timeout: Duration::from_secs(30) });
    let work = store.fetch_work(request).await.unwrap();
    clock.advance(Duration::from_secs(30));
    assert_eq!(store.cleanup_orphaned_sessions(NOW).await.unwrap(), 0);
    store.ack_work_item(&work[0].lock_token, None).await.unwrap();
    assert_eq!(store.cleanup_orphaned_sessions(NOW).await.unwrap(), 0, "the item's lock held the claim");
    clock.advance(LONG);
    assert_eq!(store.cleanup_orphaned_sessions(NOW).await.unwrap(), 1);
}
