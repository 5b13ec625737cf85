//! Starting and sending inside a transaction of the caller.

use std::sync::Arc;

use duroxide::{Client, OrchestrationStatus, SendOutcome, StartOutcome};
use duroxide_postgres::PostgresProvider;
use tokio_postgres::Transaction;

use crate::programs::{PATIENCE, node};
use crate::support::{new_schema, open, options, raw};

#[tokio::test(flavor = "multi_thread")]
async fn a_row_and_a_start_commit_together_or_not_at_all() {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    let client = Client::new(store.clone());
    let _node = node(store.clone()).await;
    let mut own = raw().await;
    own.batch_execute(&format!("CREATE TABLE {schema}.orders (id TEXT PRIMARY KEY)")).await.expect("made");
    let insert = format!("INSERT INTO {schema}.orders VALUES ($1)");

    let tx = own.transaction().await.expect("begun");
    tx.execute(&insert, &[&"lost"]).await.expect("inserted");
    client.start_orchestration_in(&store.within(&tx), "lost", "FiveSteps", "x").await.expect("started");
    client.enqueue_event_in(&store.within(&tx), "lost", "queue", "data").await.expect("sent");
    tx.rollback().await.expect("rolled back");

    let tx = own.transaction().await.expect("begun");
    tx.execute(&insert, &[&"kept"]).await.expect("inserted");
    client.start_orchestration_in(&store.within(&tx), "kept", "Waits", "").await.expect("started");
    client.raise_event_in(&store.within(&tx), "kept", "go", "now").await.expect("raised");
    assert_eq!(client.get_orchestration_status("kept").await.expect("read"), OrchestrationStatus::NotFound);
    tx.commit().await.expect("committed");

    let status = client.wait_for_orchestration("kept", PATIENCE).await.expect("seen");
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "now"),
        "{status:?}"
    );
    assert_eq!(client.list_all_instances().await.expect("listed"), ["kept"]);
    let rows = own.query(&format!("SELECT id FROM {schema}.orders"), &[]).await.expect("read");
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_in_an_open_transaction_holds_up_a_second_start_of_the_id_only() {
    let store = Arc::new(open(options(&new_schema())).await);
    let client = Client::new(store.clone());
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    client.start_orchestration_in(&store.within(&tx), "a", "FiveSteps", "mine").await.expect("started");
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.start_orchestration("a", "Waits", "theirs").await }
    });
    tx.commit().await.expect("committed");
    second.await.expect("no panic").expect("a second start is no mistake");
    let info = client.get_instance_info("a").await.expect("there");
    assert_eq!(info.orchestration_name, "FiveSteps", "the first start counts");
}

/// A store with a table of the caller's beside it.
async fn shop() -> (String, Arc<PostgresProvider>, Client) {
    let schema = new_schema();
    let store = Arc::new(open(options(&schema)).await);
    raw().await.batch_execute(&format!("CREATE TABLE {schema}.orders (id TEXT)")).await.expect("made");
    (schema, store.clone(), Client::new(store))
}

/// What the caller does in its transaction: it raises and enqueues for an instance that runs, too.
async fn order(schema: &str, store: &PostgresProvider, client: &Client, tx: &Transaction<'_>) {
    tx.execute(&format!("INSERT INTO {schema}.orders VALUES ('lost')"), &[]).await.expect("inserted");
    let within = store.within(tx);
    client.start_orchestration_in(&within, "lost", "FiveSteps", "x").await.expect("started");
    client.raise_event_in(&within, "waits", "go", "now").await.expect("raised");
    client.enqueue_event_in(&within, "waits", "queue", "data").await.expect("sent");
}

/// Nothing of that has happened, and the store goes on.
async fn expect_nothing(schema: &str, client: &Client) {
    // A start of the same id has nothing to wait for.
    client.start_orchestration("lost", "Waits", "").await.expect("started");
    assert_eq!(client.get_instance_info("lost").await.expect("there").orchestration_name, "Waits");
    let stats = client.get_orchestration_stats("waits").await.expect("read").expect("there");
    assert_eq!(stats.queue_pending_count, 1, "its start alone");
    let rows = raw().await.query(&format!("SELECT id FROM {schema}.orders"), &[]).await.expect("read");
    assert!(rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_dropped_starts_and_sends_nothing() {
    let (schema, store, client) = shop().await;
    client.start_orchestration("waits", "Waits", "").await.expect("started");
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    order(&schema, &store, &client, &tx).await;
    drop(tx);
    // Whatever is asked next on the connection comes behind the rollback.
    own.batch_execute("SELECT 1").await.expect("asked");
    expect_nothing(&schema, &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_before_the_commit_starts_and_sends_nothing() {
    let (schema, store, client) = shop().await;
    client.start_orchestration("waits", "Waits", "").await.expect("started");
    let mut own = raw().await;
    let pid: i32 = own.query_one("SELECT pg_backend_pid()", &[]).await.expect("asked").get(0);
    let tx = own.transaction().await.expect("begun");
    order(&schema, &store, &client, &tx).await;
    raw().await.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("ended");
    tx.commit().await.expect_err("nobody is there to commit");
    expect_nothing(&schema, &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_is_told_what_becomes_of_its_messages_if_it_commits() {
    let store = Arc::new(open(options(&new_schema())).await);
    let client = Client::new(store.clone());
    let exists = |same_input| StartOutcome::AlreadyExists { orchestration: "Waits".to_string(), same_input };
    let mut own = raw().await;
    let tx = own.transaction().await.expect("begun");
    let within = store.within(&tx);
    let raised = client.raise_event_in_checked(&within, "a", "go", "now").await;
    assert_eq!(raised.expect("told"), SendOutcome::Kept);
    let started = client.start_orchestration_in_checked(&within, "a", "Waits", "one").await;
    assert_eq!(started.expect("told"), StartOutcome::Started);
    let again = client.start_orchestration_versioned_in_checked(&within, "a", "Waits", "1.0.0", "two").await;
    assert_eq!(again.expect("told"), exists(false));
    let sent = client.enqueue_event_in_checked(&within, "a", "queue", "data").await;
    assert_eq!(sent.expect("told"), SendOutcome::Delivered);
    tx.commit().await.expect("committed");
    let after = client.start_orchestration_checked("a", "Waits", "one").await;
    assert_eq!(after.expect("told"), exists(true));
}
