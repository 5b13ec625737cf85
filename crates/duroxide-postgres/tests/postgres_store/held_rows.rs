//! Rows that another transaction holds: only their own instances wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::runtime::Runtime;
use duroxide::{Client, OrchestrationStatus};
use duroxide_postgres::PostgresProvider;

use crate::programs::{PATIENCE, node};
use crate::support::{new_schema, open, options, raw};

/// Instances that run one after another, before a row is held and while it is.
const NEIGHBOURS: usize = 20;
/// The longest that one of them may take while a row is held. Without a held row it takes some 20 ms; a carrier
/// that waits for the row takes the whole `lock_timeout` of 10 s.
const LONGEST: Duration = Duration::from_secs(1);

/// A store with a node, and an instance `held` that waits for the event `go`.
struct Setting {
    schema: String,
    store: Arc<PostgresProvider>,
    client: Client,
    _node: Arc<Runtime>,
}

impl Setting {
    /// `held` has no turn before `prepare` is done.
    async fn after(prepare: impl AsyncFnOnce(&str)) -> Self {
        let schema = new_schema();
        let store = Arc::new(open(options(&schema)).await);
        let client = Client::new(store.clone());
        client.start_orchestration("held", "Waits", "").await.expect("started");
        prepare(&schema).await;
        let node = node(store.clone()).await;
        Self { schema, store, client, _node: node }
    }

    async fn new() -> Self {
        let setting = Self::after(async |_| ()).await;
        while setting.client.read_execution_history("held", 1).await.expect("read").len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        setting
    }

    /// How long instances take from their start to their end: the median, and the longest.
    async fn latencies(&self, prefix: &str) -> (Duration, Duration) {
        let mut all = Vec::new();
        for n in 0..NEIGHBOURS {
            let (id, begin) = (format!("{prefix}{n}"), Instant::now());
            self.client.start_orchestration(&id, "FiveSteps", "x").await.expect("started");
            let status = self.client.wait_for_orchestration(&id, PATIENCE).await.expect("seen");
            assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
            all.push(begin.elapsed());
        }
        all.sort_unstable();
        (all[NEIGHBOURS / 2], all[NEIGHBOURS - 1])
    }

    /// Neighbours are as fast as before, but for what a few short waits for the held row cost.
    async fn check_neighbours(&self, before: (Duration, Duration)) {
        let held = self.latencies("during").await;
        assert!(held.1 < LONGEST, "before {before:?}, while a row is held {held:?}");
        assert!(held.0 < before.0 * 3, "before {before:?}, while a row is held {held:?}");
    }

