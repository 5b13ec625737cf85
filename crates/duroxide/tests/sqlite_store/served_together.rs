//! Fetches that wait side by side: what one of them took all of is not looked for again, what it left is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{FetchedTurn, FetchedWork, Provider, ProviderError};
use futures::FutureExt;

use crate::fixture::{Ack, LONG, activity, enqueue, fetch, in_memory, start, turn_request, work_request};

type Waiting<T> = Vec<Pin<Box<dyn Future<Output = Result<Vec<T>, ProviderError>> + Send>>>;

/// So many fetches of turns that have looked and found nothing.
async fn waiting_for_turns(
    store: &Arc<SqliteProvider>,
    fetches: usize,
    max_items: usize,
) -> Waiting<FetchedTurn> {
    let fetch = |_| {
        let store = Arc::clone(store);
        async move { store.fetch_turns(turn_request(max_items, LONG)).await }.boxed()
    };
    settled(store, (0..fetches).map(fetch).collect()).await
}

/// The same for work items.
async fn waiting_for_work(
    store: &Arc<SqliteProvider>,
    fetches: usize,
    max_items: usize,
) -> Waiting<FetchedWork> {
    let fetch = |_| {
        let store = Arc::clone(store);
        async move { store.fetch_work(work_request(max_items, LONG)).await }.boxed()
    };
    settled(store, (0..fetches).map(fetch).collect()).await
}

async fn settled<T>(store: &SqliteProvider, mut waiting: Waiting<T>) -> Waiting<T> {
    for fetch in &mut waiting {
        assert!(fetch.now_or_never().is_none());
    }
    // The writer, which also reads of a store in memory, takes one after another.
    store.read("nobody").await.unwrap();
    waiting
}

/// How many items each fetch has been given by now; those that wait go on waiting.
async fn given<T>(store: &SqliteProvider, waiting: &mut Waiting<T>) -> Vec<usize> {
    store.read("nobody").await.unwrap();
    let mut given = Vec::new();
    let all = std::mem::take(waiting);
    for mut fetch in all {
        match (&mut fetch).now_or_never() {
            Some(items) => given.push(items.unwrap().len()),
            None => waiting.push(fetch),
        }
    }
    given
}

async fn statements_of_a_start(fetches: usize) -> u64 {
    let store = Arc::new(in_memory().await.0);
    let mut waiting = waiting_for_turns(&store, fetches, 4).await;
    let before = store.statistics().statements;
    enqueue(&store, start("a")).await;
    let statements = store.statistics().statements - before;
    assert_eq!(given(&store, &mut waiting).await, [1]);
    statements
}

async fn statements_of_an_activity(fetches: usize) -> u64 {
    let store = Arc::new(in_memory().await.0);
    let mut waiting = waiting_for_work(&store, fetches, 4).await;
    let before = store.statistics().statements;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    let statements = store.statistics().statements - before;
    assert_eq!(given(&store, &mut waiting).await, [1]);
    statements
}

#[tokio::test]
async fn further_fetches_like_the_one_that_took_all_cost_nothing() {
    assert_eq!(statements_of_a_start(1).await, statements_of_a_start(9).await);
    assert_eq!(statements_of_an_activity(1).await, statements_of_an_activity(9).await);
}

#[tokio::test]
async fn a_fetch_that_was_spared_a_look_gets_what_comes_next() {
    let store = Arc::new(in_memory().await.0);
    let mut turns = waiting_for_turns(&store, 3, 4).await;
    let mut work = waiting_for_work(&store, 3, 4).await;
    for round in 0..3 {
        enqueue(&store, start(&format!("i{round}"))).await;
        store.enqueue_for_worker(activity("a", round)).await.unwrap();
        assert_eq!(given(&store, &mut turns).await, [1]);
        assert_eq!(given(&store, &mut work).await, [1]);
    }
}

#[tokio::test]
async fn what_a_fetch_leaves_is_given_to_the_next_in_the_same_commit() {
    let store = Arc::new(in_memory().await.0);
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let mut turns = waiting_for_turns(&store, 4, 2).await;
    let mut work = waiting_for_work(&store, 4, 2).await;
    let before = store.statistics().commits;
    let work_items = (2..7).map(|id| activity("a", id)).collect();
    let messages = ["b", "c", "d", "e", "f"].map(start).to_vec();
    Ack { work: work_items, messages, ..Ack::default() }.commit(&store, &token).await.unwrap();
    assert_eq!(given(&store, &mut turns).await, [2, 2, 1]);
    assert_eq!(given(&store, &mut work).await, [2, 2, 1]);
    assert_eq!(store.statistics().commits - before, 1);
}

#[tokio::test]
async fn every_waiting_fetch_may_be_given_a_suspect() {
    let (store, clock) = in_memory().await;
    let store = Arc::new(store);
    for id in 1..4 {
        enqueue(&store, start(&format!("i{id}"))).await;
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
    }
    assert_eq!(store.fetch_turns(turn_request(3, LONG)).await.unwrap().len(), 3);
    assert_eq!(store.fetch_work(work_request(3, LONG)).await.unwrap().len(), 3);
    let turns = waiting_for_turns(&store, 3, 4).await;
    let work = waiting_for_work(&store, 3, 4).await;
    clock.advance(LONG);
    for turn in futures::future::join_all(turns).await {
        let turn = turn.unwrap();
        assert_eq!((turn.len(), turn[0].attempts), (1, 2));
    }
    for work in futures::future::join_all(work).await {
        let work = work.unwrap();
        assert_eq!((work.len(), work[0].attempts, work[0].suspect), (1, 2, true));
    }
}

#[tokio::test]
async fn a_fetch_that_was_spared_a_look_is_woken_by_the_expiry_of_the_lock() {
    let (store, clock) = in_memory().await;
    let store = Arc::new(store);
    let mut turns = waiting_for_turns(&store, 2, 4).await;
    let mut work = waiting_for_work(&store, 2, 4).await;
    enqueue(&store, start("a")).await;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    assert_eq!((given(&store, &mut turns).await, given(&store, &mut work).await), (vec![1], vec![1]));
    clock.advance(LONG);
    assert_eq!(turns.pop().unwrap().await.unwrap()[0].attempts, 2);
    assert_eq!(work.pop().unwrap().await.unwrap()[0].attempts, 2);
}
