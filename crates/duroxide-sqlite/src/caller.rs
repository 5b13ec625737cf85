//! Messages that are sent inside a transaction of the caller, on the caller's own connection to the file.

use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_provider::rules::{Answer, Call, EncodedItem, Wish, check_message};
use duroxide_provider::{CallerTransaction, Enqueued, ProviderError};
use rusqlite::Connection;

use super::db::Db;
use super::fault::Fault;
use super::open_file::OpenFile;
use super::statistics::Counters;
use super::store::SqliteProvider;
use super::tx::Tx;
use super::values::Ms;

/// A transaction of the caller on the store's file.
pub struct SqliteTransaction<'c> {
    connection: &'c Connection,
    counters: Arc<Counters>,
    now: Ms,
    file: Option<Arc<OpenFile>>,
}

impl SqliteProvider {
    /// Lets messages be sent inside a transaction that the caller began on a connection of its own to the
    /// store's file, where the caller's tables are, too.
    ///
    /// Begin it with `BEGIN IMMEDIATE` (`TransactionBehavior::Immediate`): the store writes to the same file. The
    /// store notices the commit as it notices other processes, within
    /// [`shared_file_poll_interval`](super::SqliteOptions::shared_file_poll_interval).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("app.db");
    /// use std::sync::Arc;
    /// use duroxide::providers::sqlite::{SqliteProvider, rusqlite};
    ///
    /// let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await.unwrap());
    /// let client = duroxide::Client::new(store.clone());
    /// let mut own = rusqlite::Connection::open(&path).unwrap();
    /// own.execute("CREATE TABLE orders (id TEXT)", []).unwrap();
    ///
    /// let tx = own.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    /// tx.execute("INSERT INTO orders VALUES ('order-1')", []).unwrap();
    /// client.start_orchestration_in(&store.within(&tx), "order-1", "Process", "{}").await.unwrap();
    /// tx.commit().unwrap();
    /// assert_eq!(client.list_all_instances().await.unwrap(), ["order-1"]);
    /// # });
    /// ```
    pub fn within<'c>(&self, connection: &'c Connection) -> SqliteTransaction<'c> {
        SqliteTransaction { connection, counters: self.counters(), now: self.now(), file: self.file() }
    }
}

impl CallerTransaction for SqliteTransaction<'_> {
    async fn enqueue(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.send(item, Wish::NotTold).map(drop)
    }

    async fn enqueue_checked(&self, item: WorkItem) -> Result<Enqueued, ProviderError> {
        let answer = self.send(item, Wish::Told)?;
        answer.enqueued().map_err(|fault| fault.into_error(OPERATION))
    }

    fn tells_outcomes(&self) -> bool {
        true
    }
}

const OPERATION: &str = "enqueue_for_orchestrator";

impl SqliteTransaction<'_> {
    fn send(&self, item: WorkItem, answer: Wish) -> Result<Answer, ProviderError> {
        if let Some(file) = &self.file {
            file.check(OPERATION)?;
        }
        self.apply(item, answer).map_err(|fault| fault.into_error(OPERATION))
    }

    fn apply(&self, item: WorkItem, answer: Wish) -> Result<Answer, Fault> {
        if self.connection.is_autocommit() {
            return Err(Fault::Invalid("the caller has begun no transaction".to_string()));
        }
        check_message(&item)?;
        let item = EncodedItem::new(item)?;
        let db = Db::of_caller(self.connection, &self.counters);
        Tx::new(&db, self.now).apply(&Call::Enqueue { item, delay: None, answer })
    }
}

impl std::fmt::Debug for SqliteTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteTransaction").finish_non_exhaustive()
    }
}
