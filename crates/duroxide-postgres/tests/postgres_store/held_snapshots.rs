//! Dead rows that no vacuum may remove, because a transaction elsewhere keeps its snapshot; and rows that get behind the
//! place where looks therefore begin.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::support::{one_turn, one_work};
use duroxide::providers::{
    CallerTransaction as _, ExecutionMetadata, HandlerSet, HandlerVersions, Provider as _, TagFilter,
    TurnRequest, WorkItem, WorkRequest,
};
use duroxide::{Client, OrchestrationStatus};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::programs::{PATIENCE, node};
use crate::remembered::start;
use crate::support::{corrupt, new_schema, open, options, raw};

/// Locks do not expire during a test.
const LOCK: Duration = Duration::from_secs(3600);
/// How often a store searches for rows that no notification told of.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// No search, and no look but for notifications.
const ONLY_NOTIFIED: Duration = Duration::from_secs(3600);
/// Long enough for a look that finds nothing.
const ONE_LOOK: Duration = Duration::from_millis(50);

async fn store(schema: &str, poll_interval: Duration) -> PostgresProvider {
    open(PostgresOptions { poll_interval, ..options(schema) }).await
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

/// Fetches a turn; its token.
async fn fetch_turn(store: &PostgresProvider, poll_timeout: Duration) -> Option<String> {
    let fetched = store.fetch_orchestration_item(LOCK, poll_timeout, None).await.expect("fetched");
    fetched.map(|(_, token, _)| token)
}

/// Fetches a work item; its token.
async fn fetch_work(store: &PostgresProvider, poll_timeout: Duration) -> Option<String> {
    let fetched = store.fetch_work_item(LOCK, poll_timeout, None, &TagFilter::default()).await;
    fetched.expect("fetched").map(|(_, token, _)| token)
}

/// A turn is locked and found to be so; then a raw writer makes it ready as of long ago, without a notification.
async fn check_turn_changed_by_hand(change: &str) {
    let schema = new_schema();
    let store = store(&schema, POLL_INTERVAL).await;
    store.enqueue_for_orchestrator(start("a"), None).await.expect("enqueued");
    fetch_turn(&store, Duration::ZERO).await.expect("it is ready");
    assert_eq!(fetch_turn(&store, ONE_LOOK).await, None);
    let sql =
        format!("UPDATE {{s}}.queues SET revision = revision + 1, ready_at = 5, lock_nonce = NULL, {change}");
    assert_eq!(corrupt(&schema, &sql, &[]).await, 1);
    assert!(fetch_turn(&store, PATIENCE).await.is_some(), "not found: {change}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_made_ready_by_hand_is_found() {
    check_turn_changed_by_hand("suspect = FALSE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspect_that_was_made_ready_by_hand_is_found() {
    check_turn_changed_by_hand("suspect = TRUE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_version_that_no_look_has_seen_is_found() {
    check_turn_changed_by_hand("suspect = FALSE, pinned_key = 12345").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_item_that_was_made_ready_by_hand_is_found() {
    for suspect in ["FALSE", "TRUE"] {
        let schema = new_schema();
        let store = store(&schema, POLL_INTERVAL).await;
        store.enqueue_for_worker(activity("a")).await.expect("enqueued");
        fetch_work(&store, Duration::ZERO).await.expect("it is ready");
        assert_eq!(fetch_work(&store, ONE_LOOK).await, None);
        let sql = format!("UPDATE {{s}}.work_items SET ready_at = 5, lock_nonce = NULL, suspect = {suspect}");
        assert_eq!(corrupt(&schema, &sql, &[]).await, 1);
        assert!(fetch_work(&store, PATIENCE).await.is_some(), "not found: suspect {suspect}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_says_how_far_back_rows_are_ready() {
    let schema = new_schema();
    let (one, other) = (store(&schema, ONLY_NOTIFIED).await, store(&schema, ONLY_NOTIFIED).await);
    one.enqueue_for_orchestrator(start("a"), None).await.expect("enqueued");
    let turn = fetch_turn(&one, Duration::ZERO).await.expect("it is ready");
    one.enqueue_for_worker(activity("a")).await.expect("enqueued");
    let work = fetch_work(&one, Duration::ZERO).await.expect("it is ready");
    assert_eq!(fetch_turn(&other, ONE_LOOK).await, None);
    assert_eq!(fetch_work(&other, ONE_LOOK).await, None);
    // Ready since they were enqueued, which is before the looks.
    one.abandon_orchestration_item(&turn, None, false).await.expect("given back");
    assert!(fetch_turn(&other, PATIENCE).await.is_some());
    one.abandon_work_item(&work, None, true).await.expect("given back");
    assert!(fetch_work(&other, PATIENCE).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_transaction_was_open_during_a_look_is_found_after_its_commit() {
    let schema = new_schema();
    let store = store(&schema, ONLY_NOTIFIED).await;
    let mut own = raw().await;
    let transaction = own.transaction().await.expect("begun");
    store.within(&transaction).enqueue(start("a")).await.expect("enqueued");
    assert_eq!(fetch_turn(&store, ONE_LOOK).await, None);
    transaction.commit().await.expect("committed");
    assert!(fetch_turn(&store, PATIENCE).await.is_some());
}

/// Dead rows of each queue.
const DEAD: i64 = 40_000;
/// Entries of an index that a scan may read on average. Without a horizon a look reads all dead entries several times; with
/// one it reads those of the last moments.
const READ_BY_SCAN: i64 = 500;

/// Leaves dead rows in the queues that were ready an hour ago, or whose locks ended then, and among their executions. Vacuum
/// tells the planner that few rows are alive.
async fn leave_dead_rows(schema: &str) {
    let raw = raw().await;
    let then = "(extract(epoch FROM now()) * 1000)::bigint - 3600000 + g";
    let sql = format!(
        "INSERT INTO {{s}}.queues (key, ended, updated_at, current_execution_id, pinned_key, has_kv, inbox_count, \
           next_position, not_before, ready_at, suspect, suspect_before) \
         SELECT -g, FALSE, 0, 1, CASE WHEN g % 4 < 2 THEN -1 ELSE v.key END, FALSE, 1, 2, 0, {then}, g % 2 = 0, FALSE \
         FROM generate_series(1, {DEAD}) AS g, (SELECT coalesce(max(pinned_key), 0) AS key FROM {{s}}.queues) AS v; \
         INSERT INTO {{s}}.inbox (instance_key, visible_at, position, kind, item) \
         SELECT -g, {then}, 1, 1, '' FROM generate_series(1, {DEAD}) AS g; \
         INSERT INTO {{s}}.work_items (id, instance_id, execution_id, activity_id, name, tag, visible_at, ready_at, suspect, \
           item) \
         SELECT -g, 'gone', 1, -g, 'Any', '', {then}, {then}, g % 2 = 0, '' FROM generate_series(1, {DEAD}) AS g; \
         INSERT INTO {{s}}.executions (instance_key, execution_id, status, started_at, event_count, last_event_id, \
           history_bytes) \
         SELECT -g, 1, 1, {then}, 0, 0, 0 FROM generate_series(1, {DEAD}) AS g; \
         DELETE FROM {{s}}.queues WHERE key < 0; DELETE FROM {{s}}.inbox WHERE instance_key < 0; \
         DELETE FROM {{s}}.work_items WHERE id < 0; DELETE FROM {{s}}.executions WHERE instance_key < 0"
    );
    let sql = sql.replace("{s}", &format!("\"{schema}\""));
    raw.batch_execute(&sql).await.expect("the statements are right");
    for table in ["queues", "inbox", "work_items", "executions"] {
        let vacuum = format!("VACUUM \"{schema}\".{table}");
        raw.batch_execute(&vacuum).await.expect("the statement is right");
    }
}

/// An index of these tables, how often it was scanned, and how many entries were read.
type Scans = Vec<(String, i64, i64)>;

async fn scans(schema: &str) -> Scans {
    let sql = "SELECT indexrelname::text, idx_scan, idx_tup_read FROM pg_stat_user_indexes \
         WHERE schemaname = $1 AND relname IN ('queues', 'inbox', 'work_items', 'executions') ORDER BY 1";
    let rows = raw().await.query(sql, &[&schema]).await.expect("the statement is right");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_turn_reads_the_dead_rows_that_a_held_snapshot_keeps() {
    let schema = new_schema();
    let store = Arc::new(store(&schema, ONLY_NOTIFIED).await);
    let client = Client::new(store.clone());
    let _node = node(store).await;
    run(&client, "before").await;
    let holder = hold_snapshot(&schema).await;
    leave_dead_rows(&schema).await;
    let before = scans(&schema).await;
    run(&client, "held").await;
    // Every turn scans these. How often others are scanned depends on how many turns share a transaction.
    let after = scans_since(&schema, &before, &QUEUES_BY_KEY, HALF_OF_INSTANCES).await;
    holder.batch_execute("ROLLBACK").await.expect("the snapshot is gone");
    check_scans(&before, &after, |index| !index.starts_with("executions"));
}

/// Instances that run at a time.
const INSTANCES: usize = 60;
const HALF_OF_INSTANCES: i64 = 30;
/// The indexes of the queues that have the rows by key.
const QUEUES_BY_KEY: [&str; 3] = ["inbox_pkey", "queues_pkey", "work_items_pkey"];

/// Many instances together, so that their turns share transactions.
async fn run(client: &Client, prefix: &str) {
    let ids: Vec<String> = (0..INSTANCES).map(|n| format!("{prefix}{n}")).collect();
    let started = ids.iter().map(|id| client.start_orchestration(id, "FiveSteps", "x"));
    futures_util::future::try_join_all(started).await.expect("started");
    for id in &ids {
        let status = client.wait_for_orchestration(id, PATIENCE).await.expect("seen");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    }
}

async fn hold_snapshot(schema: &str) -> tokio_postgres::Client {
    let holder = raw().await;
    let hold = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM \"{schema}\".queues");
    holder.batch_execute(&hold).await.expect("the snapshot is held");
    holder
}

/// The server counts with a delay: the scans when each of these indexes has been scanned so often.
async fn scans_since(schema: &str, before: &Scans, indexes: &[&str], least: i64) -> Scans {
    loop {
        let after = scans(schema).await;
        let counted = |(now, then): (&(String, i64, i64), &(String, i64, i64))| {
            !indexes.contains(&now.0.as_str()) || now.1 - then.1 >= least
        };
        if after.iter().zip(before).all(counted) {
            return after;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// No index of these was read from end to end.
fn check_scans(before: &Scans, after: &Scans, judged: impl Fn(&str) -> bool) {
    for ((index, scans, read), (_, scans_before, read_before)) in after.iter().zip(before) {
        let (scans, read) = (scans - scans_before, read - read_before);
        assert!(!judged(index) || read <= scans * READ_BY_SCAN, "{index}: {scans} scans read {read} entries");
    }
}

/// The planner believes that the tables are empty, so that reading all of an index costs nothing. It must not have the choice.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_call_names_are_found_by_their_keys_in_tables_that_vacuum_found_empty() {
    const ROUNDS: i64 = 10;
    let schema = new_schema();
    let store = store(&schema, ONLY_NOTIFIED).await;
    let holder = hold_snapshot(&schema).await;
    leave_dead_rows(&schema).await;
    let before = scans(&schema).await;
    for round in 0..ROUNDS {
        let instance = format!("i{round}");
        take_and_return_work(&store, &instance).await;
        take_and_return_turn(&store, &instance).await;
    }
    let after = scans_since(&schema, &before, &QUEUES_BY_KEY, ROUNDS).await;
    holder.batch_execute("ROLLBACK").await.expect("the snapshot is gone");
    check_scans(&before, &after, |index| QUEUES_BY_KEY.contains(&index));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_many_turns_change_are_found_by_their_keys_in_tables_that_vacuum_found_empty() {
    const BY_KEY: [&str; 4] = ["executions_pkey", "inbox_pkey", "queues_pkey", "work_items_pkey"];
    let schema = new_schema();
    let store = Arc::new(store(&schema, ONLY_NOTIFIED).await);
    let client = Client::new(store.clone());
    let holder = hold_snapshot(&schema).await;
    leave_dead_rows(&schema).await;
    let before = scans(&schema).await;
    let _node = node(store).await;
    run(&client, "held").await;
    let after = scans_since(&schema, &before, &BY_KEY, HALF_OF_INSTANCES).await;
    holder.batch_execute("ROLLBACK").await.expect("the snapshot is gone");
    check_scans(&before, &after, |index| BY_KEY.contains(&index));
}

/// An activity that two nodes take: one that takes every activity, and one that takes those that it can run.
async fn take_and_return_work(store: &PostgresProvider, instance: &str) {
    store.enqueue_for_worker(activity(instance)).await.expect("enqueued");
    let token = fetch_work(store, PATIENCE).await.expect("it is ready");
    store.renew_work_item_lock(&token, LOCK).await.expect("renewed");
    store.record_progress(&token, "half").await.expect("recorded");
    assert!(store.lost_work_items(std::slice::from_ref(&token), LOCK).await.expect("asked").is_empty());
    store.abandon_work_item(&token, None, false).await.expect("given back");
    let request = WorkRequest {
        activities: Some(Arc::new(BTreeSet::from(["Any".to_string()]))),
        ..one_work(LOCK, PATIENCE, None, &TagFilter::DefaultOnly)
    };
    let fetched = store.fetch_work(request).await.expect("fetched");
    store.ack_work_item(&fetched[0].lock_token, None).await.expect("acknowledged");
}

/// A turn that two nodes take: one that takes every turn, and one that takes those that it can run.
async fn take_and_return_turn(store: &PostgresProvider, instance: &str) {
    store.enqueue_for_orchestrator(start(instance), None).await.expect("enqueued");
    let token = fetch_turn(store, PATIENCE).await.expect("it is ready");
    store.renew_orchestration_item_lock(&token, LOCK).await.expect("renewed");
    store.abandon_orchestration_item(&token, None, false).await.expect("given back");
    let version = semver::Version::new(1, 0, 0);
    let versions = HandlerVersions { versions: [version.clone()].into(), unversioned: Some(version) };
    let handlers = HandlerSet { orchestrations: [("O".to_string(), versions)].into() };
    let request = TurnRequest { handlers: Some(handlers.into()), ..one_turn(LOCK, PATIENCE, None) };
    let fetched = store.fetch_turns(request).await.expect("fetched");
    let end = store.ack_orchestration_item(
        &fetched[0].lock_token,
        1,
        Vec::new(),
        Vec::new(),
        Vec::new(),
        ExecutionMetadata::default(),
        Vec::new(),
    );
    end.await.expect("acknowledged");
}
