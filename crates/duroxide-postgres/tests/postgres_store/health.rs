//! A store made inconsistent by hand is found and repaired.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::ManualClock;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{HealthPolicy, Runtime};
use duroxide::{
    ActivityContext, Client, EventKind, FindingKind, HealthOptions, OrchestrationContext,
    OrchestrationRegistry, RuntimeOptions, TagFilter,
};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::programs::PATIENCE;
use crate::support::{new_schema, open, options, raw};

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, _input: String| async move {
            let activity = ctx.schedule_activity("Work", "1").with_tag("later");
            let timer = ctx.schedule_timer(Duration::from_secs(2));
            let gone = ctx.schedule_sub_orchestration("Child", "gone");
            let done = ctx.schedule_sub_orchestration("Child", "done");
            let (activity, gone, done) = (activity.await?, gone.await?, done.await?);
            timer.await;
            Ok(format!("{activity} {gone} {done}"))
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            if input == "gone" {
                ctx.schedule_activity("Work", &*input).with_tag("later").await?;
            }
            Ok(input)
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Work", |_ctx: ActivityContext, input: String| async move { Ok(format!("did {input}")) })
        .build()
}

async fn run(store: &Arc<PostgresProvider>, options: RuntimeOptions) -> Arc<Runtime> {
    Runtime::start_with_options(store.clone(), activities(), orchestrations(), options).await
}

fn at_once() -> HealthOptions {
    HealthOptions { overdue_after: Duration::ZERO, ..HealthOptions::default() }
}

async fn counts(client: &Client) -> Vec<(FindingKind, String, u64)> {
    let report = client.health_with(&at_once()).await.expect("looked");
    let about = report.findings.into_iter().filter(|found| found.kind.is_repairable());
    about.map(|found| (found.kind, found.instance.unwrap_or_default(), found.count)).collect()
}

async fn by_hand(schema: &str, sql: &str) {
    raw().await.batch_execute(&sql.replace("{s}", schema)).await.expect("the statements are right");
}

/// Brings `p` to where it waits for everything: its second child has ended, its first waits for a worker.
async fn waiting(schema: &str) -> (Arc<PostgresProvider>, Client) {
    let store = Arc::new(open(options(schema)).await);
    let client = Client::new(store.clone()).with_identity("ops");
    let runtime = run(&store, RuntimeOptions::default()).await;
    client.start_orchestration("p", "Parent", "").await.expect("started");
    client.wait_for_orchestration("p::sub::5", PATIENCE).await.expect("ended");
    // The parent has read its second child's result once the event is there.
    while client.read_execution_history("p", 1).await.expect("read").len() < 6 {
        tokio::task::yield_now().await;
    }
    runtime.shutdown(None).await;
    (store, client)
}

