//! A store remembers rows that it read or wrote. What another process changed meanwhile is found all the same.

use std::time::Duration;

use duroxide::Client;
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderErrorKind, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide_postgres::PostgresProvider;

use crate::programs::{PATIENCE, node};
use crate::support::{new_schema, open, options};

const LOCK: Duration = Duration::from_secs(60);

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "O".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn event(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage { instance: instance.to_string(), name: "q".to_string(), data: data.to_string() }
}

fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id,
        name: "A".to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

pub(crate) async fn send(store: &PostgresProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("it is sent");
}

/// What is in the turn, and its token.
pub(crate) async fn turn(store: &PostgresProvider) -> (Vec<WorkItem>, String) {
    let fetched = store.fetch_orchestration_item(LOCK, PATIENCE, None).await.expect("fetched");
    let (item, token, attempts) = fetched.expect("a turn is ready");
    assert_eq!(attempts, 1);
    (item.messages, token)
}

async fn ack(store: &PostgresProvider, token: &str, work: Vec<WorkItem>, cancelled: Vec<u64>) {
    let cancelled = cancelled.into_iter().map(|activity_id| ScheduledActivityIdentifier {
        instance: "i".to_string(),
        execution_id: 1,
        activity_id,
    });
    store
        .ack_orchestration_item(
            token,
            1,
            Vec::new(),
            work,
            Vec::new(),
            ExecutionMetadata::default(),
            cancelled.collect(),
        )
        .await
        .expect("committed");
}

/// Two stores on one schema, as two processes have them.
async fn two() -> (PostgresProvider, PostgresProvider) {
    let schema = new_schema();
    (open(options(&schema)).await, open(options(&schema)).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_another_process_sends_during_a_turn_stays() {
    let (one, other) = two().await;
    for n in 0..5 {
        send(&one, if n == 0 { start("i") } else { event("i", "own") }).await;
        let (_, token) = turn(&one).await;
        let conflicts = one.statistics().conflicts;
        send(&other, event("i", "from outside")).await;
        ack(&one, &token, Vec::new(), Vec::new()).await;
        let (messages, token) = turn(&one).await;
        assert_eq!(messages, [event("i", "from outside")], "round {n}");
        ack(&one, &token, Vec::new(), Vec::new()).await;
        // Else this test would not have tested anything. After that the instance is always read.
        let trusted = n == 0;
        assert!(!trusted || one.statistics().conflicts > conflicts, "what was remembered was used");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_two_processes_keep_their_order() {
    let (one, other) = two().await;
    send(&one, start("i")).await;
    let (_, token) = turn(&one).await;
    ack(&one, &token, Vec::new(), Vec::new()).await;
    let (_held, token) = {
        send(&one, event("i", "first")).await;
        turn(&one).await
    };
    let mut sent = Vec::new();
    for n in 0..40 {
        let message = event("i", &n.to_string());
        send(if n % 2 == 0 { &one } else { &other }, message.clone()).await;
        sent.push(message);
    }
    ack(&one, &token, Vec::new(), Vec::new()).await;
    let (messages, _) = turn(&other).await;
    assert_eq!(messages, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_another_process_used_is_not_used_again() {
    let (one, other) = two().await;
    // The first start of a store reads; the following ones need not.
    send(&one, start("first")).await;
    let (_, token) = turn(&one).await;
    ack(&one, &token, Vec::new(), Vec::new()).await;
    send(&other, start("i")).await;
    send(&one, start("i")).await;
    let (messages, token) = turn(&one).await;
    assert_eq!(messages, [start("i")], "one start, not two");
    ack(&one, &token, Vec::new(), Vec::new()).await;
    assert!(one.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.expect("fetched").is_none());
    // What was sent before the start is there after it.
    send(&other, event("late", "early")).await;
    send(&one, start("late")).await;
    let (messages, _) = turn(&one).await;
    assert_eq!(messages, [start("late"), event("late", "early")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_another_process_cancelled_is_lost() {
    let (one, other) = two().await;
    send(&one, start("i")).await;
    let (_, token) = turn(&one).await;
    ack(&one, &token, vec![activity("i", 2)], Vec::new()).await;
    let fetched = one.fetch_work_item(LOCK, PATIENCE, None, &TagFilter::Any).await.expect("fetched");
    let (_, work_token, _) = fetched.expect("the activity is ready");
    send(&other, event("i", "x")).await;
    let (_, token) = turn(&other).await;
    ack(&other, &token, Vec::new(), vec![2]).await;
    let completed = WorkItem::ActivityCompleted {
        instance: "i".to_string(),
        execution_id: 1,
        id: 2,
        result: "done".to_string(),
    };
    let late = one.ack_work_item(&work_token, Some(completed)).await.expect_err("it was cancelled");
    assert_eq!(late.kind(), ProviderErrorKind::LockLost);
    assert!(other.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.expect("fetched").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_takes_one_statement_for_each_commit() {
    let store = std::sync::Arc::new(open(options(&new_schema())).await);
    let _node = node(store.clone()).await;
    let client = Client::new(store.clone());
    client.start_orchestration("warm", "FiveSteps", "x").await.expect("started");
    client.wait_for_orchestration("warm", PATIENCE).await.expect("seen");
    let before = store.statistics();
    client.start_orchestration("i", "FiveSteps", "x").await.expect("started");
    client.wait_for_orchestration("i", PATIENCE).await.expect("seen");
    let after = store.statistics();
    // The start, two commits for each of five steps, and the end; what a client reads comes on top.
    assert!(after.commits - before.commits <= 12, "{} commits", after.commits - before.commits);
    let statements = after.statements - before.statements;
    assert!(statements <= 24, "{statements} statements");
}
