//! Rows that do not decode: kept in a table of their own, so that they block nobody and nobody loses them.

use duroxide_core::{AppErrorKind, ErrorDetails, ItemKind, WorkItem, columns_of};

use super::damaged::lossy;
use super::enqueue::{EncodedItem, FullInbox, deliver};
use super::fault::Fault;
use super::instance_row::QueueRow;
use super::sessions;
use super::tx::Tx;
use super::values::{Ms, from_column, from_json};
use super::work::WorkRow;

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

/// A message that is to be set aside.
#[derive(Debug)]
pub(super) struct AsideMessage {
    pub(super) visible_at: Ms,
    pub(super) position: i64,
    pub(super) cause: String,
}

/// Moves a message out of its inbox; the caller saves `row`.
pub(super) fn message(
    tx: &mut Tx<'_>,
    row: &mut QueueRow,
    instance: &str,
    message: &AsideMessage,
) -> Result<(), Fault> {
    const KEEP: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
         SELECT ?4, kind, execution_id, event_id, ?5, ?6, item FROM inbox \
         WHERE instance_key = ?1 AND visible_at = ?2 AND position = ?3";
    const DELETE: &str = "DELETE FROM inbox WHERE instance_key = ?1 AND visible_at = ?2 AND position = ?3";
    let (visible_at, position) = (message.visible_at, message.position);
    tx.db.execute(KEEP, (row.key, visible_at, position, instance, tx.now, &message.cause))?;
    tx.db.execute(DELETE, (row.key, visible_at, position))?;
    row.inbox_count -= 1;
    tx.effects.set_aside += 1;
    Ok(())
}

/// Moves a work item out of the queue and fails its activity, so that nobody waits for it in vain.
pub(super) fn work_item(tx: &mut Tx<'_>, row: WorkRow, cause: &str) -> Result<(), Fault> {
    const KEEP: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
         SELECT instance_id, ?2, execution_id, activity_id, ?3, ?4, item FROM work_items WHERE id = ?1";
    tx.db.execute(KEEP, (row.id, ItemKind::Activity.code(), tx.now, cause))?;
    row.delete(tx)?;
    tx.effects.set_aside += 1;
    let message = format!("the stored work item of activity '{}' cannot be decoded: {cause}", row.place.name);
    let failed = WorkItem::ActivityFailed {
        instance: row.instance,
        execution_id: row.execution_id,
        id: row.activity_id,
        details: ErrorDetails::Application { kind: AppErrorKind::ActivityFailed, message, retryable: false },
    };
    deliver(tx, &EncodedItem::new(failed)?, None, FullInbox::Admit).map(drop)
}

/// Moves a work item out of the queue whose row cannot be read. Its activity is failed if the item itself says which one
/// it is; otherwise a repair of the instance puts it back.
pub(super) fn unreadable_work_item(tx: &mut Tx<'_>, id: i64, cause: &str) -> Result<(), Fault> {
    const READ: &str = "SELECT instance_id, item FROM work_items WHERE id = ?1";
    const KEEP: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
         SELECT ?2, ?3, execution_id, activity_id, ?4, ?5, item FROM work_items WHERE id = ?1";
    let found =
        tx.db.first(READ, [id], |row| Ok((lossy(row, 0)?, from_json::<WorkItem>(row.get_ref(1)?))))?;
    let Some((instance, item)) = found else { return Ok(()) };
    let instance = item.as_ref().map_or(instance, |item| item.instance().to_string());
    let cause = format!("the row of the work item cannot be read: {cause}");
    tx.db.execute(KEEP, (id, &instance, ItemKind::Activity.code(), tx.now, &cause))?;
    tx.db.execute("DELETE FROM work_items WHERE id = ?1", [id])?;
    sessions::drop_heads(tx, id)?;
    tx.effects.set_aside += 1;
    let Ok(item) = item else { return Ok(()) };
    let columns = columns_of(&item);
    let failed = WorkItem::ActivityFailed {
        instance,
        execution_id: columns.execution_id.unwrap_or(0),
        id: columns.event_id.unwrap_or(0),
        details: ErrorDetails::Application {
            kind: AppErrorKind::ActivityFailed,
            message: cause,
            retryable: false,
        },
    };
    deliver(tx, &EncodedItem::new(failed)?, None, FullInbox::Admit).map(drop)
}

/// What was set aside, oldest first.
pub(super) fn list(db: &super::db::Db) -> Result<Vec<SetAsideItem>, Fault> {
    const SQL: &str =
        "SELECT instance_id, kind, execution_id, event_id, set_aside_at, cause FROM set_aside ORDER BY id";
    Ok(db.all(SQL, [], |row| {
        Ok(SetAsideItem {
            instance: lossy(row, 0)?,
            kind: ItemKind::from_code(row.get(1)?),
            execution_id: row.get::<_, Option<i64>>(2)?.map(from_column),
            event_id: row.get::<_, Option<i64>>(3)?.map(from_column),
            set_aside_at: from_column(row.get(4)?),
            cause: lossy(row, 5)?,
        })
    })?)
}
