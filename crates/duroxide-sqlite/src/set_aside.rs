//! Rows that do not decode: kept in a table of their own, so that they block nobody and nobody loses them.

use duroxide_core::{AppErrorKind, ErrorDetails, ItemKind, WorkItem, columns_of};

use duroxide_provider::rules::{Call, EncodedItem};

use super::damaged::lossy;
use super::fault::Fault;
use super::sessions;
use super::tx::Tx;
use super::values::{from_column, from_json};

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

/// Moves a work item out of the queue whose row cannot be read. Its activity is failed if the item itself says which one
/// it is; otherwise a repair of the instance puts it back.
pub(super) fn unreadable_work_item(tx: &mut Tx<'_>, id: i64, cause: &str) -> Result<(), Fault> {
    const READ: &str = "SELECT instance_id, item FROM work_items WHERE id = ?1";
    const KEEP: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
         SELECT ?2, ?3, execution_id, activity_id, ?4, ?5, item FROM work_items WHERE id = ?1";
    let found =
        tx.db.first(READ, [id], |row| Ok((lossy(row, 0)?, from_json::<WorkItem>(row.get_ref(1)?))))?;
    let Some((instance, item)) = found else { return Ok(()) };
    tx.changes_rows();
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
    tx.apply(&Call::Deliver { item: EncodedItem::new(failed)? }).map(drop)
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
