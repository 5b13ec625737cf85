//! Messages that are sent inside a transaction of the caller, on the caller's own connection.

use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_provider::{CallerTransaction, Enqueued, ProviderError};
use tokio_postgres::Transaction;

use crate::call::{Answer, Task, Told};
use crate::connection::Conn;
use crate::fault::Fault;
use crate::item::{EncodedItem, check_message};
use crate::messages::Obstacle;
use crate::pipeline::{Pipeline, values};
use crate::statistics::Counters;
use crate::store::PostgresProvider;
use crate::values::Ms;
use crate::working_set::{Wanted, WorkingSet};

/// A transaction of the caller on the store's database.
pub struct PostgresTransaction<'t> {
    transaction: &'t Transaction<'t>,
    schema: String,
    channel: String,
    counters: Arc<Counters>,
    manual: Option<Ms>,
}

impl PostgresProvider {
    /// Lets messages be sent inside a transaction that the caller began on a connection of its own to the same
    /// database, where the caller's tables are, too. Other processes hear of it when the caller commits.
    ///
    /// ```no_run
    /// # async fn f(store: std::sync::Arc<duroxide_postgres::PostgresProvider>, mut own: tokio_postgres::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let client = duroxide::Client::new(store.clone());
    /// let tx = own.transaction().await?;
    /// tx.execute("INSERT INTO orders (id) VALUES ('order-1')", &[]).await?;
    /// client.start_orchestration_in(&store.within(&tx), "order-1", "Process", "{}").await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn within<'t>(&self, transaction: &'t Transaction<'t>) -> PostgresTransaction<'t> {
        PostgresTransaction {
            transaction,
            schema: self.quoted_schema(),
            channel: crate::news::channel(&self.options.schema),
            counters: self.counters(),
            manual: self.manual(),
        }
    }
}

impl CallerTransaction for PostgresTransaction<'_> {
    async fn enqueue(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.carry(item, Answer::NotWanted).await.map(drop)
    }

    async fn enqueue_checked(&self, item: WorkItem) -> Result<Enqueued, ProviderError> {
        self.carry(item, Answer::Wanted).await?.enqueued()
    }

    fn tells_outcomes(&self) -> bool {
        true
    }
}

impl PostgresTransaction<'_> {
    async fn carry(&self, item: WorkItem, answer: Answer) -> Result<Told, ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        self.deliver(item, answer).await.map_err(|fault| fault.into_error(OPERATION))
    }

    async fn deliver(&self, item: WorkItem, answer: Answer) -> Result<Told, Fault> {
        const NOTIFY: &str = "SELECT pg_notify($1, $2)";
        check_message(&item)?;
        let item = EncodedItem::new(item)?;
        let conn =
            Conn::of_caller(self.transaction.client(), self.schema.clone(), Arc::clone(&self.counters));
        let mut wanted = Wanted { starts: 1, ..Wanted::default() };
        let id = item.item.instance().to_string();
        // Nobody begins to use the id, or to send to it, before the caller's transaction ends.
        wanted.reserved.insert(id.clone());
        wanted.ids.insert(id);
        let mut set = WorkingSet::join(&conn, self.manual, wanted).await?;
        let work = Task::Enqueue { item, delay: None, answer };
        let told = work.run(&mut set).await.map_err(|obstacle| match obstacle {
            Obstacle::Fault(fault) => fault,
            Obstacle::Reserve(id) => Fault::Corrupt(format!("'{id}' was not reserved")),
        })?;
        let mut pipeline = Pipeline::default();
        let said = format!("ready:tw{}", set.written_rows().text());
        set.flush(&mut pipeline);
        pipeline.add(NOTIFY, values![self.channel.clone(), said]);
        pipeline.run(&conn).await?.all()?;
        Ok(told)
    }
}

impl std::fmt::Debug for PostgresTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}
