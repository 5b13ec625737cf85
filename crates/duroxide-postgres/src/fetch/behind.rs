//! Finding rows that stand behind the horizon of a look, see [`crate::fetch::horizon`]: those that no notification told of.
//!
//! Reads all entries of the indexes, those of dead rows included, on a connection of the pool: fetches do not wait for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::Pool;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connections::connection::{Manager, Pooled};
use crate::fault::Fault;
use crate::fetch::horizon::Head;
use crate::group::carrier::Inbox;
use crate::store::PostgresProvider;

/// The pause after a search, as a multiple of its time: what is searched takes a twentieth of one connection's time.
const PAUSE_TIMES: u32 = 19;

/// A search is given up after this time. It would have passed over more than a billion dead entries.
const LONGEST: Duration = Duration::from_secs(3600);

/// A search that failed may have taken longer than any statement of a running store.
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

/// The first row of each version or tag and each suspicion, found by one step through the index for each.
const HEADS: &str = "WITH RECURSIVE turns AS ( \
       (SELECT q.pinned_key, q.suspect, q.ready_at FROM {s}.queues q WHERE q.ready_at IS NOT NULL \
        ORDER BY q.pinned_key, q.suspect, q.ready_at LIMIT 1) \
       UNION ALL \
       SELECT x.pinned_key, x.suspect, x.ready_at FROM turns t CROSS JOIN LATERAL ( \
         SELECT q.pinned_key, q.suspect, q.ready_at FROM {s}.queues q WHERE q.ready_at IS NOT NULL \
           AND (q.pinned_key, q.suspect) > (t.pinned_key, t.suspect) \
         ORDER BY q.pinned_key, q.suspect, q.ready_at LIMIT 1) x), \
     work AS ( \
       (SELECT w.tag, w.suspect, w.ready_at FROM {s}.work_items w WHERE w.session_id IS NULL \
        ORDER BY w.tag, w.suspect, w.ready_at LIMIT 1) \
       UNION ALL \
       SELECT x.tag, x.suspect, x.ready_at FROM work h CROSS JOIN LATERAL ( \
         SELECT w.tag, w.suspect, w.ready_at FROM {s}.work_items w WHERE w.session_id IS NULL \
           AND (w.tag, w.suspect) > (h.tag, h.suspect) \
         ORDER BY w.tag, w.suspect, w.ready_at LIMIT 1) x) \
     SELECT t.suspect, t.ready_at, t.pinned_key, NULL::text FROM turns t \
     UNION ALL SELECT h.suspect, h.ready_at, NULL::bigint, h.tag FROM work h";

/// The first rows of the queues.
#[derive(Debug)]
pub(crate) struct Heads {
    /// By packed version.
    pub(crate) turns: Vec<Head<i64>>,
    /// By tag, as it stands in the column.
    pub(crate) work: Vec<Head<String>>,
}

/// Searches behind the horizon now and then.
pub(crate) struct Behind {
    pool: Pool<Manager>,
    /// Where what was found is told.
    inbox: Arc<Inbox>,
    /// The pause at least.
    pause: Duration,
    next: Arc<Mutex<Next>>,
    task: Option<JoinHandle<()>>,
}

/// The next search.
#[derive(Debug, Clone, Copy)]
struct Next {
    at: Instant,
    limit: Limit,
}

/// How long a search may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// As long as any statement.
    OfStatements,
    /// [`LONGEST`].
    Longest,
}

impl Behind {
    pub(crate) fn new(store: &PostgresProvider, inbox: &Arc<Inbox>) -> Self {
        let pause = store.options.poll_interval;
        Self {
            pool: store.pool.clone(),
            inbox: Arc::clone(inbox),
            pause,
            next: Arc::new(Mutex::new(Next { at: Instant::now() + pause, limit: Limit::OfStatements })),
            task: None,
        }
    }

    fn next(&self) -> Next {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next search begins; `None` while one is under way.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let is_running = self.task.as_ref().is_some_and(|task| !task.is_finished());
        (!is_running).then(|| self.next().at)
    }

    /// Begins a search if it is time, beside everything else.
    pub(crate) fn search_if_due(&mut self) {
        if self.next_wake().is_none_or(|next| next > Instant::now()) {
            return;
        }
        let (pool, inbox, shortest) = (self.pool.clone(), Arc::clone(&self.inbox), self.pause);
        let (next, limit) = (Arc::clone(&self.next), self.next().limit);
        self.task = Some(tokio::spawn(async move {
            let begun = Instant::now();
            let found = search(&pool, limit).await;
            let pause = shortest.max(begun.elapsed() * PAUSE_TIMES);
            let limit = if found.is_ok() { limit } else { Limit::Longest };
            let after = Next { at: Instant::now() + pause, limit };
            *next.lock().unwrap_or_else(PoisonError::into_inner) = after;
            match found {
                Ok(heads) => inbox.found_heads(heads),
                Err(fault) => {
                    let error = fault.into_error("search behind the horizon");
                    tracing::warn!(
                        target: "duroxide::runtime", %error, ?pause,
                        "failed to search the queues for rows that no notification told of; tries again after a pause"
                    );
                }
            }
        }));
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn search(pool: &Pool<Manager>, limit: Limit) -> Result<Heads, Fault> {
    let conn = Pooled::from(pool.get().await?);
    let rows = match limit {
        Limit::OfStatements => conn.query(HEADS, &[]).await?,
        Limit::Longest => {
            conn.begin().await?;
            conn.execute(NO_TIMEOUT, &[]).await?;
            let statement = conn.prepared(HEADS).await?;
            conn.count_statements(1);
            let answer = tokio::time::timeout(LONGEST, conn.client.query(&statement, &[])).await;
            let rows = answer.map_err(|_| Fault::NoAnswer(LONGEST))??;
            conn.commit().await?;
            rows
        }
    };
    let mut heads = Heads { turns: Vec::new(), work: Vec::new() };
    for row in &rows {
        let (suspect, ready_at) = (row.get(0), row.get(1));
        if let Some(class) = row.get(2) {
            heads.turns.push(Head { class, suspect, ready_at });
        }
        if let Some(class) = row.get(3) {
            heads.work.push(Head { class, suspect, ready_at });
        }
    }
    Ok(heads)
}
