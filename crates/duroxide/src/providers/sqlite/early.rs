//! Messages for an instance that has not started: kept for its start, and dropped when that does not come.

use duroxide_core::{Columns, WorkItem, columns_of, limits};

use super::enqueue::{check_room, put_message};
use super::fault::Fault;
use super::instance_row::QueueRow;
use super::tx::Tx;
use super::values::{Ms, from_json, to_column};

/// Keeps a message for the start of its instance.
pub(super) fn keep(tx: &mut Tx<'_>, columns: &Columns<'_>, json: &str, visible_at: Ms) -> Result<(), Fault> {
    const FIRST: &str =
        "SELECT position FROM early_messages WHERE instance_id = ?1 ORDER BY position LIMIT 1";
    const LAST: &str =
        "SELECT position FROM early_messages WHERE instance_id = ?1 ORDER BY position DESC LIMIT 1";
    const INSERT: &str = "INSERT INTO early_messages (instance_id, position, visible_at, kept_at, item) \
         VALUES (?1, ?2, ?3, ?4, ?5)";
    drop_expired(tx)?;
    let position = |sql| tx.db.first(sql, [columns.instance], |row| row.get::<_, i64>(0));
    // What expires is the oldest, so that positions have no gaps and their span is the count.
    let next = match (position(FIRST)?, position(LAST)?) {
        (Some(first), Some(last)) => {
            check_room(columns.instance, last - first + 1)?;
            last + 1
        }
        (None, _) | (_, None) => 1,
    };
    tx.db.execute(INSERT, (columns.instance, next, visible_at, tx.now, json))?;
    Ok(())
}

/// Moves what was kept for an instance into its inbox, behind its start.
pub(super) fn admit(tx: &mut Tx<'_>, row: &mut QueueRow, instance: &str, start_at: Ms) -> Result<(), Fault> {
    const KEPT: &str = "SELECT visible_at, item FROM early_messages WHERE instance_id = ?1 ORDER BY position";
    const DELETE: &str = "DELETE FROM early_messages WHERE instance_id = ?1";
    let any = "SELECT 1 FROM early_messages WHERE instance_id = ?1 LIMIT 1";
    if tx.db.first(any, [instance], |_| Ok(()))?.is_none() {
        return Ok(());
    }
    drop_expired(tx)?;
    let kept: Vec<(Ms, String)> = tx.db.all(KEPT, [instance], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // An undecodable one keeps its place; the fetch will set it aside.
    let undecodable =
        WorkItem::ExternalRaised { instance: instance.to_string(), name: String::new(), data: String::new() };
    for (visible_at, json) in &kept {
        let item: WorkItem = from_json(rusqlite::types::ValueRef::Text(json.as_bytes()))
            .unwrap_or_else(|_| undecodable.clone());
        // Nothing is admitted before the start.
        put_message(tx, row, &columns_of(&item), json, (*visible_at).max(start_at))?;
    }
    tx.db.execute(DELETE, [instance])?;
    row.save(tx.db)?;
    Ok(())
}

/// Drops what was kept too long.
pub(super) fn drop_expired(tx: &mut Tx<'_>) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM early_messages WHERE kept_at < ?1";
    let oldest = tx.now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS));
    let expired = tx.db.execute(SQL, [oldest])?;
    tx.effects.expired += u64::try_from(expired).unwrap_or(u64::MAX);
    Ok(())
}
