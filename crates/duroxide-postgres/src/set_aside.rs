//! Rows that do not decode: kept in a table of their own, so that they block nobody and nobody loses them.

use duroxide_core::{AppErrorKind, ErrorDetails, ItemKind, WorkItem};

use crate::connection::Conn;
use crate::fault::Fault;
use crate::fetch_turn::AsideMessage;
use crate::item::EncodedItem;
use crate::messages::{FullInbox, Obstacle};
use crate::token::Token;
use crate::values::{from_column, from_text};
use crate::working_set::WorkingSet;

/// A row that did not decode and was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAsideItem {
    /// The instance it was for.
    pub instance: String,
    /// The kind of message or work item; `None` when this build does not know it.
    pub kind: Option<ItemKind>,
    /// The execution it was for, where it named one.
    pub execution_id: Option<u64>,
    /// The schedule it belongs to, where it named one.
    pub event_id: Option<u64>,
    /// When it was set aside, in ms since the epoch.
    pub set_aside_at: u64,
    /// Why it did not decode.
    pub cause: String,
}

const KEEP_MESSAGE: &str = "INSERT INTO {s}.set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, \
     item) SELECT i.instance_id, n.kind, n.execution_id, n.event_id, $5, $4, n.item \
     FROM {s}.inbox n JOIN {s}.instances i ON i.key = n.instance_key \
     WHERE n.instance_key = $1 AND n.visible_at = $2 AND n.position = $3";
const DELETE_MESSAGE: &str =
    "DELETE FROM {s}.inbox WHERE instance_key = $1 AND visible_at = $2 AND position = $3";
const KEEP_WORK: &str = "INSERT INTO {s}.set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
     SELECT w.instance_id, $2, w.execution_id, w.activity_id, $3, $4, w.item FROM {s}.work_items w \
     WHERE w.id = $1 RETURNING (SELECT w.name FROM {s}.work_items w WHERE w.id = $1)";

impl WorkingSet<'_> {
    /// Moves messages out of an inbox that was locked just now. If none is left in the turn, the instance is
    /// given back as it was.
    pub(crate) async fn set_messages_aside(
        &mut self,
        token: Token,
        aside: &[AsideMessage],
        left: usize,
    ) -> Result<(), Fault> {
        self.check_held(token)?;
        self.begun = true;
        for message in aside {
            let (at, position) = (message.visible_at, message.position);
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&token.key, &at, &position, &message.cause, &self.now];
            self.conn()?.execute(KEEP_MESSAGE, &params).await?;
            self.conn()?.execute(DELETE_MESSAGE, &[&token.key, &at, &position]).await?;
            self.effects.set_aside += 1;
        }
        self.forget_first(token.key);
        let row = self.instance(token.key)?;
        let gone = crate::values::count(aside.len());
        row.inbox_count = row.inbox_count.saturating_sub(gone);
        row.pending.queue = true;
        row.note_removal();
        if let Some(lock) = &mut row.lock {
            lock.count = lock.count.saturating_sub(gone);
        }
        if left == 0 {
            row.lock = None;
            row.suspect = row.suspect_before;
            row.suspect_before = false;
            self.recompute_ready_at(token.key).await?;
        }
        Ok(())
    }

    /// Moves a work item out of the queue and fails its activity, so that nobody waits for it in vain.
    pub(crate) async fn set_work_aside(&mut self, token: Token, cause: &str) -> Result<(), Obstacle> {
        self.check_work_held(token)?;
        let Some(work) = self.work.get(&token.key).cloned() else { return Ok(()) };
        self.begun = true;
        let kind = ItemKind::Activity.code();
        let kept = self.conn()?.first(KEEP_WORK, &[&token.key, &kind, &self.now, &cause]).await?;
        let name: String = kept.map(|row| from_text(row.get(0))).unwrap_or_default();
        self.effects.set_aside += 1;
        let message = format!("the stored work item of activity '{name}' cannot be decoded: {cause}");
        let failed = WorkItem::ActivityFailed {
            instance: work.instance.clone(),
            execution_id: work.execution_id,
            id: work.activity_id,
            details: ErrorDetails::Application {
                kind: AppErrorKind::ActivityFailed,
                message,
                retryable: false,
            },
        };
        self.work.remove(&token.key);
        self.writes.deleted_work.push((work.id, work.stored_nonce));
        self.writes.touch(&work.place);
        self.deliver(&EncodedItem::new(failed)?, None, FullInbox::Admit).await.map(drop)
    }
}

/// What was set aside, oldest first.
pub(crate) async fn list(conn: &Conn<'_>) -> Result<Vec<SetAsideItem>, Fault> {
    const SQL: &str = "SELECT instance_id, kind, execution_id, event_id, set_aside_at, cause \
         FROM {s}.set_aside ORDER BY id";
    let rows = conn.query(SQL, &[]).await?;
    let items = rows.iter().map(|row| SetAsideItem {
        instance: from_text(row.get(0)),
        kind: ItemKind::from_code(row.get(1)),
        execution_id: row.get::<_, Option<i64>>(2).map(from_column),
        event_id: row.get::<_, Option<i64>>(3).map(from_column),
        set_aside_at: from_column(row.get(4)),
        cause: row.get(5),
    });
    Ok(items.collect())
}
