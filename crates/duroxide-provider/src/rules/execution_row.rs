//! The row of one execution: how it stands, and how long its history is.

use semver::Version;

use super::values::{Ms, to_column};
use crate::status_code::Status;

/// The row of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRow {
    /// How it stands.
    pub status: Status,
    /// When it ended.
    pub completed_at: Option<Ms>,
    /// The version that it is pinned to.
    pub pinned: Option<Pinned>,
    /// How many events its history has.
    pub event_count: i64,
    /// The id of the last.
    pub last_event_id: u64,
    /// The bytes of their stored forms.
    pub history_bytes: i64,
    /// What the group sets; `None` leaves the column as it is, which may be large and is not read.
    pub new_output: Option<String>,
    /// The same for the JSON of the failure.
    pub new_failure: Option<String>,
    /// Whether the store has the row.
    pub is_stored: bool,
    /// Whether the group changed it.
    pub changed: bool,
}

/// The version that an execution is pinned to, as it stands in three columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// The major number.
    pub major: i64,
    /// The minor number.
    pub minor: i64,
    /// The patch number.
    pub patch: i64,
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

impl Default for ExecutionRow {
    /// The row of an execution that is yet to be stored.
    fn default() -> Self {
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
}

impl ExecutionRow {
    /// Sets the status; an execution that goes on has no end.
    pub(super) fn set_status(&mut self, status: Status, now: Ms) {
        self.status = status;
        self.completed_at = match status {
            Status::Running => None,
            Status::Completed | Status::Failed | Status::ContinuedAsNew => Some(now),
        };
    }
}
