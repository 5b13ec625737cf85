//! Messages that are sent inside a transaction of the caller, on the caller's own connection.

use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_provider::rules::{Answer, Call, EncodedItem, Wanted, Wish, check_message};
use duroxide_provider::{CallerTransaction, Enqueued, ProviderError};
use tokio_postgres::Transaction;

use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::group::joined;
use crate::statistics::Counters;
use crate::store::PostgresProvider;
use crate::values::Ms;

const OPERATION: &str = "enqueue_for_orchestrator";

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
            channel: crate::group::news::channel(&self.options.schema),
            counters: self.counters(),
            manual: self.manual(),
        }
    }
}

impl CallerTransaction for PostgresTransaction<'_> {
    async fn enqueue(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.carry(item, Wish::NotTold).await.map(drop)
    }

    async fn enqueue_checked(&self, item: WorkItem) -> Result<Enqueued, ProviderError> {
        let answer = self.carry(item, Wish::Told).await?;
        answer.enqueued().map_err(|fault| fault.into_error(OPERATION))
    }

    fn tells_outcomes(&self) -> bool {
        true
    }
}

impl PostgresTransaction<'_> {
    async fn carry(&self, item: WorkItem, answer: Wish) -> Result<Answer, ProviderError> {
        self.deliver(item, answer).await.map_err(|fault| fault.into_error(OPERATION))
    }

    async fn deliver(&self, item: WorkItem, answer: Wish) -> Result<Answer, Fault> {
        const NOTIFY: &str = "SELECT pg_notify($1, $2)";
        check_message(&item)?;
        let item = EncodedItem::new(item)?;
        let conn =
            Conn::of_caller(self.transaction.client(), self.schema.clone(), Arc::clone(&self.counters));
        let mut wanted = Wanted::default();
        // Nobody begins to use the id, or to send to it, before the caller's transaction ends.
        wanted.reserved.insert(item.item.instance().to_string());
        let call = Call::Enqueue { item, delay: None, answer };
        call.wants(&mut wanted);
        let (set, answer) = joined::prepare(&conn, self.manual, &call, &wanted).await?;
        let mut pipeline = Pipeline::default();
        let said = format!("ready:tw{}", set.written_rows().text());
        set.flush(&mut pipeline);
        pipeline.add(NOTIFY, values![self.channel.clone(), said]);
        pipeline.run(&conn).await?.all()?;
        Ok(answer)
    }
}

impl std::fmt::Debug for PostgresTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTransaction").finish_non_exhaustive()
    }
}
