//! Text from a store as a terminal may show it: nothing in it moves the cursor, changes colours or reorders what is read.

use std::fmt::Write as _;

/// The text with every control character written out.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            hostile if is_hostile(hostile) => {
                write!(shown, "\\u{{{:x}}}", u32::from(hostile)).expect("a String takes every text");
            }
            plain => shown.push(plain),
        }
    }
    shown
}

/// JSON with the characters escaped that JSON allows and a terminal obeys. They stand in texts only.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hostile(character) && character != '\n' {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(shown, "\\u{unit:04x}").expect("a String takes every text");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Controls, and the characters that change the direction or the lines of a text.
fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(escaped("a\nb\u{1b}[31mred\u{9b}x\u{202e}"), "a\\nb\\u{1b}[31mred\\u{9b}x\\u{202e}");
        assert_eq!(escaped("Grüße, 'you' \"there\""), "Grüße, 'you' \"there\"");
    }

    #[test]
    fn json_stays_what_it_means() {
        let value = serde_json::json!({"a": "x\u{1b}\u{9b}\u{202e}\n\"y\""});
        let shown = escaped_json(&serde_json::to_string(&value).expect("written"));
        assert!(shown.chars().all(|character| !is_hostile(character)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("read back"), value);
    }
}
