//! Values on their way into and out of columns.

pub(super) use duroxide_provider::rules::values::{
    Ms, NEVER, after, count as rows, describe, from_column, to_column, to_json,
};
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

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
