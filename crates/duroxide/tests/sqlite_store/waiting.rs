//! Waiting: woken, not polling; and nothing stays locked for who went away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::EventKind;
use duroxide::clock::ManualClock;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{Provider, WaitUntil};
use futures::FutureExt;

use crate::fixture::{
    Ack, LONG, NOW, Place, activity, enqueue, event, fetch, in_memory, raised, start, timer, turn_request,
    work_request,
};

#[tokio::test]
async fn an_idle_store_runs_at_most_one_statement_a_second() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    Ack { messages: vec![timer("a", 2, u64::MAX)], ..Ack::default() }.commit(&store, &token).await.unwrap();
    let idle = Duration::from_millis(2500);
    let (turns, work, waits) = (Arc::clone(&store), Arc::clone(&store), Arc::clone(&store));
    let turns = tokio::spawn(async move { turns.fetch_turns(turn_request(8, idle)).await.unwrap().len() });
    let work = tokio::spawn(async move { work.fetch_work(work_request(8, idle)).await.unwrap().len() });
    let waits =
        tokio::spawn(async move { waits.wait_for_instance("a", WaitUntil::Terminal, idle).await.unwrap() });
    // Once the first look of each is over nothing but the passing of time is left; its end is signalled by the
    // fetches themselves.
    let began = Instant::now();
    let mut settled = store.statistics();
    while began.elapsed() < Duration::from_millis(200) {
        tokio::task::yield_now().await;
        settled = store.statistics();
    }
    assert_eq!((turns.await.unwrap(), work.await.unwrap(), waits.await.unwrap()), (0, 0, None));
    let statements = store.statistics().statements - settled.statements;
    assert!(statements <= 3, "{statements} statements in {idle:?}");
    assert!(began.elapsed() >= idle);
}

#[tokio::test]
async fn a_fetch_that_waits_is_woken_by_the_due_time_of_a_timer() {
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    Ack { messages: vec![timer("a", 2, 1_005_000)], ..Ack::default() }.commit(&store, &token).await.unwrap();
    let store = Arc::new(store);
    let waiting = Arc::clone(&store);
    let waiting = tokio::spawn(async move { waiting.fetch_turns(turn_request(1, LONG)).await.unwrap() });
    clock.advance(Duration::from_millis(4_999));
    assert!(store.fetch_turns(turn_request(1, NOW)).await.unwrap().is_empty());
    clock.advance(Duration::from_millis(1));
    assert_eq!(waiting.await.unwrap()[0].item.messages, [timer("a", 2, 1_005_000)]);
}

#[tokio::test]
async fn a_clock_that_is_moved_wakes_the_fetches_that_wait() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    // The store itself looks at the clock too late for the test.
    let options =
        SqliteOptions { clock: clock.clone(), shared_file_poll_interval: LONG, ..SqliteOptions::default() };
    let store = SqliteProvider::new_in_memory_with_options(Some(options)).await.unwrap();
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let message = timer("a", 2, 4_600_000);
    let turn = Ack { messages: vec![message.clone()], work: vec![activity("a", 3)], ..Ack::default() };
    turn.commit(&store, &token).await.unwrap();
    assert_eq!(store.fetch_work(work_request(1, NOW)).await.unwrap().len(), 1);
    let mut both = futures::future::join(
        store.fetch_turns(turn_request(1, LONG)),
        store.fetch_work(work_request(1, LONG)),
    );
    let standing_still = tokio::time::timeout(Duration::from_millis(100), &mut both);
    assert!(standing_still.await.is_err(), "nothing comes while the clock stands still");
    clock.advance(Duration::from_secs(60 * 60));
    let (turns, work) = tokio::time::timeout(LONG / 6, both).await.expect("woken by the clock");
    assert_eq!(turns.unwrap()[0].item.messages, [message]);
    assert_eq!(work.unwrap()[0].item, activity("a", 3), "its lock has expired");
}

