//! Group commit: many calls, few commits, each call's failure its own.

use std::sync::Arc;

use duroxide::providers::{Provider, ProviderAdmin, ProviderErrorKind, WorkItem};

use crate::fixture::{
    Ack, Place, activity, assert_kind, completed, enqueue, fetch, in_memory, scheduled, start, turn_request,
    work_request,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_concurrent_calls_share_commits() {
    const CALLS: usize = 500;
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let before = store.statistics();
    let calls = (0..CALLS).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.enqueue_for_orchestrator(start(&format!("i{n}")), None).await })
    });
    for call in futures::future::join_all(calls).await {
        call.unwrap().unwrap();
    }
    let after = store.statistics();
    assert_eq!(after.calls - before.calls, CALLS as u64);
    let commits = after.commits - before.commits;
    assert!(commits < CALLS as u64 / 2, "{commits} commits for {CALLS} calls");
    assert_eq!(store.list_instances().await.unwrap().len(), CALLS);
}

/// Calls that are sent together, before the writer can see the first of them end.
#[tokio::test]
async fn a_failing_call_does_not_touch_its_neighbours() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    enqueue(&store, start("b")).await;
    let (_, token_a, _) = fetch(&store).await;
    let (_, token_b, _) = fetch(&store).await;
    // Writes one event and a work item, and fails at the second event: the first must not stay.
    let failing = Ack {
        events: vec![scheduled("b", 1), scheduled("b", 1)],
        work: vec![activity("b", 1)],
        ..Ack::default()
    };
    let good = Ack { events: vec![scheduled("a", 1)], work: vec![activity("a", 1)], ..Ack::default() };
    let (one, two, three) = futures::join!(
        good.commit(&store, &token_a),
        failing.commit(&store, &token_b),
        store.enqueue_for_orchestrator(start("c"), None),
    );
    one.unwrap();
    assert_kind(two, ProviderErrorKind::Invalid, "event 1 is already stored");
    three.unwrap();
    assert_eq!(store.read("a").await.unwrap().len(), 1);
    assert_eq!(store.read("b").await.unwrap().len(), 0);
    assert_eq!(store.get_queue_depths().await.unwrap().worker_queue, 1);
    // The lock of the failed call still holds.
    Ack::default().commit(&store, &token_b).await.unwrap();
}

#[tokio::test]
async fn a_fetch_that_waits_is_served_in_the_commit_that_made_work_ready() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let waiting = |store: &Arc<duroxide::providers::sqlite::SqliteProvider>| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.fetch_turns(turn_request(1, crate::fixture::LONG)).await.unwrap() })
    };
    let fetched = waiting(&store);
    parked(&store).await;
    let before = store.statistics();
    enqueue(&store, start("a")).await;
    let turn = fetched.await.unwrap().pop().unwrap();
    assert_eq!(turn.item.instance, "a");
    assert_eq!(store.statistics().commits - before.commits, 1, "start and fetch");

    let worker = Arc::clone(&store);
    let fetched =
        tokio::spawn(async move { worker.fetch_work(work_request(1, crate::fixture::LONG)).await.unwrap() });
    parked(&store).await;
    let before = store.statistics();
    let ack = Ack { events: vec![scheduled("a", 1)], work: vec![activity("a", 1)], ..Ack::default() };
    ack.commit(&store, &turn.lock_token).await.unwrap();
    let work = fetched.await.unwrap().pop().unwrap();
    assert_eq!(store.statistics().commits - before.commits, 1, "ack and work fetch");

    let fetched = waiting(&store);
    parked(&store).await;
    let before = store.statistics();
    store.ack_work_item(&work.lock_token, Some(completed("a", 1))).await.unwrap();
    assert_eq!(fetched.await.unwrap().pop().unwrap().item.messages, [completed("a", 1)]);
    assert_eq!(store.statistics().commits - before.commits, 1, "work ack and fetch");
}

/// Waits until the writer has seen everything sent so far: a call that is answered came after it.
async fn parked(store: &duroxide::providers::sqlite::SqliteProvider) {
    tokio::task::yield_now().await;
    let unknown = WorkItem::CancelInstance { instance: "nobody".to_string(), reason: String::new() };
    store.enqueue_for_orchestrator(unknown, None).await.unwrap();
}

#[tokio::test]
async fn a_panic_inside_a_call_is_that_calls_failure() {
    struct Panics;
    impl duroxide::providers::HeldHistories for Panics {
        fn held(&self, _instance: &str) -> Option<duroxide::providers::HeldHistory> {
            panic!("a bug in the asker");
        }
    }
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let mut request = turn_request(1, crate::fixture::NOW);
    request.held = Arc::new(Panics);
    assert_kind(store.fetch_turns(request).await, ProviderErrorKind::Other, "panicked");
    // Rolled back: neither locked nor counted.
    assert_eq!(fetch(&store).await.2, 1);
}
