//! A client that sends more than an inbox holds is told; what is not sent by clients always finds room.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, ProviderErrorKind, WorkItem};
use duroxide_core::{ErrorDetails, Event, EventKind, PoisonMessageType, limits};
use duroxide_postgres::PostgresProvider;

use crate::remembered::{event, send, start, turn};
use crate::support::{corrupt, new_schema, open, options};

fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance { instance: instance.to_string(), reason: "enough".to_string() }
}

async fn is_full(store: &PostgresProvider, instance: &str) {
    let refused = store.enqueue_for_orchestrator(event(instance, "too many"), None).await;
    let error: ProviderError = refused.expect_err("the inbox is full");
    assert_eq!(error.kind(), ProviderErrorKind::Invalid, "{error}");
    let text = format!("the inbox of '{instance}' is full (1000000 messages)");
    assert!(error.to_string().contains(&text), "{error}");
}

fn limit() -> i64 {
    i64::try_from(limits::MAX_INBOX_MESSAGES).expect("it fits")
}

#[tokio::test]
async fn a_full_inbox_refuses_events_and_takes_the_rest() {
    let schema = new_schema();
    let store = open(options(&schema)).await;
    send(&store, start("a")).await;
    let sql = "UPDATE {s}.queues SET inbox_count = $1, revision = revision + 1";
    assert_eq!(corrupt(&schema, sql, &[&(limit() - 1)]).await, 1);
    send(&store, event("a", "the last one")).await;
    is_full(&store, "a").await;
    send(&store, cancel("a")).await;
    let (messages, _) = turn(&store).await;
    // A cancel comes before everything else in the inbox.
    assert_eq!(messages, [cancel("a"), start("a"), event("a", "the last one")]);
}

#[tokio::test]
async fn as_many_events_are_kept_for_a_start_as_an_inbox_holds() {
    let schema = new_schema();
    let store = open(options(&schema)).await;
    send(&store, event("a", "first")).await;
    send(&store, event("a", "second")).await;
    let sql = "UPDATE {s}.early_messages SET position = $1 WHERE position = 2";
    assert_eq!(corrupt(&schema, sql, &[&(limit() - 1)]).await, 1);
    send(&store, event("a", "the last one")).await;
    is_full(&store, "a").await;
}

#[tokio::test]
async fn as_many_events_are_kept_for_a_failed_instance_as_an_inbox_holds() {
    let schema = new_schema();
    let store = open(options(&schema)).await;
    send(&store, start("a")).await;
    let (_, token) = turn(&store).await;
    let details = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: "a".to_string(), execution_id: 1 },
        message: "[]".to_string(),
    };
    let failed = Event::with_event_id(1, "a", 1, None, EventKind::OrchestrationFailed { details });
    let metadata = ExecutionMetadata { status: Some("Failed".to_string()), ..ExecutionMetadata::default() };
    let acked = store.ack_orchestration_item(&token, 1, vec![failed], vec![], vec![], metadata, vec![]).await;
    acked.expect("the turn is committed");
    send(&store, event("a", "first")).await;
    let sql = "UPDATE {s}.kept_messages SET position = $1 WHERE position = 1";
    assert_eq!(corrupt(&schema, sql, &[&(limit() - 2)]).await, 1, "the start is kept, too");
    send(&store, event("a", "the last one")).await;
    is_full(&store, "a").await;
    send(&store, cancel("a")).await;
    let kept = store.kept_messages("a").await.expect("kept messages can be read");
    assert_eq!(kept, [start("a"), event("a", "first"), event("a", "the last one")]);
    assert!(
        store
            .fetch_orchestration_item(Duration::from_secs(1), Duration::ZERO, None)
            .await
            .expect("fetched")
            .is_none()
    );
}
