//! Reading the row of an instance.

use duroxide_provider::rules::{InstanceRow, Pending, TurnLock};
use duroxide_provider::support::Status;
use tokio_postgres::Row;

use crate::values::{Ms, from_column, from_text};

/// The columns of an instance, to be selected first, from `queues q JOIN instances i`.
macro_rules! instance_columns {
    () => {
        "q.key, q.ended, q.updated_at, q.current_execution_id, q.pinned_key, q.has_kv, q.inbox_count, \
         q.next_position, q.not_before, q.ready_at, q.suspect, q.suspect_before, q.lock_nonce, \
         q.lock_visible_at, q.lock_position, q.lock_watermark, q.lock_count, i.instance_id, i.name, i.version, \
         i.parent_instance, i.parent_execution_id, i.parent_event_id, q.cancelled, q.revision, i.incarnation, \
         i.created_at, q.bounced_at IS NOT NULL, i.status, \
         (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind <> 5 AND n.delayed IS NOT TRUE \
          ORDER BY n.visible_at DESC, n.position DESC LIMIT 1)"
    };
}
pub(crate) use instance_columns;

/// How an instance stands: whether it has ended says its queue, how it ended the instance.
pub(crate) fn status(ended: bool, code: i64) -> Status {
    if !ended {
        return Status::Running;
    }
    Status::from_code(code).filter(|status| status.ends_instance()).unwrap_or(Status::Completed)
}

/// The instance in a row of these columns.
pub(crate) fn read(row: &Row) -> InstanceRow {
    // Half a lock is none: its holder has lost it, and the instance is fetched again when it would have expired.
    let part = |column: usize| row.get::<_, Option<i64>>(column);
    let lock = match (part(12), part(13), part(14), part(15), part(16)) {
        (Some(nonce), Some(visible_at), Some(position), Some(watermark), Some(count)) => {
            Some(TurnLock { nonce, visible_at, position, watermark, count })
        }
        (None | Some(_), _, _, _, _) => None,
    };
    let text = |column: usize| from_text(row.get(column));
    InstanceRow {
        key: row.get(0),
        status: status(row.get(1), row.get(28)),
        updated_at: row.get(2),
        current_execution_id: from_column(row.get(3)),
        pinned_key: row.get(4),
        has_kv: row.get(5),
        inbox_count: row.get(6),
        next_position: row.get(7),
        not_before: row.get(8),
        ready_at: row.get(9),
        suspect: row.get(10),
        suspect_before: row.get(11),
        lock,
        instance: text(17),
        name: text(18),
        version: text(19),
        parent_instance: row.get::<_, Option<String>>(20).map(from_text),
        parent_execution_id: row.get(21),
        parent_event_id: row.get(22),
        cancelled: row.get(23),
        revision: row.get(24),
        incarnation: row.get::<_, i64>(25).cast_unsigned(),
        created_at: row.get(26),
        bounced: row.get(27),
        last_arrival: row.get::<_, Option<Ms>>(29).unwrap_or(Ms::MIN),
        pending: Pending::default(),
    }
}
