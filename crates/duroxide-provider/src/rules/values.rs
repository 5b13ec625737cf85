//! Values on their way into and out of columns.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Fault;
use crate::clock::millis;

/// A time in ms since the epoch. Signed, because messages that are put back come before all others.
pub type Ms = i64;

/// A due time that never comes.
pub const NEVER: Ms = Ms::MAX;

/// The packed version of an execution that is not pinned.
pub const NOT_PINNED: i64 = -1;

/// An unsigned number as a column holds it: what does not fit counts as the largest.
pub fn to_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number behind a column.
pub fn from_column(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A count of things, as a column counts.
pub fn count(things: usize) -> i64 {
    i64::try_from(things).unwrap_or(i64::MAX)
}

/// A duration as a column holds it.
pub fn duration(value: Duration) -> i64 {
    to_column(millis(value))
}

/// `now` and a while.
pub fn after(now: Ms, delay: Duration) -> Ms {
    now.saturating_add(duration(delay))
}

/// The JSON of a value that is to be stored.
pub fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|cause| Fault::Invalid(format!("cannot be written as JSON: {}", describe(&cause))))
}

/// The value behind stored JSON. The cause never quotes the text.
pub fn from_json<T: DeserializeOwned>(stored: &str) -> Result<T, String> {
    serde_json::from_str(stored).map_err(|cause| describe(&cause))
}

/// What is wrong with JSON and where. The error's own text may quote values.
pub fn describe(cause: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", cause.classify(), cause.line(), cause.column())
}
