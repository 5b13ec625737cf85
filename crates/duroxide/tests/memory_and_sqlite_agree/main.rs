//! The SQLite store answers as the model does.
#![cfg(feature = "sqlite")]

#[path = "../agreement/mod.rs"]
mod agreement;

use std::sync::Arc;
use std::time::Duration;

use agreement::{Damage, Subject, compare};
use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider, Synchronous};

/// Sequences that one run tries when the environment does not say: some ten seconds in a debug build.
const CASES: u32 = 60;

struct SqliteSubject {
    directory: tempfile::TempDir,
    store: Option<Arc<SqliteProvider>>,
}

impl SqliteSubject {
    fn store(&self) -> &SqliteProvider {
        self.store.as_ref().expect("the store was opened")
    }
}

#[async_trait]
impl Subject for SqliteSubject {
    async fn open(&mut self, clock: &Arc<ManualClock>) -> Arc<dyn Provider> {
        let url = format!("sqlite:{}", self.directory.path().join("store.db").display());
        // What a power cut would do is tested elsewhere.
        let options =
            SqliteOptions { clock: clock.clone(), synchronous: Synchronous::Normal, ..Default::default() };
        let store = Arc::new(SqliteProvider::new(&url, Some(options)).await.expect("the store opens"));
        self.store = Some(store.clone());
        store
    }

    async fn damage(&self, damage: Damage<'_>) -> usize {
        // A connection of somebody else.
        let raw = rusqlite::Connection::open(self.directory.path().join("store.db")).expect("opened");
        raw.busy_timeout(Duration::from_secs(5)).expect("set");
        let damaged = match damage {
            Damage::LastEvent(instance) => raw.execute(
                "UPDATE history SET event = '{' WHERE (instance_key, execution_id, event_id) = \
                 (SELECT h.instance_key, h.execution_id, max(h.event_id) FROM history h JOIN instances i \
                  ON i.key = h.instance_key AND i.current_execution_id = h.execution_id WHERE i.instance_id = ?1)",
                [instance],
            ),
            Damage::Messages(instance, kind) => raw.execute(
                "UPDATE inbox SET item = '{' WHERE kind = ?2 AND instance_key = \
                 (SELECT key FROM instances WHERE instance_id = ?1)",
                (instance, kind.code()),
            ),
            Damage::Work(instance) => {
                raw.execute("UPDATE work_items SET item = '{' WHERE instance_id = ?1", [instance])
            }
        };
        damaged.expect("the statement is right")
    }

    async fn max_attempt_count(&self, instance: &str) -> u32 {
        self.store().max_attempt_count(instance).await.expect("the store can be read")
    }

    fn dropped_messages(&self) -> u64 {
        self.store().statistics().dropped_messages
    }
}

#[test]
fn both_stores_give_the_same_answers() {
    compare(CASES, || {
        let directory = tempfile::tempdir().expect("a directory");
        Box::new(SqliteSubject { directory, store: None })
    });
}
