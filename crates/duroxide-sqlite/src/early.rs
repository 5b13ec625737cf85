//! Messages for an instance that has not started: kept for its start, and dropped when that does not come.

use duroxide_core::{Columns, ItemKind, limits};

use super::enqueue::check_room;
use super::fault::Fault;
use super::history::rows;
use super::instance_row::QueueRow;
use super::tx::Tx;
use super::values::{Ms, to_column};

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

/// Moves what was kept for an instance into its inbox, behind its start, in its order. The store's rows are
/// changed by this; `row` is a new instance with nothing but its start.
pub(super) fn admit(tx: &mut Tx<'_>, row: &mut QueueRow, instance: &str, start_at: Ms) -> Result<(), Fault> {
    const ANY: &str = "SELECT 1 FROM early_messages WHERE instance_id = ?1 LIMIT 1";
    // Only events are kept, and none is admitted before the start. Those without a delay keep their order, whatever the
    // clock said when they came.
    const MOVE: &str = "INSERT INTO inbox (instance_key, visible_at, position, kind, item) \
         SELECT ?2, CASE WHEN visible_at > kept_at THEN max(visible_at, ?3) ELSE ?3 END, ?4 + row_number() OVER (ORDER BY position) - 1, ?5, item \
         FROM early_messages WHERE instance_id = ?1";
    const DELETE: &str = "DELETE FROM early_messages WHERE instance_id = ?1";
    if tx.db.first(ANY, [instance], |_| Ok(()))?.is_none() {
        return Ok(());
    }
    drop_expired(tx)?;
    let moved =
        tx.db.execute(MOVE, (instance, row.key, start_at, row.next_position, ItemKind::Event.code()))?;
    tx.db.execute(DELETE, [instance])?;
    row.inbox_count += rows(moved);
    row.next_position += rows(moved);
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
