//! Error texts of programs have the limit of a payload: a longer one is cut, and says so.

use super::limits::{ERROR_PREFIX_BYTES, MAX_PAYLOAD_BYTES};

/// The text as it may be stored. One above [`MAX_PAYLOAD_BYTES`] keeps its beginning and ends with its length. What is
/// left is short enough to be passed on behind a prefix such as `orchestration panicked: `.
pub fn error_within_limit(mut text: String) -> String {
    let bytes = text.len();
    if bytes <= MAX_PAYLOAD_BYTES {
        return text;
    }
    let kept = char_boundary_below(&text, MAX_PAYLOAD_BYTES - ERROR_PREFIX_BYTES);
    text.truncate(kept);
    text.shrink_to_fit();
    text.push_str(&format!("… ({bytes} bytes in all, cut to {kept})"));
    text
}

/// The last place at or below `at` where a text can be cut.
pub(super) fn char_boundary_below(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}
