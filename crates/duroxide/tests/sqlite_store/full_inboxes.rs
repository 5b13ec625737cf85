//! A client that sends more than an inbox holds is told; what is not sent by clients always finds room.

use std::sync::Arc;

use duroxide::providers::{Provider, ProviderErrorKind, WorkItem};
use duroxide::{Client, ClientError};
use duroxide_core::{ErrorDetails, EventKind, PoisonMessageType, limits};
use rusqlite::TransactionBehavior;

use crate::fixture::{Ack, Place, assert_kind, completed, enqueue, event, fetch, raised, start};

fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance { instance: instance.to_string(), reason: "enough".to_string() }
}

fn limit() -> i64 {
    i64::try_from(limits::MAX_INBOX_MESSAGES).unwrap()
}

#[tokio::test]
async fn a_full_inbox_refuses_events_and_takes_the_rest() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    place.raw().execute("UPDATE instances SET inbox_count = ?1", [limit() - 1]).unwrap();
    enqueue(&store, raised("a", "the last one")).await;
    let refused = store.enqueue_for_orchestrator(raised("a", "too many"), None).await;
    assert_kind(refused, ProviderErrorKind::Invalid, "the inbox of 'a' is full (1000000 messages)");
    enqueue(&store, completed("a", 2)).await;
    enqueue(&store, cancel("a")).await;
    let (item, _, _) = fetch(&store).await;
    // A cancel comes before everything else in the inbox.
    assert_eq!(item.messages, [cancel("a"), start("a"), raised("a", "the last one"), completed("a", 2)]);
}

#[tokio::test]
async fn a_client_that_sends_into_a_full_inbox_is_told_that_its_call_is_over_a_limit() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    client.start_orchestration("a", "O", "").await.unwrap();
    place.raw().execute("UPDATE instances SET inbox_count = ?1", [limit()]).unwrap();
    let over = |result: Result<(), ClientError>| {
        let Err(ClientError::InvalidInput { message }) = &result else { panic!("{result:?}") };
        assert!(message.contains("the inbox of 'a' is full (1000000 messages)"), "{message}");
    };
    over(client.raise_event("a", "e", "").await);
    over(client.enqueue_event("a", "q", "").await);
    over(client.raise_event_checked("a", "e", "").await.map(drop));
    let mut own = place.raw();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    over(client.raise_event_in(&store.within(&transaction), "a", "e", "").await);
}

#[tokio::test]
async fn as_many_events_are_kept_for_a_start_as_an_inbox_holds() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, raised("a", "first")).await;
    enqueue(&store, raised("a", "second")).await;
    let last = limit() - 1;
    place.raw().execute("UPDATE early_messages SET position = ?1 WHERE position = 2", [last]).unwrap();
    enqueue(&store, raised("a", "the last one")).await;
    let refused = store.enqueue_for_orchestrator(raised("a", "too many"), None).await;
    assert_kind(refused, ProviderErrorKind::Invalid, "the inbox of 'a' is full");
}

#[tokio::test]
async fn as_many_events_are_kept_for_a_failed_instance_as_an_inbox_holds() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await;
    let details = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "a".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    };
    let failed = event("a", 1, None, EventKind::OrchestrationFailed { details });
    Ack { events: vec![failed], ..Ack::default() }.status("Failed").commit(&store, &token).await.unwrap();
    enqueue(&store, raised("a", "first")).await;
    let last = limit() - 2;
    let moved = place.raw().execute("UPDATE kept_messages SET position = ?1 WHERE position = 1", [last]);
    assert_eq!(moved.unwrap(), 1, "the start is kept, too");
    enqueue(&store, raised("a", "the last one")).await;
    let refused = store.enqueue_for_orchestrator(raised("a", "too many"), None).await;
    assert_kind(refused, ProviderErrorKind::Invalid, "the inbox of 'a' is full");
    enqueue(&store, cancel("a")).await;
    let kept = store.kept_messages("a").await.unwrap();
    assert_eq!(kept, [start("a"), raised("a", "first"), raised("a", "the last one")]);
}
