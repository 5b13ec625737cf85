//! A clock that is set forth and back changes neither the order of an inbox nor when work that has no delay begins.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::ManualClock;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide::{Client, FindingKind, HealthOptions};

use crate::fixture::{LONG, NOW, Place, activity, raised, start, timer, work_request};

const NOON_MS: u64 = 1_000_000_000;
const HOUR_MS: u64 = 3_600_000;

async fn sqlite(clock: &Arc<ManualClock>) -> SqliteProvider {
    let options = SqliteOptions { clock: clock.clone(), ..Default::default() };
    SqliteProvider::new_in_memory_with_options(Some(options)).await.unwrap()
}

async fn on_both(check: impl AsyncFn(&dyn Provider, &ManualClock)) {
    let clock = Arc::new(ManualClock::new(NOON_MS));
    check(&MemoryProvider::with_clock(clock.clone()), &clock).await;
    clock.set(NOON_MS);
    check(&sqlite(&clock).await, &clock).await;
}

async fn enqueue(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

async fn messages(store: &dyn Provider) -> Vec<WorkItem> {
    let fetched = store.fetch_orchestration_item(LONG, NOW, None).await.unwrap();
    fetched.map(|(item, ..)| item.messages).unwrap_or_default()
}

#[tokio::test]
async fn a_start_that_came_while_the_clock_was_ahead_runs_at_once() {
    on_both(async |store, clock| {
        clock.set(NOON_MS + HOUR_MS);
        enqueue(store, start("a")).await;
        clock.set(NOON_MS);
        assert_eq!(messages(store).await, [start("a")], "{}", store.name());
    })
    .await;
}

#[tokio::test]
async fn messages_keep_their_order_when_the_clock_is_set_back_between_them() {
    on_both(async |store, clock| {
        enqueue(store, start("a")).await;
        clock.set(NOON_MS + 10_000);
        enqueue(store, raised("a", "first")).await;
        clock.set(NOON_MS);
        enqueue(store, raised("a", "second")).await;
        clock.set(NOON_MS + 1);
        enqueue(store, raised("a", "third")).await;
        let expected = [start("a"), raised("a", "first"), raised("a", "second"), raised("a", "third")];
        assert_eq!(messages(store).await, expected, "{}", store.name());
    })
    .await;
}

#[tokio::test]
async fn messages_kept_for_a_start_keep_their_order() {
    on_both(async |store, clock| {
        clock.set(NOON_MS + 10_000);
        enqueue(store, raised("a", "first")).await;
        clock.set(NOON_MS);
        enqueue(store, raised("a", "second")).await;
        enqueue(store, start("a")).await;
        let expected = [start("a"), raised("a", "first"), raised("a", "second")];
        assert_eq!(messages(store).await, expected, "{}", store.name());
    })
    .await;
}

#[tokio::test]
async fn a_message_that_came_ahead_of_the_clock_during_a_turn_is_in_the_next_one() {
    on_both(async |store, clock| {
        enqueue(store, start("a")).await;
        let (_, token, _) = store.fetch_orchestration_item(LONG, NOW, None).await.unwrap().unwrap();
        clock.set(NOON_MS + 10_000);
        enqueue(store, raised("a", "first")).await;
        clock.set(NOON_MS + 1);
        let done = store.ack_orchestration_item(
            &token,
            1,
            Vec::new(),
            Vec::new(),
            vec![timer("a", 2, NOON_MS + 5_000)],
            duroxide::providers::ExecutionMetadata::default(),
            Vec::new(),
        );
        done.await.unwrap();
        assert_eq!(messages(store).await, [raised("a", "first")], "{}: the timer is not due", store.name());
    })
    .await;
}

#[tokio::test]
async fn what_has_a_delay_waits_for_its_time() {
    on_both(async |store, clock| {
        enqueue(store, start("a")).await;
        assert_eq!(messages(store).await.len(), 1);
        clock.set(NOON_MS + HOUR_MS);
        let delay = Some(Duration::from_secs(10));
        store.enqueue_for_orchestrator(start("b"), delay).await.unwrap();
        clock.set(NOON_MS);
        assert_eq!(messages(store).await, [], "{}", store.name());
        clock.set(NOON_MS + HOUR_MS + 10_000);
        // The lock of `a` has expired by then, and may be found first.
        let all = [messages(store).await, messages(store).await].concat();
        assert!(all.contains(&start("b")), "{}: {all:?}", store.name());
    })
    .await;
}

#[tokio::test]
async fn an_activity_that_was_queued_while_the_clock_was_ahead_runs_at_once() {
    on_both(async |store, clock| {
        clock.set(NOON_MS + HOUR_MS);
        store.enqueue_for_worker(activity("a", 2)).await.unwrap();
        clock.set(NOON_MS);
        let work = store.fetch_work(work_request(1, NOW)).await.unwrap();
        assert_eq!(work.len(), 1, "{}", store.name());
        clock.set(NOON_MS - HOUR_MS);
        store.abandon_work_item(&work[0].lock_token, None, false).await.unwrap();
        let again = store.fetch_work(work_request(1, NOW)).await.unwrap();
        assert_eq!(again.len(), 1, "{}: given back without a delay", store.name());
    })
    .await;
}

#[tokio::test]
async fn a_fetch_that_waits_is_served_when_the_clock_is_set_back() {
    on_both(async |store, clock| {
        let waiting = store.fetch_orchestration_item(LONG, LONG, None);
        let (fetched, ()) = futures::join!(waiting, async {
            clock.set(NOON_MS + HOUR_MS);
            clock.set(NOON_MS);
            enqueue(store, start("a")).await;
        });
        assert!(fetched.unwrap().is_some(), "{}", store.name());
    })
    .await;
}

/// A program that was started while the clock was ahead, and another one after it was set right.
#[tokio::test]
async fn a_store_that_is_opened_after_the_correction_has_everything_ready() {
    let place = Place::new();
    let ahead = SqliteOptions { clock: Arc::new(ManualClock::new(NOON_MS + HOUR_MS)), ..Default::default() };
    let right = SqliteOptions { clock: Arc::new(ManualClock::new(NOON_MS)), ..Default::default() };
    let store = place.open_with(ahead).await;
    enqueue(&store, start("a")).await;
    enqueue(&store, raised("a", "first")).await;
    store.enqueue_for_worker(activity("b", 2)).await.unwrap();
    drop(store);
    let store = place.open_with(right).await;
    enqueue(&store, raised("a", "second")).await;
    assert_eq!(messages(&store).await, [start("a"), raised("a", "first"), raised("a", "second")]);
    assert_eq!(store.fetch_work(work_request(1, NOW)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_another_process_stamps_ahead_of_the_clock_keeps_its_order_and_is_reported() {
    let place = Place::new();
    let of_clock = |now_ms| SqliteOptions { clock: Arc::new(ManualClock::new(now_ms)), ..Default::default() };
    let right = Arc::new(place.open_with(of_clock(NOON_MS)).await);
    let ahead = place.open_with(of_clock(NOON_MS + HOUR_MS)).await;
    enqueue(&ahead, start("a")).await;
    enqueue(&ahead, raised("a", "first")).await;
    ahead.enqueue_for_worker(activity("b", 2)).await.unwrap();
    let client = Client::new(right.clone());
    let report = client.health_with(&HealthOptions::default()).await.unwrap();
    let found = report.findings.iter().find(|found| found.kind == FindingKind::AheadOfClock);
    assert_eq!(found.map(|found| found.count), Some(2), "{report:?}");
    enqueue(&*right, raised("a", "second")).await;
    assert_eq!(messages(&*right).await, [start("a"), raised("a", "first"), raised("a", "second")]);
    assert_eq!(right.list_instances().await.unwrap(), ["a"]);
}
