//! Values on their way into and out of columns.

use std::borrow::Cow;

use duroxide_provider::random;
use duroxide_provider::rules::NewKey;
pub(crate) use duroxide_provider::rules::values::{
    Ms, NEVER, NOT_PINNED, after, count, duration, from_column, from_json, to_column, to_json,
};

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

/// A key that the server gave out, for an instance that is yet to begin.
pub(crate) fn new_key(key: i64) -> NewKey {
    NewKey { key, incarnation: random::bits_64() }
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
