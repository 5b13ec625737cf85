//! Rows that do not decode block nobody, and nobody loses them.

use duroxide::providers::{Provider, ProviderErrorKind};

use crate::fixture::{
    Ack, Place, activity, assert_kind, completed, enqueue, fetch, fetch_nothing, raised, scheduled, start,
    timer,
};

const GARBAGE: &str = "{ \"secret";

#[tokio::test]
async fn an_undecodable_event_message_is_set_aside_and_the_instance_goes_on() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    enqueue(&store, raised("a", "first")).await;
    enqueue(&store, raised("a", "second")).await;
    place.raw().execute("UPDATE inbox SET item = ?1 WHERE position = 2", [GARBAGE]).unwrap();
    let (item, token, _) = fetch(&store).await;
    assert_eq!(item.messages, [start("a"), raised("a", "second")]);
    assert_eq!(item.history_error, None);
    let aside = store.list_set_aside().await.unwrap();
    assert_eq!((aside.len(), aside[0].instance.as_str()), (1, "a"));
    assert!(!aside[0].cause.contains("secret"), "{}", aside[0].cause);
    assert_eq!(store.statistics().set_aside, 1);
    Ack::default().commit(&store, &token).await.unwrap();
    fetch_nothing(&store).await;
}

#[tokio::test]
async fn an_instance_with_nothing_but_undecodable_events_is_passed_over() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    Ack { messages: vec![timer("a", 2, u64::MAX)], ..Ack::default() }.commit(&store, &token).await.unwrap();
    enqueue(&store, raised("a", "x")).await;
    place.raw().execute("UPDATE inbox SET item = ?1 WHERE kind = 6", [GARBAGE]).unwrap();
    enqueue(&store, start("b")).await;
    assert_eq!(fetch(&store).await.0.instance, "b");
    fetch_nothing(&store).await;
    assert_eq!(store.statistics().set_aside, 1);
}

#[tokio::test]
async fn an_undecodable_completion_is_an_error_of_the_item() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    enqueue(&store, completed("a", 2)).await;
    enqueue(&store, raised("a", "x")).await;
    place.raw().execute("UPDATE inbox SET item = ?1 WHERE position = 2", [GARBAGE]).unwrap();
    for attempt in 1..4 {
        let (item, token, attempts) = fetch(&store).await;
        assert_eq!(attempts, attempt);
        assert_eq!(item.messages, [start("a"), raised("a", "x")]);
        let error = item.history_error.unwrap();
        assert!(error.starts_with("message at position 2: "), "{error}");
        assert!(!error.contains("secret"), "{error}");
        store.abandon_orchestration_item(&token, None, false).await.unwrap();
    }
    assert_eq!(store.max_attempt_count("a").await.unwrap(), 3);
}

#[tokio::test]
async fn an_undecodable_history_is_an_error_of_the_item_and_of_reads() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let ack = Ack { events: vec![scheduled("a", 1), scheduled("a", 2)], ..Ack::default() };
    ack.commit(&store, &token).await.unwrap();
    place.raw().execute("UPDATE history SET event = ?1 WHERE event_id = 2", [GARBAGE]).unwrap();
    enqueue(&store, raised("a", "x")).await;
    let (item, _, _) = fetch(&store).await;
    assert!(item.history.is_empty());
    assert!(item.history_error.unwrap().starts_with("event at position 2: "));
    assert_kind(store.read("a").await, ProviderErrorKind::Corrupt, "event 2 of execution 1 of 'a'");
}

#[tokio::test]
async fn an_undecodable_work_item_fails_its_activity() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    Ack { work: vec![activity("a", 2), activity("a", 3)], ..Ack::default() }
        .commit(&store, &token)
        .await
        .unwrap();
    place.raw().execute("UPDATE work_items SET item = ?1 WHERE activity_id = 2", [GARBAGE]).unwrap();
    let work = store.fetch_work(crate::fixture::work_request(5, crate::fixture::NOW)).await.unwrap();
    assert_eq!(work.iter().map(|work| work.item.clone()).collect::<Vec<_>>(), [activity("a", 3)]);
    let (item, ..) = fetch(&store).await;
    let text = format!("{:?}", item.messages);
    assert!(
        text.contains("ActivityFailed") && text.contains("of activity 'Step' cannot be decoded"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(store.list_set_aside().await.unwrap().len(), 1);
}
