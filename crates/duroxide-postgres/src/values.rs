//! Values on their way into and out of columns.

use std::borrow::Cow;
use std::time::Duration;

use duroxide_provider::random;
use duroxide_provider::support::millis;
use serde::de::DeserializeOwned;

use crate::fault::Fault;

/// A time in ms since the epoch. Signed, because messages that are put back come before all others.
pub(crate) type Ms = i64;

/// A due time that never comes.
pub(crate) const NEVER: Ms = Ms::MAX;

/// The packed version of an execution that is not pinned.
pub(crate) const NOT_PINNED: i64 = -1;

/// An unsigned number as a column holds it: what does not fit counts as the largest.
pub(crate) fn to_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number behind a column.
pub(crate) fn from_column(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A count of things, as a column counts.
pub(crate) fn count(things: usize) -> i64 {
    i64::try_from(things).unwrap_or(i64::MAX)
}

/// A duration as a column holds it.
pub(crate) fn duration(value: Duration) -> i64 {
    to_column(millis(value))
}

/// `now` and a while.
pub(crate) fn after(now: Ms, delay: Duration) -> Ms {
    now.saturating_add(duration(delay))
}

/// What stands for the escape character itself, and for NUL.
const ESCAPE: char = '\u{1b}';

/// A text as PostgreSQL can hold it. It cannot hold NUL, which every other store can.
pub(crate) fn to_text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace(ESCAPE, "\u{1b}e").replace('\0', "\u{1b}0");
    Cow::Owned(escaped)
}

/// The same as an owned text.
pub(crate) fn owned_text(text: &str) -> String {
    to_text(text).into_owned()
}

/// The text behind a column.
pub(crate) fn from_text(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    stored.replace("\u{1b}0", "\0").replace("\u{1b}e", "\u{1b}")
}

/// The JSON of a value that is to be stored. It contains no NUL: JSON escapes it.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|cause| Fault::Invalid(format!("cannot be written as JSON: {}", describe(&cause))))
}

/// The value behind stored JSON. The cause never quotes the text.
pub(crate) fn from_json<T: DeserializeOwned>(stored: &str) -> Result<T, String> {
    serde_json::from_str(stored).map_err(|cause| describe(&cause))
}

/// What is wrong with JSON and where. The error's own text may quote values.
fn describe(cause: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", cause.classify(), cause.line(), cause.column())
}

/// 64 random bits, from the operating system.
pub(crate) fn random_bits() -> i64 {
    random::bits_64().cast_signed()
}

/// The number under which PostgreSQL locks what has no row: FNV-1a over a word for the kind and the name.
pub(crate) fn lock_number(schema: &str, kind: &str, name: &str) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in [schema, "\0", kind, "\0", name].into_iter().flat_map(str::bytes) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        for text in ["", "plain", "a\0b", "\u{1b}", "\u{1b}0", "\u{1b}e\0\u{1b}\u{1b}0e", "\0\0"] {
            let stored = to_text(text).into_owned();
            assert!(!stored.contains('\0'));
            assert_eq!(from_text(stored), text);
        }
    }
}
