//! How typed values become the text that is stored.
//!
//! A value that serialises to a JSON string is stored as the bare text, unless that text would itself parse as
//! JSON: then it is stored as the JSON string, so that every value comes back as it was. Everything else is stored
//! as JSON. Decoding tries JSON first and then takes the text as a string.

use std::borrow::Cow;
use std::fmt::Display;

use serde::{Serialize, de::DeserializeOwned, de::IgnoredAny};
use serde_json::error::Category;

/// The stored text of a value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let json = to_json(value)?;
    match bare_text(&json)? {
        Some(text) if !parses_as_json(&text) => Ok(text.into_owned()),
        Some(_) | None => Ok(json),
    }
}

/// The stored text of a value as builds before 1.1.0 wrote it: a text is always bare, so one that parses as JSON
/// comes back as another value. Executions that such a build began replay only with this form.
pub(crate) fn encode_before_1_1<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let json = to_json(value)?;
    Ok(bare_text(&json)?.map(Cow::into_owned).unwrap_or(json))
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|cause| no_json_form(&cause))
}

/// The text of a JSON string; `None` for any other JSON.
fn bare_text(json: &str) -> Result<Option<Cow<'_, str>>, String> {
    let Some(quoted) = json.strip_prefix('"') else { return Ok(None) };
    match quoted.strip_suffix('"') {
        // Most texts need no escapes.
        Some(text) if !text.bytes().any(|byte| byte == b'"' || byte == b'\\') => Ok(Some(text.into())),
        Some(_) | None => {
            let text: String = serde_json::from_str(json).map_err(|cause| no_json_form(&cause))?;
            Ok(Some(text.into()))
        }
    }
}

fn no_json_form(cause: &serde_json::Error) -> String {
    format!("the value cannot be written as JSON: {cause}")
}

/// Whether the text follows JSON's grammar, whatever the size and depth of what it expresses.
fn parses_as_json(text: &str) -> bool {
    begins_as_json(text) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether the text begins as a JSON value does, or is empty. Spares most bare texts a parser and its error.
fn begins_as_json(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [b' ' | b'\n' | b'\t' | b'\r', behind @ ..] = rest {
        rest = behind;
    }
    match rest {
        [] | [b'{' | b'[' | b'"' | b'-' | b'0'..=b'9', ..] => true,
        [b't', ..] => rest.starts_with(b"true"),
        [b'f', ..] => rest.starts_with(b"false"),
        [b'n', ..] => rest.starts_with(b"null"),
        [_, ..] => false,
    }
}

/// The stored text of a KV value: plain JSON.
pub fn kv_to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|cause| format!("KV serialization error: {cause}"))
}

/// The KV value behind a stored text. The error names the expected type and never quotes the text.
pub fn kv_from_json<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|cause| {
        let expected = std::any::type_name::<T>();
        format!("KV deserialization error: the stored text is not a {expected}: {}", place_of(&cause))
    })
}

/// [`kv_from_json`] with the error of builds before 1.1.0.
pub(crate) fn kv_from_json_before_1_1<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json)
        .map_err(|cause| format!("KV deserialization error: {}", not_of_type_before_1_1::<T>(&cause)))
}

/// [`decode`] with the error of builds before 1.1.0.
pub(crate) fn decode_before_1_1<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).or_else(|json_error| {
        serde_json::from_value(serde_json::Value::String(text.to_string()))
            .map_err(|_| not_of_type_before_1_1::<T>(&json_error))
    })
}

fn not_of_type_before_1_1<T>(error: &serde_json::Error) -> String {
    format!(
        "the stored text is not a {}: {:?} error at line {} column {}",
        std::any::type_name::<T>(),
        error.classify(),
        error.line(),
        error.column()
    )
}

/// The value behind a stored text. The error names the expected type and never quotes the text.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    decode_as("the stored text", text)
}

/// [`decode`] with an error that also says what was decoded, such as `input of activity 'Charge'`.
pub fn decode_as<T: DeserializeOwned>(what: impl Display, text: &str) -> Result<T, String> {
    if !begins_as_json(text)
        && let Ok(value) = from_bare(text)
    {
        return Ok(value);
    }
    serde_json::from_str(text).or_else(|json_error| {
        from_bare(text)
            .map_err(|_| format!("{what} is not a {}: {}", std::any::type_name::<T>(), place_of(&json_error)))
    })
}

/// The value whose JSON is a string of this text.
fn from_bare<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::Value::String(text.to_string()))
}

/// What is wrong and where. serde's own text quotes the data, so it is not used.
fn place_of(error: &serde_json::Error) -> String {
    let problem = match error.classify() {
        Category::Data => "a value of another type, or a missing or unknown field,",
        Category::Syntax => "no valid JSON",
        Category::Eof => "incomplete JSON",
        Category::Io => "unreadable text",
    };
    match (error.line(), error.column()) {
        (0, _) => problem.trim_end_matches(',').to_string(),
        (1, 0) => format!("{problem} at its beginning"),
        (line, column) => format!("{problem} at line {line} column {column}"),
    }
}