#[tokio::test]
async fn a_fetch_that_waits_is_woken_by_the_expiry_of_a_lock() {
    let (store, clock) = in_memory().await;
    enqueue(&store, start("a")).await;
    fetch(&store).await;
    let store = Arc::new(store);
    let waiting = Arc::clone(&store);
    let waiting = tokio::spawn(async move { waiting.fetch_turns(turn_request(1, LONG)).await.unwrap() });
    clock.advance(LONG);
    let turn = waiting.await.unwrap().pop().unwrap();
    assert_eq!(turn.attempts, 2);
    assert!(turn.facts.unwrap().suspect);
}

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves_nothing_locked_and_nothing_counted() {
    let (store, _) = in_memory().await;
    for round in 0..50 {
        let instance = format!("i{round}");
        let mut fetching = Box::pin(store.fetch_turns(turn_request(1, LONG)));
        assert!(fetching.as_mut().now_or_never().is_none());
        // The answer is on its way, or there already, when the future goes.
        enqueue(&store, start(&instance)).await;
        drop(fetching);
        let (item, token, attempts) = loop {
            match store.fetch_orchestration_item(LONG, LONG, None).await.unwrap() {
                Some(fetched) => break fetched,
                None => continue,
            }
        };
        assert_eq!((item.instance, attempts), (instance, 1));
        Ack::default().commit(&store, &token).await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_work_fetch_leaves_nothing_locked_and_nothing_counted() {
    let (store, _) = in_memory().await;
    let mut fetching = Box::pin(store.fetch_work(work_request(4, LONG)));
    assert!(fetching.as_mut().now_or_never().is_none());
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    drop(fetching);
    let work = store.fetch_work(work_request(4, LONG)).await.unwrap();
    assert_eq!((work.len(), work[0].attempts, work[0].suspect), (1, 1, false));
}

async fn end(store: &SqliteProvider, instance: &str) {
    enqueue(store, start(instance)).await;
    let (_, token, _) = fetch(store).await;
    let done = event(instance, 1, None, EventKind::OrchestrationCompleted { output: "out".to_string() });
    let mut ack = Ack { events: vec![done], ..Ack::default() }.status("Completed");
    ack.metadata.output = Some("out".to_string());
    ack.commit(store, &token).await.unwrap();
}

#[tokio::test]
async fn a_client_that_waits_is_woken_by_the_commit() {
    let (store, _) = in_memory().await;
    let waiting = store.wait_for_instance("a", WaitUntil::Terminal, LONG);
    let (status, ()) = futures::join!(waiting, end(&store, "a"));
    let expected = duroxide::OrchestrationStatus::Completed {
        output: "out".to_string(),
        custom_status: None,
        custom_status_version: 0,
    };
    assert_eq!(status.unwrap(), Some(expected));
    assert_eq!(store.wait_for_instance("b", WaitUntil::Terminal, NOW).await.unwrap(), None);
}

#[tokio::test]
async fn a_client_is_woken_by_custom_status_and_kv() {
    let (store, _) = in_memory().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let change = async {
        let status = EventKind::CustomStatusUpdated { status: Some("half".to_string()) };
        let set =
            EventKind::KeyValueSet { key: "k".to_string(), value: "v".to_string(), last_updated_at_ms: 7 };
        let events = vec![event("a", 1, None, status), event("a", 2, None, set)];
        Ack { events, ..Ack::default() }.commit(&store, &token).await.unwrap();
    };
    let by_status = store.wait_for_instance("a", WaitUntil::CustomStatusAfter(0), LONG);
    let by_kv = store.wait_for_instance("a", WaitUntil::KvValue("k"), LONG);
    let (one, two, ()) = futures::join!(by_status, by_kv, change);
    assert!(one.unwrap().is_some() && two.unwrap().is_some());
    assert_eq!(store.get_custom_status("a", 0).await.unwrap(), Some((Some("half".to_string()), 1)));
    assert_eq!(store.get_custom_status("a", 1).await.unwrap(), None);
    enqueue(&store, raised("a", "x")).await;
    assert_eq!(fetch(&store).await.0.kv_snapshot["k"].value, "v");
}

#[tokio::test]
async fn the_store_closes_while_fetches_wait() {
    let clock = Arc::new(ManualClock::new(1));
    let options = SqliteOptions { clock, ..Default::default() };
    let place = Place::new();
    let store = place.open_with(options).await;
    {
        let mut fetching = Box::pin(store.fetch_turns(turn_request(1, LONG)));
        assert!(fetching.as_mut().now_or_never().is_none());
    }
    drop(store);
}
