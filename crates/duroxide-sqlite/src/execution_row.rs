//! Reading the row of one execution.

use duroxide_provider::rules::{ExecutionRow, Pinned};
use rusqlite::Row;

use super::db::Db;
use super::instance_row::status;
use super::values::{from_column, to_column};

/// The row of an execution, if it is stored.
pub(super) fn load(db: &Db, key: i64, execution_id: u64) -> rusqlite::Result<Option<ExecutionRow>> {
    const SQL: &str = "SELECT e.status, e.completed_at, e.pinned_major, e.pinned_minor, e.pinned_patch, e.event_count, \
         e.last_event_id, e.history_bytes FROM executions e WHERE e.instance_key = ?1 AND e.execution_id = ?2";
    db.first(SQL, (key, to_column(execution_id)), from_row)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<ExecutionRow> {
    let pinned = match (row.get(2)?, row.get(3)?, row.get(4)?) {
        (Some(major), Some(minor), Some(patch)) => Some(Pinned { major, minor, patch }),
        (None, _, _) | (_, None, _) | (_, _, None) => None,
    };
    Ok(ExecutionRow {
        status: status(row.get(0)?)?,
        completed_at: row.get(1)?,
        pinned,
        event_count: row.get(5)?,
        last_event_id: from_column(row.get(6)?),
        history_bytes: row.get(7)?,
        new_output: None,
        new_failure: None,
        is_stored: true,
        changed: false,
    })
}
