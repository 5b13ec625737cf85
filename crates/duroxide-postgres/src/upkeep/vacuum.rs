//! Clearing away what the queues leave behind.
//!
//! A row of a queue changes several times and leaves a dead entry in an index each time; a fetch passes over those
//! at the head of the queue. PostgreSQL's own vacuum removes them, but looks only once in a while, by default every
//! minute, and a busy queue leaves a hundred thousand in that time. So whoever changes many rows asks for it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connections::connection::Target;
use crate::fault::Fault;

/// Changed rows after which the queues are cleared.
const CHANGES: usize = 50_000;

/// The pause after a vacuum, as a multiple of its time. While a transaction elsewhere keeps its snapshot, a vacuum reads more
/// and more dead rows and may remove none of them: so it takes a tenth of one connection's time at most.
const PAUSE_TIMES: u32 = 9;

/// Takes no lock that another needs, and leaves to others what they are about already.
const VACUUM: &str = "VACUUM (SKIP_LOCKED, TRUNCATE off) {s}.queues, {s}.inbox, {s}.work_items";

/// Counts changes of the queues.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    changes: usize,
    task: Option<JoinHandle<()>>,
    /// The queues are not cleared before; `None` until they have been cleared once.
    not_before: Arc<Mutex<Option<Instant>>>,
}

impl Upkeep {
    /// So many rows of the queues changed. Clears them when it is time, beside everything else.
    pub(crate) fn changed(&mut self, rows: usize, target: &Arc<Target>) {
        self.changes = self.changes.saturating_add(rows);
        if self.changes < CHANGES || self.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let not_before = *self.not_before.lock().unwrap_or_else(PoisonError::into_inner);
        if not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.changes = 0;
        let (target, next) = (Arc::clone(target), Arc::clone(&self.not_before));
        self.task = Some(tokio::spawn(async move {
            let begun = Instant::now();
            // Nothing but speed depends on it, and it is tried again.
            if let Err(fault) = vacuum(&target).await {
                let error = fault.into_error("vacuum");
                tracing::debug!(target: "duroxide::runtime", %error, "the queues could not be cleared");
            }
            let not_before = Instant::now() + begun.elapsed() * PAUSE_TIMES;
            *next.lock().unwrap_or_else(PoisonError::into_inner) = Some(not_before);
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
