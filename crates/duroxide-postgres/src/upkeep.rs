//! Clearing away what the queues leave behind.
//!
//! A row of a queue changes several times and leaves a dead entry in an index each time; a fetch passes over those
//! at the head of the queue. PostgreSQL's own vacuum removes them, but looks only once in a while, by default every
//! minute, and a busy queue leaves a hundred thousand in that time. So whoever changes many rows asks for it.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::connection::Target;
use crate::fault::Fault;

/// Changed rows after which the queues are cleared.
const CHANGES: usize = 50_000;

/// Takes no lock that another needs, and leaves to others what they are about already.
const VACUUM: &str = "VACUUM (SKIP_LOCKED, TRUNCATE off) {s}.queues, {s}.inbox, {s}.work_items";

/// Counts changes of the queues.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    changes: usize,
    task: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// So many rows of the queues changed. Clears them when it is time, beside everything else.
    pub(crate) fn changed(&mut self, rows: usize, target: &Arc<Target>) {
        self.changes = self.changes.saturating_add(rows);
        if self.changes < CHANGES || self.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        self.changes = 0;
        let target = Arc::clone(target);
        self.task = Some(tokio::spawn(async move {
            // Nothing but speed depends on it, and it is tried again.
            if let Err(fault) = vacuum(&target).await {
                let error = fault.into_error("vacuum");
                tracing::debug!(target: "duroxide::runtime", %error, "the queues could not be cleared");
            }
        }));
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// On a connection of its own: it may take longer than any statement of a running store.
async fn vacuum(target: &Target) -> Result<(), Fault> {
    let conn = target.connect().await?;
    conn.client.batch_execute("SET statement_timeout = 0").await?;
    Ok(conn.client.batch_execute(&VACUUM.replace("{s}", conn.schema())).await?)
}
