//! A server whose clock is set forth and back: neither the order of an inbox nor when work that has no delay begins depends
//! on it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::ManualClock;
use duroxide::providers::{ExecutionMetadata, Provider as _, TagFilter, WorkItem};
use duroxide::{Client, OrchestrationStatus};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::programs::{PATIENCE, node};
use crate::remembered::start;
use crate::support::{BEGIN_MS as NOON_MS, new_schema, open, options, raw, url};

const HOUR_MS: u64 = 3_600_000;
/// Locks do not expire during a test.
const LONG: Duration = Duration::from_secs(100_000);

async fn store(schema: &str, clock: &Arc<ManualClock>) -> PostgresProvider {
    open(PostgresOptions { clock: Some(clock.clone()), ..options(schema) }).await
}

async fn at_noon() -> (PostgresProvider, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(NOON_MS));
    (store(&new_schema(), &clock).await, clock)
}

fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised { instance: instance.to_string(), name: "n".to_string(), data: data.to_string() }
}

fn activity(instance: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_string(),
        execution_id: 1,
        id: 2,
        name: "Any".to_string(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

async fn send(store: &PostgresProvider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("it is sent");
}

async fn fetch(store: &PostgresProvider) -> Option<(Vec<WorkItem>, String)> {
    let fetched = store.fetch_orchestration_item(LONG, Duration::ZERO, None).await.expect("fetched");
    fetched.map(|(item, token, _)| (item.messages, token))
}

async fn messages(store: &PostgresProvider) -> Vec<WorkItem> {
    fetch(store).await.map(|(messages, _)| messages).unwrap_or_default()
}

async fn fetch_work(store: &PostgresProvider) -> Option<String> {
    let fetched = store.fetch_work_item(LONG, Duration::ZERO, None, &TagFilter::default()).await;
    fetched.expect("fetched").map(|(_, token, _)| token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_came_while_the_clock_was_ahead_runs_at_once() {
    let (store, clock) = at_noon().await;
    clock.set(NOON_MS + HOUR_MS);
    send(&store, start("a")).await;
    clock.set(NOON_MS);
    assert_eq!(messages(&store).await, [start("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_keep_their_order_when_the_clock_is_set_back_between_them() {
    let (store, clock) = at_noon().await;
    send(&store, start("a")).await;
    clock.set(NOON_MS + 10_000);
    send(&store, raised("a", "first")).await;
    clock.set(NOON_MS);
    send(&store, raised("a", "second")).await;
    clock.set(NOON_MS + 1);
    send(&store, raised("a", "third")).await;
    let expected = [start("a"), raised("a", "first"), raised("a", "second"), raised("a", "third")];
    assert_eq!(messages(&store).await, expected);
}

/// The clock of one process is ahead of that of the other, as a server's is of itself before it is set back.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_two_processes_keep_their_order() {
    let schema = new_schema();
    let ahead = store(&schema, &Arc::new(ManualClock::new(NOON_MS + 10_000))).await;
    let right = store(&schema, &Arc::new(ManualClock::new(NOON_MS))).await;
    send(&right, start("a")).await;
    send(&ahead, raised("a", "first")).await;
    send(&right, raised("a", "second")).await;
    assert_eq!(messages(&right).await, [start("a"), raised("a", "first"), raised("a", "second")]);
}

/// As soon as the process whose clock is right says something to the instance, whatever that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_makes_ready_what_another_process_sent_ahead_of_the_clock() {
    let schema = new_schema();
    let ahead = store(&schema, &Arc::new(ManualClock::new(NOON_MS + 10_000))).await;
    let right = store(&schema, &Arc::new(ManualClock::new(NOON_MS))).await;
    send(&ahead, start("a")).await;
    assert_eq!(messages(&right).await, [], "nobody has looked at it yet");
    right.enqueue_for_orchestrator(raised("a", "later"), Some(Duration::from_secs(60))).await.expect("sent");
    assert_eq!(messages(&right).await, [start("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_kept_for_a_start_keep_their_order() {
    let (store, clock) = at_noon().await;
    clock.set(NOON_MS + 10_000);
    send(&store, raised("a", "first")).await;
    clock.set(NOON_MS);
    send(&store, raised("a", "second")).await;
    store.enqueue_for_orchestrator(raised("a", "later"), Some(Duration::from_secs(20))).await.expect("sent");
    send(&store, start("a")).await;
    assert_eq!(messages(&store).await, [start("a"), raised("a", "first"), raised("a", "second")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_came_ahead_of_the_clock_during_a_turn_is_in_the_next_one() {
    for is_acked in [true, false] {
        let (store, clock) = at_noon().await;
        send(&store, start("a")).await;
        let (_, token) = fetch(&store).await.expect("it is ready");
        clock.set(NOON_MS + 10_000);
        send(&store, raised("a", "first")).await;
        clock.set(NOON_MS + 1);
        if is_acked {
            let timer = WorkItem::TimerFired {
                instance: "a".to_string(),
                execution_id: 1,
                id: 2,
                fire_at_ms: NOON_MS + 5_000,
            };
            let (none, metadata) = (Vec::new(), ExecutionMetadata::default());
            let acked =
                store.ack_orchestration_item(&token, 1, Vec::new(), none, vec![timer], metadata, Vec::new());
            acked.await.expect("acknowledged");
            assert_eq!(messages(&store).await, [raised("a", "first")], "the timer is not due");
        } else {
            store.abandon_orchestration_item(&token, None, false).await.expect("given back");
            assert_eq!(messages(&store).await, [start("a"), raised("a", "first")]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_a_delay_waits_for_its_time() {
    let (store, clock) = at_noon().await;
    let delay = Some(Duration::from_secs(10));
    send(&store, start("b")).await;
    clock.set(NOON_MS + HOUR_MS);
    store.enqueue_for_orchestrator(start("a"), delay).await.expect("sent");
    store.enqueue_for_orchestrator(raised("b", "later"), delay).await.expect("sent");
    store.enqueue_for_worker(activity("b")).await.expect("queued");
    let token = fetch_work(&store).await.expect("it is ready");
    store.abandon_work_item(&token, delay, false).await.expect("given back");
    clock.set(NOON_MS);
    // What comes now does not wait for what is delayed.
    send(&store, raised("b", "now")).await;
    assert_eq!(messages(&store).await, [start("b"), raised("b", "now")]);
    assert_eq!(messages(&store).await, []);
    assert_eq!(fetch_work(&store).await, None);
    clock.set(NOON_MS + HOUR_MS + 10_000);
    assert!(fetch_work(&store).await.is_some());
    assert_eq!(messages(&store).await, [start("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_was_queued_while_the_clock_was_ahead_runs_at_once() {
    let (store, clock) = at_noon().await;
    clock.set(NOON_MS + HOUR_MS);
    store.enqueue_for_worker(activity("a")).await.expect("queued");
    clock.set(NOON_MS);
    let token = fetch_work(&store).await.expect("it is ready");
    clock.set(NOON_MS - HOUR_MS);
    store.abandon_work_item(&token, None, false).await.expect("given back");
    assert!(fetch_work(&store).await.is_some(), "given back without a delay");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_of_a_session_that_was_queued_while_the_clock_was_ahead_runs_at_once() {
    let (store, clock) = at_noon().await;
    clock.set(NOON_MS + HOUR_MS);
    let WorkItem::ActivityExecute { instance, execution_id, id, name, input, tag, .. } = activity("a") else {
        unreachable!("it is an activity")
    };
    let session_id = Some("s".to_string());
    let of_session = WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag };
    store.enqueue_for_worker(of_session).await.expect("queued");
    clock.set(NOON_MS);
    let config = duroxide::providers::SessionFetchConfig { owner_id: "me".to_string(), lock_timeout: LONG };
    let fetched = store.fetch_work_item(LONG, Duration::ZERO, Some(&config), &TagFilter::default()).await;
    assert!(fetched.expect("fetched").is_some());
}

/// A program that was started while the clock was ahead, and another one after it was set right.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_opened_after_the_correction_has_everything_ready() {
    let schema = new_schema();
    let ahead = store(&schema, &Arc::new(ManualClock::new(NOON_MS + HOUR_MS))).await;
    send(&ahead, start("a")).await;
    send(&ahead, raised("a", "first")).await;
    ahead.enqueue_for_worker(activity("b")).await.expect("queued");
    drop(ahead);
    let right = store(&schema, &Arc::new(ManualClock::new(NOON_MS))).await;
    send(&right, raised("a", "second")).await;
    assert_eq!(messages(&right).await, [start("a"), raised("a", "first"), raised("a", "second")]);
    assert!(fetch_work(&right).await.is_some());
}

/// The clock of the server itself, as its statements see it. A node that runs meanwhile goes on at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_node_notices_that_the_clock_of_the_server_was_set_back() {
    let (schema, clock) = (new_schema(), new_schema());
    let server = raw().await;
    let sql = format!(
        "CREATE SCHEMA {clock}; CREATE TABLE {clock}.step (by INTERVAL NOT NULL); \
         INSERT INTO {clock}.step VALUES ('1 hour'); \
         CREATE FUNCTION {clock}.clock_timestamp () RETURNS timestamptz LANGUAGE sql VOLATILE AS \
           'SELECT pg_catalog.clock_timestamp() + s.by FROM {clock}.step s'"
    );
    server.batch_execute(&sql).await.expect("the statements are right");
    // Found before the server's own function.
    let separator = if url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-csearch_path%3D{clock},pg_catalog", url());
    let store = PostgresProvider::new(&url, Some(options(&schema))).await.expect("the store opens");
    let store = Arc::new(store);
    let client = Client::new(store.clone());
    send(&store, start("before the node")).await;
    let waits = "UPDATE {s}.queues SET ready_at = ready_at + 60000; UPDATE {s}.inbox SET visible_at = visible_at + 60000";
    server.batch_execute(&waits.replace("{s}", &schema)).await.expect("the statements are right");
    let _node = node(store).await;
    client.start_orchestration("runs", "FiveSteps", "x").await.expect("started");
    let ended = client.wait_for_orchestration("runs", PATIENCE).await.expect("seen");
    assert!(matches!(ended, OrchestrationStatus::Completed { .. }), "{ended:?}");
    server.batch_execute(&format!("UPDATE {clock}.step SET by = '0'")).await.expect("set back");
    client.start_orchestration("after", "FiveSteps", "x").await.expect("started");
    let ended = client.wait_for_orchestration("after", PATIENCE).await.expect("seen");
    assert!(matches!(ended, OrchestrationStatus::Completed { .. }), "{ended:?}");
    // Nobody has a handler for it: it is looked at, which it is not while it waits for its time.
    let ahead =
        format!("SELECT 1 FROM {schema}.queues WHERE ready_at > $1 AND lock_nonce IS NULL AND NOT ended");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let soon = i64::try_from(now.as_millis()).expect("a time") + 600_000;
    let ready = async {
        while !server.query(&ahead, &[&soon]).await.expect("asked").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("it does not wait for an hour");
}
