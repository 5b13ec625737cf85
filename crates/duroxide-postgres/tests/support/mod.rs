//! A server for the tests, and a schema of its own for each.

pub(crate) mod own_server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::provider_validation::{ForwardingProvider, ProviderFactory};
use duroxide::providers::Provider;
use duroxide_core::ItemKind;
use duroxide_postgres::{PostgresOptions, PostgresProvider};
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;

/// A time after the epoch, so that differences to it are not mistaken for times.
pub(crate) const BEGIN_MS: u64 = 1_700_000_000_000;

/// The server's URL.
pub(crate) fn url() -> String {
    private_postgres::shared().expect("there is a PostgreSQL server")
}

/// A name that no other test uses, also not one that runs at the same time.
pub(crate) fn new_schema() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("test_{}_{}_{number}", std::process::id(), now.as_millis())
}

/// Options for a store in this schema.
pub(crate) fn options(schema: &str) -> PostgresOptions {
    // A machine that is busy with other tests may let a process stand still for longer than any server would.
    let patience = Duration::from_secs(120);
    PostgresOptions {
        schema: schema.to_string(),
        pool_size: 2,
        connect_timeout: patience,
        idle_in_transaction_timeout: patience,
        ..PostgresOptions::default()
    }
}

/// A store in a schema of its own.
pub(crate) async fn open(options: PostgresOptions) -> PostgresProvider {
    PostgresProvider::new(&url(), Some(options)).await.expect("the store opens")
}

/// A connection as somebody else has it.
pub(crate) async fn raw() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

/// Changes rows as no provider method can; how many.
pub(crate) async fn corrupt(schema: &str, sql: &str, params: &[&(dyn ToSql + Sync)]) -> u64 {
    let sql = sql.replace("{s}", &format!("\"{schema}\""));
    raw().await.execute(&sql, params).await.expect("the statement is right")
}

/// Stores in schemas of their own, with a clock that the tests move.
pub(crate) struct PostgresFactory {
    clock: Arc<ManualClock>,
    created: Mutex<Option<(String, Arc<PostgresProvider>)>>,
}

impl Default for PostgresFactory {
    fn default() -> Self {
        Self { clock: Arc::new(ManualClock::new(BEGIN_MS)), created: Mutex::default() }
    }
}

impl PostgresFactory {
    fn created(&self) -> (String, Arc<PostgresProvider>) {
        self.created.lock().expect("no panic while locked").clone().expect("a store was created")
    }
}

#[async_trait]
impl ProviderFactory for PostgresFactory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let schema = new_schema();
        let options = PostgresOptions { clock: Some(self.clock.clone()), ..options(&schema) };
        let store = Arc::new(open(options).await);
        *self.created.lock().expect("no panic while locked") = Some((schema, store.clone()));
        store
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let sql = "UPDATE {s}.history SET event = '{x' WHERE (instance_key, execution_id, event_id) IN \
                   (SELECT q.key, q.current_execution_id, 1 FROM {s}.instances i JOIN {s}.queues q ON q.key = i.key \
                    WHERE i.instance_id = $1)";
        let corrupted = corrupt(&self.created().0, sql, &[&instance]).await;
        assert_eq!(corrupted, 1, "'{instance}' has a history");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.created().1.max_attempt_count(instance).await.expect("the store can be read")
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn has_manual_clock(&self) -> bool {
        true
    }

    async fn corrupt_message(&self, instance: &str, kind: ItemKind) -> Option<()> {
        let sql = "UPDATE {s}.inbox SET item = '{x' WHERE kind = $2 \
                   AND instance_key = (SELECT key FROM {s}.instances WHERE instance_id = $1)";
        let corrupted = corrupt(&self.created().0, sql, &[&instance, &kind.code()]).await;
        (corrupted > 0).then_some(())
    }

    async fn corrupt_work_item(&self, instance: &str) -> Option<()> {
        let sql = "UPDATE {s}.work_items SET item = '{x' WHERE instance_id = $1";
        (corrupt(&self.created().0, sql, &[&instance]).await > 0).then_some(())
    }
}

/// Another factory's stores, behind a wrapper that knows no extension.
pub(crate) struct Forwarded<F>(pub(crate) F);

#[async_trait]
impl<F: ProviderFactory> ProviderFactory for Forwarded<F> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(ForwardingProvider(self.0.create_provider().await))
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.0.corrupt_instance_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.0.get_max_attempt_count(instance).await
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    fn has_manual_clock(&self) -> bool {
        self.0.has_manual_clock()
    }

    async fn corrupt_message(&self, instance: &str, kind: ItemKind) -> Option<()> {
        self.0.corrupt_message(instance, kind).await
    }

    async fn corrupt_work_item(&self, instance: &str) -> Option<()> {
        self.0.corrupt_work_item(instance).await
    }
}