/// Deletes the activity, the timer, the first child with all its rows, and the second child's result.
async fn damage(schema: &str) {
    let sql = "DELETE FROM {s}.work_items; \
         DELETE FROM {s}.inbox; \
         DELETE FROM {s}.history WHERE instance_key = \
             (SELECT key FROM {s}.instances WHERE instance_id = 'p::sub::4'); \
         DELETE FROM {s}.executions WHERE instance_key = \
             (SELECT key FROM {s}.instances WHERE instance_id = 'p::sub::4'); \
         DELETE FROM {s}.queues WHERE key = (SELECT key FROM {s}.instances WHERE instance_id = 'p::sub::4'); \
         DELETE FROM {s}.instances WHERE instance_id = 'p::sub::4'; \
         DELETE FROM {s}.history WHERE event_id = 6 \
             AND instance_key = (SELECT key FROM {s}.instances WHERE instance_id = 'p'); \
         UPDATE {s}.executions SET event_count = 5, last_event_id = 5 \
             WHERE instance_key = (SELECT key FROM {s}.instances WHERE instance_id = 'p')";
    by_hand(schema, sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_deleted_by_hand_are_found_and_put_back() {
    let schema = new_schema();
    let (store, client) = waiting(&schema).await;
    assert_eq!(counts(&client).await, []);
    damage(&schema).await;
    let p = || "p".to_string();
    let found = counts(&client).await;
    assert_eq!(found, [(FindingKind::MissingDispatch, p(), 3), (FindingKind::MissingResult, p(), 1)]);
    assert_eq!(client.repair("p").await.expect("repaired"), 4);
    assert_eq!(client.repair("p").await.expect("looked"), 0, "doing it again changes nothing");
    assert_eq!(counts(&client).await, []);
    let options = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..RuntimeOptions::default() };
    let runtime = run(&store, options).await;
    let ended = client.wait_for_orchestration_typed::<String>("p", PATIENCE).await;
    assert_eq!(ended.expect("ended").expect("completed"), "did 1 gone done");
    let history = client.read_execution_history("p", 1).await.expect("read");
    let records: Vec<(u64, &str)> = history
        .iter()
        .filter_map(|event| {
            if let EventKind::OrchestrationRepaired { put_back, by, .. } = &event.kind {
                Some((*put_back, by.as_str()))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(records, [(4, "ops")]);
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_repairs_by_itself_if_it_is_told_to() {
    let schema = new_schema();
    let (store, client) = waiting(&schema).await;
    damage(&schema).await;
    let policy = HealthPolicy { interval: Duration::from_millis(20), repair: true, options: at_once() };
    let options = RuntimeOptions {
        worker_tag_filter: TagFilter::any(),
        health: Some(policy),
        ..RuntimeOptions::default()
    };
    let runtime = run(&store, options).await;
    let ended = client.wait_for_orchestration_typed::<String>("p", PATIENCE).await;
    assert_eq!(ended.expect("ended").expect("completed"), "did 1 gone done");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_counted() {
    let schema = new_schema();
    let (_store, client) = waiting(&schema).await;
    client.raise_event("nobody", "e", "").await.expect("kept");
    client.start_orchestration("unserved", "Unknown", "").await.expect("started");
    let sql = "UPDATE {s}.inbox SET visible_at = 5 WHERE kind = 5; \
         UPDATE {s}.queues SET ready_at = 5 \
             WHERE key = (SELECT key FROM {s}.instances WHERE instance_id = 'p'); \
         UPDATE {s}.work_items SET lock_nonce = 1, ready_at = 5 WHERE instance_id = 'p'; \
         UPDATE {s}.work_items SET instance_id = 'nowhere' WHERE instance_id = 'p::sub::4'";
    by_hand(&schema, sql).await;
    let report = client.health_with(&at_once()).await.expect("looked");
    let all: Vec<(FindingKind, u64)> = report
        .findings
        .iter()
        .filter(|found| found.instance.is_none())
        .map(|found| (found.kind, found.count))
        .collect();
    assert_eq!(
        all,
        [
            (FindingKind::OverdueTurns, 2),
            (FindingKind::OverdueTimers, 1),
            (FindingKind::OverdueWork, 1),
            (FindingKind::ExpiredWorkLocks, 1),
            (FindingKind::OrphanWork, 1),
            (FindingKind::OrphanMessages, 1),
        ]
    );
    assert!(report.oldest_ready_turn.is_some() && report.oldest_ready_work.is_some());
    assert!(!report.is_healthy());
}

#[tokio::test]
async fn what_waits_for_a_clock_that_was_ahead_is_found() {
    const NOON_MS: u64 = crate::support::BEGIN_MS;
    const HOUR_MS: u64 = 3_600_000;
    let clock = Arc::new(ManualClock::new(NOON_MS));
    let options = PostgresOptions { clock: Some(clock.clone()), ..options(&new_schema()) };
    let store = Arc::new(open(options).await);
    let client = Client::new(store.clone());
    let ahead = async || {
        let report = client.health_with(&HealthOptions::default()).await.expect("looked");
        let found = report.findings.iter().find(|found| found.kind == FindingKind::AheadOfClock);
        found.map_or(0, |found| found.count)
    };
    let start = |instance: &str| WorkItem::StartOrchestration {
        instance: instance.to_string(),
        orchestration: "Parent".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    clock.set(NOON_MS + HOUR_MS);
    store.enqueue_for_orchestrator(start("ahead"), None).await.expect("sent");
    let work = WorkItem::ActivityExecute {
        instance: "ahead".to_string(),
        execution_id: 1,
        id: 2,
        name: "Work".to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    store.enqueue_for_worker(work).await.expect("queued");
    assert_eq!(ahead().await, 0, "all of it is ready");
    clock.set(NOON_MS);
    assert_eq!(ahead().await, 2);
    // Half of the tolerance is nothing to speak of.
    clock.set(NOON_MS + HOUR_MS - 30_000);
    assert_eq!(ahead().await, 0);
}
