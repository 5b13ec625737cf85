//! Error texts without what differs in each: numbers, ids and quoted texts. Errors of one cause become one text.

/// The text with its numbers, uuids, long hexadecimal words and quoted texts replaced.
pub(crate) fn normalised(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\'' | '"' | '`' => quoted(rest, first, &mut result),
            letter if letter.is_ascii_alphanumeric() => word(rest, &mut result),
            other => {
                result.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    result
}

/// A quoted text up to its end on the same line; a quote without an end stands for itself.
fn quoted(rest: &str, quote: char, result: &mut String) -> usize {
    let inside = &rest[quote.len_utf8()..];
    let end = inside.find(quote).filter(|end| !inside[..*end].contains('\n'));
    result.push(quote);
    match end {
        Some(end) => {
            result.push('…');
            result.push(quote);
            end + 2 * quote.len_utf8()
        }
        None => quote.len_utf8(),
    }
}

/// A word of letters, digits and dashes. A quote within one, as in "doesn't", is a part of it.
fn word(rest: &str, result: &mut String) -> usize {
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '\'');
    let end = rest.find(|character: char| !is_part(character)).unwrap_or(rest.len());
    // A quote at the end closes something else.
    let found = rest[..end].trim_end_matches('\'');
    if is_uuid(found) {
        result.push_str("<uuid>");
    } else if is_hex(found) {
        result.push_str("<hex>");
    } else {
        numbers(found, result);
    }
    found.len()
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == length && part.chars().all(|character| character.is_ascii_hexdigit())
        })
}

fn is_hex(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let has_both = digits.contains(|character: char| character.is_ascii_digit())
        && digits.contains(|character: char| character.is_ascii_alphabetic());
    digits.len() >= 8 && has_both && digits.chars().all(|character| character.is_ascii_hexdigit())
}

/// The word with each run of digits replaced.
fn numbers(word: &str, result: &mut String) {
    let mut in_number = false;
    for character in word.chars() {
        if !character.is_ascii_digit() {
            result.push(character);
        } else if !in_number {
            result.push_str("<n>");
        }
        in_number = character.is_ascii_digit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_cause_become_one_text() {
        for (text, expected) in [
            ("timed out after 30 s (attempt 4)", "timed out after <n> s (attempt <n>)"),
            ("card 'visa-17' of order \"o 1\"", "card '…' of order \"…\""),
            ("order 6d1f2c0e-0f67-4d6c-9d3e-1f0f1f2f3f4f failed", "order <uuid> failed"),
            ("object deadbeef01 is gone", "object <hex> is gone"),
            ("it doesn't, and won't", "it doesn't, and won't"),
            ("order-17: no stock", "order-<n>: no stock"),
            ("an open 'quote", "an open 'quote"),
            ("Grüße 5", "Grüße <n>"),
        ] {
            assert_eq!(normalised(text), expected);
        }
    }
}