    async fn check_held_ends(&self, output: &str) {
        let status = self.client.wait_for_orchestration("held", PATIENCE).await.expect("seen");
        assert!(
            matches!(&status, OrchestrationStatus::Completed { output: end, .. } if end == output),
            "{status:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_of_a_caller_delays_only_its_own_instance() {
    let setting = Setting::new().await;
    let before = setting.latencies("before").await;
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    let within = setting.store.within(&tx);
    setting.client.raise_event_in(&within, "held", "go", "in the transaction").await.expect("raised");
    let also = tokio::spawn({
        let client = setting.client.clone();
        async move { client.raise_event("held", "go", "beside it").await }
    });
    setting.check_neighbours(before).await;
    assert!(!also.is_finished(), "it comes behind the transaction");
    tx.commit().await.expect("committed");
    also.await.expect("no panic").expect("raised");
    setting.check_held_ends("in the transaction").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_caller_starts_in_an_open_transaction_holds_up_nobody_else() {
    let setting = Setting::new().await;
    let before = setting.latencies("before").await;
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    let within = setting.store.within(&tx);
    setting.client.start_orchestration_in(&within, "new", "FiveSteps", "mine").await.expect("started");
    let second = tokio::spawn({
        let client = setting.client.clone();
        async move { client.start_orchestration("new", "Waits", "theirs").await }
    });
    setting.check_neighbours(before).await;
    assert!(!second.is_finished(), "it is not known yet whether the id is free");
    tx.commit().await.expect("committed");
    second.await.expect("no panic").expect("a second start is no mistake");
    let status = setting.client.wait_for_orchestration("new", PATIENCE).await.expect("seen");
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "mine....."),
        "{status:?}"
    );
}

/// Another transaction locks the rows of `held` that a condition on its key names, and `go` is raised meanwhile.
async fn check_locked(rows: &str) {
    let setting = Setting::new().await;
    let before = setting.latencies("before").await;
    let schema = &setting.schema;
    let mut other = raw().await;
    let tx = other.transaction().await.expect("begun");
    let key = format!("(SELECT key FROM {schema}.instances WHERE instance_id = 'held')");
    let lock = format!("SELECT 1 FROM {schema}.{} FOR UPDATE", rows.replace("{key}", &key));
    assert!(!tx.query(&lock, &[]).await.expect("locked").is_empty(), "there is such a row");
    let raised = tokio::spawn({
        let client = setting.client.clone();
        async move { client.raise_event("held", "go", "late").await }
    });
    setting.check_neighbours(before).await;
    let status = setting.client.get_orchestration_status("held").await.expect("read");
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    tx.rollback().await.expect("given up");
    raised.await.expect("no panic").expect("raised");
    setting.check_held_ends("late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_instances_that_somebody_locks_delays_only_its_own_instance() {
    check_locked("instances WHERE key = {key}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_queues_that_somebody_locks_delays_only_its_own_instance() {
    check_locked("queues WHERE key = {key}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_executions_that_somebody_locks_delays_only_its_own_instance() {
    check_locked("executions WHERE instance_key = {key}").await;
}

/// No probe looks at messages: it must be found out which call is in the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_somebody_locks_delays_only_its_own_instance() {
    let other = raw().await;
    let lock = async |schema: &str| {
        let lock = format!("BEGIN; SELECT 1 FROM {schema}.inbox FOR UPDATE");
        other.batch_execute(&lock).await.expect("locked");
    };
    let setting = Setting::after(lock).await;
    // The first turn of `held` is run, and cannot delete its message.
    setting.client.raise_event("held", "go", "late").await.expect("raised");
    let (_, longest) = setting.latencies("during").await;
    assert!(longest < LONGEST, "{longest:?}");
    other.batch_execute("ROLLBACK").await.expect("given up");
    setting.check_held_ends("late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_a_locked_row_are_carried_out_in_their_order() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    client.start_orchestration("held", "Waits", "").await.expect("started");
    let mut other = raw().await;
    let tx = other.transaction().await.expect("begun");
    tx.query(&format!("SELECT 1 FROM {schema}.queues FOR UPDATE"), &[]).await.expect("locked");
    let numbers: Vec<String> = (0..20).map(|n| format!("number {n:02}")).collect();
    let one = |number: &String| client.raise_event("held", "queue", number.clone());
    let (first, rest) = numbers.split_first().expect("there are some");
    let release = async {
        // The first waits for the row with the carrier, the others come while it waits beside it.
        while store.statistics().conflicts == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let rest = futures::future::join_all(rest.iter().map(one));
        let rollback = async { tx.rollback().await.expect("given up") };
        futures::join!(rest, rollback).0
    };
    let (first, rest) = futures::join!(one(first), release);
    std::iter::once(first).chain(rest).for_each(|sent| sent.expect("sent"));
    let sql = format!("SELECT item FROM {schema}.inbox WHERE kind = 6 ORDER BY visible_at, position");
    let items: Vec<String> =
        raw().await.query(&sql, &[]).await.expect("read").iter().map(|row| row.get(0)).collect();
    assert_eq!(items.len(), numbers.len());
    for (item, number) in items.iter().zip(&numbers) {
        assert!(item.contains(number.as_str()), "{items:?}");
    }
}
