//! The row of one execution: how it stands, and how long its history is.

use duroxide_provider::support::Status;
use semver::Version;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::values::{Ms, from_column, to_column};

/// The row of an execution, read once and written once in a turn's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionRow {
    pub(crate) status: Status,
    pub(crate) completed_at: Option<Ms>,
    pub(crate) pinned: Option<Pinned>,
    pub(crate) event_count: i64,
    pub(crate) last_event_id: u64,
    pub(crate) history_bytes: i64,
    /// What the commit sets; `None` leaves the column as it is, which may be large and is not read.
    pub(crate) new_output: Option<String>,
    /// The same for the JSON of the failure.
    pub(crate) new_failure: Option<String>,
    pub(crate) is_stored: bool,
    pub(crate) changed: bool,
}

/// The version that an execution is pinned to, as it stands in three columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) major: i64,
    pub(crate) minor: i64,
    pub(crate) patch: i64,
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
    /// The row of an execution that is yet to be stored.
    pub(crate) fn new() -> Self {
        Self {
            status: Status::Running,
            completed_at: None,
            pinned: None,
            event_count: 0,
            last_event_id: 0,
            history_bytes: 0,
            new_output: None,
            new_failure: None,
            is_stored: false,
            changed: true,
        }
    }

    /// A stored row, with its instance's key and its number.
    pub(crate) fn from_row(row: &Row) -> Result<((i64, u64), Self), Fault> {
        Self::from_columns(row, 0)
    }

    /// The same in the columns from `at` on.
    pub(crate) fn from_columns(row: &Row, at: usize) -> Result<((i64, u64), Self), Fault> {
        let pinned = match (row.get(at + 4), row.get(at + 5), row.get(at + 6)) {
            (Some(major), Some(minor), Some(patch)) => Some(Pinned { major, minor, patch }),
            (None, _, _) | (_, None, _) | (_, _, None) => None,
        };
        let execution = Self {
            status: stored_status(row.get(at + 2))?,
            completed_at: row.get(at + 3),
            pinned,
            event_count: row.get(at + 7),
            last_event_id: from_column(row.get(at + 8)),
            history_bytes: row.get(at + 9),
            new_output: None,
            new_failure: None,
            is_stored: true,
            changed: false,
        };
        Ok(((row.get(at), from_column(row.get(at + 1))), execution))
    }

    /// Sets the status; an execution that goes on has no end.
    pub(crate) fn set_status(&mut self, status: Status, now: Ms) {
        self.status = status;
        self.completed_at = match status {
            Status::Running => None,
            Status::Completed | Status::Failed | Status::ContinuedAsNew => Some(now),
        };
    }
}

/// The status behind a stored number.
pub(crate) fn stored_status(code: i64) -> Result<Status, Fault> {
    Status::from_code(code).ok_or_else(|| Fault::Corrupt(format!("{code} is no status")))
}
