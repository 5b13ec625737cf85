//! What only the store in memory promises: the rest of its contract is checked by the validation suite.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::ManualClock;
use duroxide::providers::memory::{MemoryProvider, Snapshot};
use duroxide::providers::{ExecutionMetadata, Provider, TagFilter, WaitUntil, WorkItem};
use duroxide::{Event, EventKind, OrchestrationStatus};

const LOCK: Duration = Duration::from_secs(5);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Greet".to_string(),
        input: "world".to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn activity(instance: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id: 2,
        name: "Hello".to_string(),
        input: "world".to_string(),
        session_id: None,
        tag: None,
    }
}

fn completed(output: &str) -> ExecutionMetadata {
    ExecutionMetadata {
        status: Some("Completed".to_string()),
        output: Some(output.to_string()),
        ..Default::default()
    }
}

/// An instance from its start to its end, with one activity. The tokens, and the state at the end.
#[expect(clippy::unwrap_used, reason = "part of a test: a failure ends it")]
async fn one_life(seed: u64) -> (Vec<String>, Snapshot) {
    let provider = MemoryProvider::with_clock_and_seed(Arc::new(ManualClock::new(1_000)), seed);
    provider.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    let (_, first, _) = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.unwrap().unwrap();
    provider
        .ack_orchestration_item(
            &first,
            1,
            vec![],
            vec![activity("a")],
            vec![],
            ExecutionMetadata::default(),
            vec![],
        )
        .await
        .unwrap();
    let (_, second, _) =
        provider.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::default()).await.unwrap().unwrap();
    let completion = WorkItem::ActivityCompleted {
        instance: "a".to_string(),
        execution_id: 1,
        id: 2,
        result: "Hello, world".to_string(),
    };
    provider.ack_work_item(&second, Some(completion)).await.unwrap();
    let (_, third, _) = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.unwrap().unwrap();
    let metadata = completed("Hello, world");
    provider.ack_orchestration_item(&third, 1, vec![], vec![], vec![], metadata, vec![]).await.unwrap();
    (vec![first, second, third], provider.snapshot())
}

#[tokio::test]
async fn the_same_seed_and_calls_give_the_same_tokens_and_state() {
    let once = one_life(7).await;
    assert_eq!(once, one_life(7).await);
    let other = one_life(8).await;
    assert_ne!(once.0, other.0);
    assert_eq!(once.1.instances["a"].status, "Completed");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_moved_wakes_the_fetches_that_wait() {
    let clock = Arc::new(ManualClock::new(1_000));
    let provider = MemoryProvider::with_clock(clock.clone());
    let hour = Duration::from_secs(60 * 60);
    provider.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    let (_, _, _) = provider.fetch_orchestration_item(hour, Duration::ZERO, None).await.unwrap().unwrap();
    provider.enqueue_for_worker(activity("a")).await.unwrap();
    let tags = TagFilter::default();
    let (_, _, _) = provider.fetch_work_item(hour, Duration::ZERO, None, &tags).await.unwrap().unwrap();
    let begun = tokio::time::Instant::now();
    let turn = provider.fetch_orchestration_item(LOCK, hour * 2, None);
    let work = provider.fetch_work_item(LOCK, hour * 2, None, &tags);
    // Both are polled first, in the order in which they are written.
    let (turn, work, ()) = futures::join!(turn, work, async { clock.advance(hour) });
    assert!(turn.unwrap().is_some() && work.unwrap().is_some(), "their locks have expired");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_clock_does_not_keep_a_store_that_was_dropped() {
    let clock = Arc::new(ManualClock::new(1_000));
    let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
    let gone = Arc::downgrade(&provider);
    drop(provider);
    assert!(gone.upgrade().is_none());
    assert_eq!(Arc::strong_count(&clock), 1);
    clock.advance(LOCK);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_turn_it_waits_for_and_not_with_a_poll() {
    let provider = Arc::new(MemoryProvider::new());
    let waiting = tokio::spawn({
        let provider = Arc::clone(&provider);
        async move { provider.wait_for_instance("a", WaitUntil::Terminal, Duration::MAX).await }
    });
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    provider.enqueue_for_orchestrator(start("a"), None).await.unwrap();
    let (_, token, _) = provider.fetch_orchestration_item(LOCK, Duration::MAX, None).await.unwrap().unwrap();
    let output = "done".to_string();
    let ended =
        Event::with_event_id(1, "a", 1, None, EventKind::OrchestrationCompleted { output: output.clone() });
    provider
        .ack_orchestration_item(&token, 1, vec![ended], vec![], vec![], completed("done"), vec![])
        .await
        .unwrap();
    let seen = waiting.await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let expected = OrchestrationStatus::Completed { output, custom_status: None, custom_status_version: 0 };
    assert_eq!(seen, Some(expected));
}
