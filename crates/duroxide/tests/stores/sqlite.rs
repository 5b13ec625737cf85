//! SQLite stores in files, each with a clock that the tests move.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::Provider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider, Synchronous};
use duroxide_core::ItemKind;

/// SQLite stores in files.
pub(crate) struct SqliteFactory {
    clock: Arc<ManualClock>,
    created: Mutex<Option<Created>>,
}

struct Created {
    directory: tempfile::TempDir,
    store: Arc<SqliteProvider>,
}

impl Default for SqliteFactory {
    fn default() -> Self {
        Self { clock: Arc::new(ManualClock::new(super::BEGIN_MS)), created: Mutex::default() }
    }
}

impl SqliteFactory {
    /// Writes to the file as no provider method can; how many rows that changed.
    fn corrupt(&self, sql: &str, params: impl rusqlite::Params) -> usize {
        let created = self.created.lock().expect("no panic while locked");
        let directory = &created.as_ref().expect("a store was created").directory;
        let raw = rusqlite::Connection::open(directory.path().join("store.db")).expect("the file is there");
        raw.busy_timeout(Duration::from_secs(5)).expect("a timeout can be set");
        raw.execute(sql, params).expect("the statement is right")
    }
}

#[async_trait]
impl ProviderFactory for SqliteFactory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let url = format!("sqlite:{}", directory.path().join("store.db").display());
        // No validation cuts the power.
        let options = SqliteOptions {
            clock: self.clock.clone(),
            synchronous: Synchronous::Normal,
            ..SqliteOptions::default()
        };
        let store = Arc::new(SqliteProvider::new(&url, Some(options)).await.expect("the store opens"));
        *self.created.lock().expect("no panic while locked") =
            Some(Created { directory, store: Arc::clone(&store) });
        store
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let sql = "UPDATE history SET event = '{x' WHERE (instance_key, execution_id, event_id) IN \
                   (SELECT key, current_execution_id, 1 FROM instances WHERE instance_id = ?1)";
        assert_eq!(self.corrupt(sql, [instance]), 1, "'{instance}' has a history");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let store = {
            let created = self.created.lock().expect("no panic while locked");
            Arc::clone(&created.as_ref().expect("a store was created").store)
        };
        store.max_attempt_count(instance).await.expect("the store can be read")
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn has_manual_clock(&self) -> bool {
        true
    }

    async fn corrupt_message(&self, instance: &str, kind: ItemKind) -> Option<()> {
        let sql = "UPDATE inbox SET item = '{x' WHERE kind = ?2 \
                   AND instance_key = (SELECT key FROM instances WHERE instance_id = ?1)";
        (self.corrupt(sql, (instance, kind.code())) > 0).then_some(())
    }

    async fn corrupt_work_item(&self, instance: &str) -> Option<()> {
        (self.corrupt("UPDATE work_items SET item = '{x' WHERE instance_id = ?1", [instance]) > 0)
            .then_some(())
    }
}
