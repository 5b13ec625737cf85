//! What can be read of one instance: its status, custom status, KV store and size.

use std::collections::HashMap;

use duroxide_core::{ErrorDetails, OrchestrationStatus, WorkItem, carried_messages, unread_messages};
use duroxide_provider::SystemStats;
use rusqlite::types::ValueRef;

use super::damaged::optional_lossy;
use super::db::Db;
use super::fault::Fault;
use super::history::{self, StoredEvent};
use super::instance_row::{Status, status};
use super::values::{from_column, from_json, to_column};

/// What a client sees of an instance: one read by primary keys, whatever the length of its history.
pub(super) fn orchestration_status(db: &Db, instance: &str) -> Result<OrchestrationStatus, Fault> {
    const SQL: &str = "SELECT i.status, c.status, c.version, e.output, e.failure FROM instances i \
         LEFT JOIN custom_statuses c ON c.instance_key = i.key \
         LEFT JOIN executions e ON e.instance_key = i.key AND e.execution_id = i.current_execution_id \
         WHERE i.instance_id = ?1";
    let found = db.first(SQL, [instance], |row| {
        // A text for people: how the instance stands is not to depend on it.
        let custom_status = optional_lossy(row, 1)?;
        let custom_status_version = from_column(row.get::<_, Option<i64>>(2)?.unwrap_or(0));
        let output: Option<String> = row.get(3)?;
        let failure = match row.get_ref(4)? {
            ValueRef::Null => Ok(None),
            stored @ (ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_)) => {
                from_json::<ErrorDetails>(stored).map(Some)
            }
        };
        let output = output.unwrap_or_default();
        Ok(match status(row.get(0)?)? {
            Status::Running | Status::ContinuedAsNew => {
                Ok(OrchestrationStatus::Running { custom_status, custom_status_version })
            }
            Status::Completed => {
                Ok(OrchestrationStatus::Completed { output, custom_status, custom_status_version })
            }
            Status::Failed => failure.map(|failure| OrchestrationStatus::Failed {
                details: failure.unwrap_or_else(|| ErrorDetails::orchestration_failed(output)),
                custom_status,
                custom_status_version,
            }),
        })
    })?;
    match found {
        None => Ok(OrchestrationStatus::NotFound),
        Some(Ok(status)) => Ok(status),
        Some(Err(cause)) => Err(Fault::Corrupt(format!("the failure of instance '{instance}': {cause}"))),
    }
}

/// The custom status, if its version is above `last_seen`.
pub(super) fn custom_status(
    db: &Db,
    instance: &str,
    last_seen: u64,
) -> Result<Option<(Option<String>, u64)>, Fault> {
    const SQL: &str = "SELECT c.status, c.version FROM custom_statuses c JOIN instances i ON i.key = c.instance_key \
         WHERE i.instance_id = ?1 AND c.version > ?2";
    Ok(db.first(SQL, (instance, to_column(last_seen)), |row| {
        Ok((optional_lossy(row, 0)?, from_column(row.get(1)?)))
    })?)
}

/// One value of a KV store.
pub(super) fn kv_value(db: &Db, instance: &str, key: &str) -> Result<Option<String>, Fault> {
    const SQL: &str = "SELECT kv.value FROM kv JOIN instances i ON i.key = kv.instance_key \
         WHERE i.instance_id = ?1 AND kv.key = ?2";
    Ok(db.first(SQL, (instance, key), |row| row.get(0))?)
}

/// All values of a KV store.
pub(super) fn kv_all_values(db: &Db, instance: &str) -> Result<HashMap<String, String>, Fault> {
    const SQL: &str = "SELECT kv.key, kv.value FROM kv JOIN instances i ON i.key = kv.instance_key \
         WHERE i.instance_id = ?1";
    Ok(db.all(SQL, [instance], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
}

/// The size of an instance as it is stored. The reader that asked decodes it, not the thread that reads.
pub(super) struct StoredStats {
    /// Everything that stands in columns.
    counted: SystemStats,
    history: Vec<StoredEvent>,
    /// The messages that the start of an execution carries which has not begun.
    carried: u64,
}

impl StoredStats {
    /// The size, with the messages of the history that the program has not read. A history that does not decode has none:
    /// the turn that reads it tells.
    pub(super) fn decoded(self) -> SystemStats {
        let unread = history::decode(self.history).map_or(0, |events| unread_messages(&events));
        let queue_pending_count = self.counted.queue_pending_count + self.carried + unread;
        SystemStats { queue_pending_count, ..self.counted }
    }
}

/// The size of an instance.
pub(super) fn stats(db: &Db, instance: &str) -> Result<Option<StoredStats>, Fault> {
    const SQL: &str = "SELECT e.event_count, e.history_bytes, i.inbox_count, \
         (SELECT count(*) FROM kv WHERE instance_key = i.key), \
         (SELECT coalesce(sum(octet_length(value)), 0) FROM kv WHERE instance_key = i.key), \
         i.key, i.current_execution_id \
         FROM instances i LEFT JOIN executions e \
         ON e.instance_key = i.key AND e.execution_id = i.current_execution_id WHERE i.instance_id = ?1";
    db.snapshot(|db| {
        let found = db.first(SQL, [instance], |row| {
            let counted = SystemStats {
                history_event_count: row.get::<_, Option<i64>>(0)?.map_or(0, from_column),
                history_size_bytes: row.get::<_, Option<i64>>(1)?.map_or(0, from_column),
                queue_pending_count: from_column(row.get(2)?),
                kv_user_key_count: from_column(row.get(3)?),
                kv_total_value_bytes: from_column(row.get(4)?),
            };
            Ok((counted, (row.get(5)?, from_column(row.get(6)?))))
        })?;
        let Some((counted, (key, execution_id))) = found else { return Ok(None) };
        let history = history::read_stored(db, key, execution_id)?;
        let carried = if history.is_empty() { carried_into_next(db, key)? } else { 0 };
        Ok(Some(StoredStats { counted, history, carried }))
    })
}

/// The messages that the start of the next execution carries. It stands before all else in the inbox.
fn carried_into_next(db: &Db, key: i64) -> Result<u64, Fault> {
    const SQL: &str = "SELECT item FROM inbox WHERE instance_key = ?1 ORDER BY visible_at, position LIMIT 1";
    let first = db.first(SQL, [key], |row| Ok(from_json::<WorkItem>(row.get_ref(0)?)))?;
    Ok(first.and_then(Result::ok).map_or(0, |item| carried_messages(&item)))
}
