//! How long an activity may wait and run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long an activity may wait for a worker, and how long one attempt of it may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ActivityDeadlines {
    /// From its schedule until a worker begins it for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_to_start_ms: Option<u64>,
    /// From the beginning of an attempt until its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_to_close_ms: Option<u64>,
}

impl ActivityDeadlines {
    /// Whether neither is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A deadline in milliseconds, rounded up; `None` for one that would be over before it began.
pub(crate) fn deadline_ms(deadline: Duration) -> Option<u64> {
    let ms = u64::try_from(deadline.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    (ms > 0).then_some(ms)
}

/// What the program gets when no worker began the activity in time.
pub fn not_started_in_time(activity: &str, limit_ms: u64) -> String {
    format!("timeout: activity '{activity}' was not started within {limit_ms} ms")
}

/// What the program gets when an attempt ran too long.
pub fn not_closed_in_time(activity: &str, limit_ms: u64) -> String {
    format!("timeout: activity '{activity}' ran longer than {limit_ms} ms")
}
