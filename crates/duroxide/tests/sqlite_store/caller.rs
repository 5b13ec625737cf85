//! Starting and sending inside a transaction of the caller.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::rusqlite::{Connection, TransactionBehavior};
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, ClientError, OrchestrationContext, OrchestrationRegistry, SendOutcome, StartOutcome};

use crate::fixture::{LONG, Place};

/// A store with a runtime that runs `Waits`, and the caller's own connection with a table of its own.
struct Shop {
    place: Place,
    store: Arc<SqliteProvider>,
    client: Client,
    runtime: Arc<Runtime>,
}

impl Shop {
    async fn open() -> Self {
        let place = Place::new();
        let options =
            SqliteOptions { shared_file_poll_interval: Duration::from_millis(10), ..Default::default() };
        let store = Arc::new(place.open_with(options).await);
        place.raw().execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)").unwrap();
        let waits = OrchestrationRegistry::builder()
            .register("Waits", |ctx: OrchestrationContext, input: String| async move {
                let event = ctx.schedule_wait("go").await;
                let message = ctx.dequeue_event("queue").await;
                Ok(format!("{input} {event} {message}"))
            })
            .build();
        let activities = ActivityRegistry::builder().build();
        let runtime = Runtime::start_with_store(store.clone(), activities, waits).await;
        Self { place, client: Client::new(store.clone()), store, runtime }
    }

    /// What the caller does in its transaction.
    async fn order(&self, own: &Connection, id: &str) {
        own.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        let tx = self.store.within(own);
        self.client.start_orchestration_in(&tx, id, "Waits", id).await.unwrap();
        self.client.raise_event_in(&tx, id, "go", "went").await.unwrap();
        self.client.enqueue_event_in(&tx, id, "queue", "first").await.unwrap();
    }

    fn orders(&self) -> Vec<String> {
        let raw = self.place.raw();
        let mut rows = raw.prepare("SELECT id FROM orders ORDER BY id").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The store goes on as if nothing had been begun, and only `kept` is there.
    async fn expect_only(self, kept: &[&str]) {
        self.client.start_orchestration("after", "Waits", "after").await.unwrap();
        self.client.raise_event("after", "go", "went").await.unwrap();
        self.client.enqueue_event("after", "queue", "first").await.unwrap();
        for id in kept.iter().chain(&["after"]) {
            let output: String = self.client.wait_for_orchestration_typed(id, LONG).await.unwrap().unwrap();
            assert_eq!(output, format!("{id} went first"));
        }
        let mut all = self.client.list_all_instances().await.unwrap();
        all.sort();
        let mut expected: Vec<&str> = kept.iter().copied().chain(["after"]).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert_eq!(self.orders(), kept);
        self.runtime.shutdown(None).await;
    }
}

#[tokio::test]
async fn what_the_caller_commits_is_started_and_sent_with_its_rows() {
    let shop = Shop::open().await;
    let mut own = shop.place.raw();
    let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    shop.order(&tx, "kept").await;
    tx.commit().unwrap();
    shop.expect_only(&["kept"]).await;
}

#[tokio::test]
async fn what_the_caller_rolls_back_was_never_started_nor_sent() {
    let shop = Shop::open().await;
    let mut own = shop.place.raw();
    let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    shop.order(&tx, "lost").await;
    tx.rollback().unwrap();
    shop.expect_only(&[]).await;
}

#[tokio::test]
async fn a_transaction_that_is_dropped_starts_and_sends_nothing() {
    let shop = Shop::open().await;
    let mut own = shop.place.raw();
    let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    shop.order(&tx, "lost").await;
    drop(tx);
    shop.expect_only(&[]).await;
}

#[tokio::test]
async fn a_connection_that_ends_in_its_transaction_starts_and_sends_nothing() {
    let shop = Shop::open().await;
    let own = shop.place.raw();
    own.execute_batch("BEGIN IMMEDIATE").unwrap();
    shop.order(&own, "lost").await;
    drop(own);
    shop.expect_only(&[]).await;
}

#[tokio::test]
async fn without_a_transaction_nothing_is_sent() {
    let shop = Shop::open().await;
    let own = shop.place.raw();
    let refused = shop.client.start_orchestration_in(&shop.store.within(&own), "lost", "Waits", "").await;
    let Err(ClientError::InvalidInput { message }) = refused else { panic!("{refused:?}") };
    assert!(message.contains("transaction"), "{message}");
    drop(own);
    shop.expect_only(&[]).await;
}

#[tokio::test]
async fn the_caller_is_told_what_becomes_of_its_messages_if_it_commits() {
    let shop = Shop::open().await;
    let exists = |same_input| StartOutcome::AlreadyExists { orchestration: "Waits".to_string(), same_input };
    let mut own = shop.place.raw();
    let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let (within, client) = (shop.store.within(&tx), &shop.client);
    assert_eq!(
        client.raise_event_in_checked(&within, "kept", "go", "went").await.unwrap(),
        SendOutcome::Kept
    );
    assert_eq!(
        client.start_orchestration_in_checked(&within, "kept", "Waits", "kept").await.unwrap(),
        StartOutcome::Started
    );
    assert_eq!(
        client.start_orchestration_versioned_in_checked(&within, "kept", "Waits", "1.0.0", "").await.unwrap(),
        exists(false)
    );
    assert_eq!(
        client.enqueue_event_in_checked(&within, "kept", "queue", "first").await.unwrap(),
        SendOutcome::Delivered
    );
    tx.execute("INSERT INTO orders VALUES ('kept')", []).unwrap();
    tx.commit().unwrap();
    assert_eq!(shop.client.start_orchestration_checked("kept", "Waits", "kept").await.unwrap(), exists(true));
    shop.expect_only(&["kept"]).await;
}
