//! Values on their way into and out of columns.

use std::time::Duration;

use duroxide_provider::clock::millis;
use duroxide_provider::{ExpiredLock, LockHolder};
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use super::fault::Fault;

/// A time in ms since the epoch. Signed, because messages that are put back come before all others.
pub(super) type Ms = i64;

/// A due time that never comes.
pub(super) const NEVER: Ms = Ms::MAX;

/// An unsigned number as a column holds it: what does not fit counts as the largest.
pub(super) fn to_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number behind a column.
pub(super) fn from_column(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The lock with this number, which was not renewed in time.
pub(super) fn expired_lock(nonce: i64, expired_at: Ms) -> ExpiredLock {
    ExpiredLock { holder: LockHolder::of_nonce(nonce), expired_at_ms: from_column(expired_at) }
}

/// `now` and a while.
pub(super) fn after(now: Ms, delay: Duration) -> Ms {
    now.saturating_add(to_column(millis(delay)))
}

/// The JSON of a value that is to be stored.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|cause| Fault::Invalid(format!("cannot be written as JSON: {}", describe(&cause))))
}

/// How many bytes a stored text has.
pub(super) fn text_bytes(stored: ValueRef<'_>) -> usize {
    match stored {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
    }
}

/// The value behind stored JSON. The cause never quotes the text.
pub(super) fn from_json<T: DeserializeOwned>(stored: ValueRef<'_>) -> Result<T, String> {
    match stored {
        ValueRef::Text(text) => serde_json::from_slice(text).map_err(|cause| describe(&cause)),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(format!("{:?} where text belongs", stored.data_type()))
        }
    }
}

/// What is wrong with JSON and where. The error's own text may quote values.
pub(super) fn describe(cause: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", cause.classify(), cause.line(), cause.column())
}
