//! The row of one execution: how it stands, and how long its history is.

use rusqlite::Row;
use semver::Version;

use super::instance_row::{Status, status};
use super::tx::Tx;
use super::values::{Ms, from_column, to_column};

/// The row of an execution, read once and written once in a turn's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecutionRow {
    pub(super) status: Status,
    pub(super) completed_at: Option<Ms>,
    pub(super) pinned: Option<Pinned>,
    pub(super) event_count: i64,
    pub(super) last_event_id: u64,
    pub(super) history_bytes: i64,
    /// What the commit sets; `None` leaves the column as it is, which may be large and is not read.
    pub(super) new_output: Option<String>,
    /// The same for the JSON of the failure.
    pub(super) new_failure: Option<String>,
    is_stored: bool,
}

/// The columns of [`ExecutionRow`].
macro_rules! execution_columns {
    () => {
        "e.status, e.completed_at, e.pinned_major, e.pinned_minor, e.pinned_patch, e.event_count, \
         e.last_event_id, e.history_bytes"
    };
}
pub(super) use execution_columns;

/// The version that an execution is pinned to, as it stands in three columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pinned {
    major: i64,
    minor: i64,
    patch: i64,
}

impl From<&Version> for Pinned {
    fn from(version: &Version) -> Self {
        Self {
            major: to_column(version.major),
            minor: to_column(version.minor),
            patch: to_column(version.patch),
        }
    }
}

impl ExecutionRow {
    /// The row of an execution, or of one that is yet to be stored.
    pub(super) fn load(tx: &Tx<'_>, key: i64, execution_id: u64) -> rusqlite::Result<Self> {
        const SQL: &str = concat!(
            "SELECT ",
            execution_columns!(),
            " FROM executions e WHERE e.instance_key = ?1 AND e.execution_id = ?2"
        );
        let found = tx.db.first(SQL, (key, to_column(execution_id)), |row| Self::from_row(row, 0))?;
        Ok(found.unwrap_or(Self::NOT_STORED))
    }

    /// From the columns that begin at `at`. If they are those of no row: an execution that is yet to be stored.
    pub(super) fn from_row(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        let Some(code) = row.get(at)? else { return Ok(Self::NOT_STORED) };
        let pinned = match (row.get(at + 2)?, row.get(at + 3)?, row.get(at + 4)?) {
            (Some(major), Some(minor), Some(patch)) => Some(Pinned { major, minor, patch }),
            (None, _, _) | (_, None, _) | (_, _, None) => None,
        };
        Ok(Self {
            status: status(code)?,
            completed_at: row.get(at + 1)?,
            pinned,
            event_count: row.get(at + 5)?,
            last_event_id: from_column(row.get(at + 6)?),
            history_bytes: row.get(at + 7)?,
            new_output: None,
            new_failure: None,
            is_stored: true,
        })
    }

    const NOT_STORED: Self = Self {
        status: Status::Running,
        completed_at: None,
        pinned: None,
        event_count: 0,
        last_event_id: 0,
        history_bytes: 0,
        new_output: None,
        new_failure: None,
        is_stored: false,
    };

    pub(super) fn save(&self, tx: &Tx<'_>, key: i64, execution_id: u64) -> rusqlite::Result<()> {
        const INSERT: &str = "INSERT INTO executions (instance_key, execution_id, status, completed_at, \
             pinned_major, pinned_minor, pinned_patch, event_count, last_event_id, history_bytes, output, failure, \
             started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        // The last parameter is for the insertion alone.
        const UPDATE: &str = "UPDATE executions SET status = ?3, completed_at = ?4, pinned_major = ?5, \
             pinned_minor = ?6, pinned_patch = ?7, event_count = ?8, last_event_id = ?9, history_bytes = ?10, \
             output = coalesce(?11, output), failure = coalesce(?12, failure) \
             WHERE instance_key = ?1 AND execution_id = ?2 AND ?13 IS NOT NULL";
        let sql = if self.is_stored { UPDATE } else { INSERT };
        let params = (
            key,
            to_column(execution_id),
            self.status.code(),
            self.completed_at,
            self.pinned.map(|pinned| pinned.major),
            self.pinned.map(|pinned| pinned.minor),
            self.pinned.map(|pinned| pinned.patch),
            self.event_count,
            to_column(self.last_event_id),
            self.history_bytes,
            &self.new_output,
            &self.new_failure,
            tx.now,
        );
        tx.db.execute(sql, params).map(|_| ())
    }

    /// Sets the status; an execution that goes on has no end.
    pub(super) fn set_status(&mut self, status: Status, now: Ms) {
        self.status = status;
        self.completed_at = match status {
            Status::Running => None,
            Status::Completed | Status::Failed | Status::ContinuedAsNew => Some(now),
        };
    }
}
