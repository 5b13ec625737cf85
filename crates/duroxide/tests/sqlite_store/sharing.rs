//! Two providers on one file, as two processes would be.

use std::time::Duration;

use duroxide::EventKind;
use duroxide::providers::sqlite::SqliteOptions;
use duroxide::providers::{Provider, ProviderErrorKind, WaitUntil};
use futures::FutureExt;

use crate::fixture::{
    Ack, LONG, NOW, Place, activity, assert_kind, enqueue, event, fetch, start, turn_request, work_request,
};

#[tokio::test]
async fn two_providers_on_one_file_wake_each_other() {
    let place = Place::new();
    let (one, two) = (place.open().await, place.open().await);
    let began = std::time::Instant::now();
    let (turns, ()) =
        futures::join!(async { two.fetch_turns(turn_request(1, LONG)).await.unwrap() }, async {
            enqueue(&one, start("a")).await;
        });
    let ack = Ack { work: vec![activity("a", 2)], ..Ack::default() };
    let (work, ()) = futures::join!(async { one.fetch_work(work_request(1, LONG)).await.unwrap() }, async {
        ack.commit(&two, &turns[0].lock_token).await.unwrap();
    });
    assert_eq!(work.len(), 1);
    let waiting = async { two.wait_for_instance("a", WaitUntil::Terminal, LONG).await.unwrap() };
    let ((), status) = futures::join!(
        async {
            enqueue(&one, crate::fixture::raised("a", "x")).await;
            let (_, token, _) = fetch(&one).await;
            let done = event("a", 1, None, EventKind::OrchestrationCompleted { output: String::new() });
            Ack { events: vec![done], ..Ack::default() }
                .status("Completed")
                .commit(&one, &token)
                .await
                .unwrap();
        },
        waiting
    );
    assert!(status.unwrap().is_terminal());
    assert!(began.elapsed() < Duration::from_secs(10), "woken, not timed out: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_store_at_work_notices_what_another_committed() {
    let place = Place::new();
    // It never looks while it waits: what it does itself must be enough.
    let options = SqliteOptions { shared_file_poll_interval: LONG, ..Default::default() };
    let (one, two) = (place.open_with(options).await, place.open().await);
    let mut waiting = Box::pin(one.fetch_turns(turn_request(1, LONG)));
    assert!((&mut waiting).now_or_never().is_none());
    one.enqueue_for_worker(activity("b", 1)).await.unwrap();
    enqueue(&two, start("a")).await;
    assert!((&mut waiting).now_or_never().is_none());
    one.enqueue_for_worker(activity("b", 2)).await.unwrap();
    let served = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    assert_eq!(served.expect("served with the call").unwrap()[0].item.instance, "a");
}

#[tokio::test]
async fn a_store_does_not_take_its_own_commits_for_another_s() {
    let place = Place::new();
    let interval = Duration::from_millis(1);
    let store =
        place.open_with(SqliteOptions { shared_file_poll_interval: interval, ..Default::default() }).await;
    for id in 1..20 {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
        let nothing = store.fetch_turns(turn_request(1, interval * 5)).await.unwrap();
        assert!(nothing.is_empty());
    }
    assert_eq!(store.statistics().foreign_changes, 0);
    let other = place.open().await;
    enqueue(&other, start("a")).await;
    assert_eq!(store.fetch_turns(turn_request(1, LONG)).await.unwrap().len(), 1);
    assert!(store.statistics().foreign_changes > 0);
}

#[tokio::test]
async fn an_instance_is_given_to_one_provider_only() {
    let place = Place::new();
    let (one, two) = (place.open().await, place.open().await);
    enqueue(&one, start("a")).await;
    let (of_one, of_two) =
        futures::join!(one.fetch_turns(turn_request(1, NOW)), two.fetch_turns(turn_request(1, NOW)));
    assert_eq!(of_one.unwrap().len() + of_two.unwrap().len(), 1);
}

#[tokio::test]
async fn a_busy_file_is_a_retryable_failure_and_changes_nothing() {
    let place = Place::new();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..Default::default() };
    let store = place.open_with(options).await;
    let raw = place.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_kind(
        store.enqueue_for_orchestrator(start("a"), None).await,
        ProviderErrorKind::Unavailable,
        "enqueue_for_orchestrator",
    );
    assert_kind(store.fetch_turns(turn_request(1, LONG)).await, ProviderErrorKind::Unavailable, "fetch");
    // Reads go on.
    assert!(store.read("a").await.unwrap().is_empty());
    raw.execute_batch("ROLLBACK").unwrap();
    enqueue(&store, start("a")).await;
    assert_eq!(fetch(&store).await.0.instance, "a");
}
