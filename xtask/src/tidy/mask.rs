//! Blanks out what is not code, so that a rule is not misled by a comment or a string.

/// The text with comments, strings and characters replaced by blanks, byte for byte; lines stay.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut position = 0;
    while position < bytes.len() {
        let end = end_of_non_code(bytes, position);
        if end == position {
            position += 1;
            continue;
        }
        for byte in &mut masked[position..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        position = end;
    }
    String::from_utf8(masked).expect("whole comments and strings are blanked, so no character is cut")
}

/// The end of the comment, string or character that begins at `start`, or `start` where none begins.
fn end_of_non_code(bytes: &[u8], start: usize) -> usize {
    let rest = &bytes[start..];
    if rest.starts_with(b"//") {
        return start + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return end_of_block_comment(bytes, start);
    }
    match rest[0] {
        b'"' => end_of_quoted(bytes, start, b'"'),
        b'\'' if is_character(rest) => end_of_quoted(bytes, start, b'\''),
        b'r' if !follows_word(bytes, start) => end_of_raw_string(bytes, start),
        b'b' if !follows_word(bytes, start) && rest.starts_with(b"br") => {
            let end = end_of_raw_string(bytes, start + 1);
            if end == start + 1 { start } else { end }
        }
        _ => start,
    }
}

fn follows_word(bytes: &[u8], start: usize) -> bool {
    start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_')
}

/// Whether the quote begins a character rather than a lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) if first.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => true,
        None => false,
    }
}

fn end_of_block_comment(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut position = start;
    while position < bytes.len() {
        if bytes[position..].starts_with(b"/*") {
            depth += 1;
            position += 2;
        } else if bytes[position..].starts_with(b"*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += 1;
        }
    }
    bytes.len()
}

fn end_of_quoted(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut position = start + 1;
    while position < bytes.len() {
        match bytes[position] {
            b'\\' => position += 2,
            byte if byte == quote => return position + 1,
            _ => position += 1,
        }
    }
    bytes.len()
}

/// The end of `r"..."` or `r#"..."#`, or `start` where it is something else.
fn end_of_raw_string(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return start;
    }
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let body = start + hashes + 2;
    let length = bytes[body..].windows(closing.len()).position(|window| window == closing);
    length.map_or(bytes.len(), |length| body + length + closing.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let masked = mask(text);
        assert_eq!(masked.len(), text.len(), "positions stay");
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn comments_go() {
        check("a // b\nc /* d /* e */ f */ g", "a c g");
        check("a /* open", "a");
        check("//! doc", "");
    }

    #[test]
    fn strings_go() {
        check(r#"a "b // \" c" d"#, "a d");
        check(r##"a r#"b " c"# d"##, "a d");
        check("a br\"x\" b\"y\" c", "a b c");
        check("for r in brr { r#type }", "for r in brr { r#type }");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        check("a '\"' b '\\'' c 'x' d '\u{e4}' e", "a b c d e");
        check("fn f<'a>(x: &'a str) -> &'static str", "fn f<'a>(x: &'a str) -> &'static str");
    }

    #[test]
    fn lines_stay() {
        assert_eq!(mask("/* a\nb */ c\n\"d\ne\""), "    \n     c\n  \n  ");
    }
}
