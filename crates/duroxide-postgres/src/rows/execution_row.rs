//! Reading the row of an execution.

use duroxide_provider::rules::{ExecutionRow, Pinned};
use duroxide_provider::support::Status;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::values::from_column;

/// The execution in the columns from `at` on: the instance's key, its number, status, end, the version that it is pinned
/// to, and how long its history is.
pub(crate) fn read(row: &Row, at: usize) -> Result<ExecutionRow, Fault> {
    let pinned = match (row.get(at + 4), row.get(at + 5), row.get(at + 6)) {
        (Some(major), Some(minor), Some(patch)) => Some(Pinned { major, minor, patch }),
        (None, _, _) | (_, None, _) | (_, _, None) => None,
    };
    Ok(ExecutionRow {
        status: stored_status(row.get(at + 2))?,
        completed_at: row.get(at + 3),
        pinned,
        event_count: row.get(at + 7),
        last_event_id: from_column(row.get(at + 8)),
        history_bytes: row.get(at + 9),
        is_stored: true,
        changed: false,
        ..ExecutionRow::default()
    })
}

/// The status behind a stored number.
pub(crate) fn stored_status(code: i64) -> Result<Status, Fault> {
    Status::from_code(code).ok_or_else(|| Fault::corrupt(format!("{code} is no status")))
}
