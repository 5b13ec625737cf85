//! What a poison error holds: the whole messages, oldest first, up to a limit.

use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};

/// The messages in the error of an orchestration that nobody has, sent these events before its first fetch.
async fn messages_of_poisoned(events: &[String]) -> String {
    let world = World::new();
    world.client.start_orchestration("p", "Missing", "the input").await.expect("start");
    for data in events {
        world.client.raise_event("p", "news", data.as_str()).await.expect("raise");
    }
    let limited = RuntimeOptions { max_attempts: 1, ..options() };
    let runtime = world.start(activities(), orchestrations(), limited).await;
    let details = world.failure("p").await;
    let ErrorDetails::Poison { message, .. } = details else { panic!("{details:?}") };
    runtime.shutdown(None).await;
    let (cause, messages) = message.split_once("; messages: ").expect("the cause comes first");
    assert!(cause.starts_with("cause: orchestration Missing "), "{cause}");
    messages.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_poison_error_holds_the_whole_messages_oldest_first() {
    let message = messages_of_poisoned(&["one".to_string(), "two".to_string()]).await;
    let messages: Vec<WorkItem> = serde_json::from_str(&message).expect("the messages as they were sent");
    let [WorkItem::StartOrchestration { input, .. }, first, second] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    let raised = |data: &str| WorkItem::ExternalRaised {
        instance: "p".to_string(),
        name: "news".to_string(),
        data: data.to_string(),
    };
    assert_eq!((input.as_str(), first, second), ("the input", &raised("one"), &raised("two")));
}

#[tokio::test(start_paused = true)]
async fn a_poison_error_holds_up_to_a_mebibyte_and_a_count_of_the_rest() {
    let large = "x".repeat(600 * 1024);
    let message = messages_of_poisoned(&[large.clone(), large.clone(), large]).await;
    assert!(message.len() < 1024 * 1024, "{} bytes", message.len());
    let messages: Vec<serde_json::Value> = serde_json::from_str(&message).expect("JSON");
    assert_eq!(messages.len(), 3, "the start, the first event, and the count");
    assert_eq!(messages[2], serde_json::json!({ "more": 2 }));
}
