//! How typed values become the text that is stored.
//!
//! A value that serialises to a JSON string is stored as the bare text, everything else as JSON.
//! Decoding tries JSON first and then takes the text as a string.

use serde::{Serialize, de::DeserializeOwned};

/// The stored text of a value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let json = serde_json::to_string(value)
        .map_err(|cause| format!("the value cannot be written as JSON: {cause}"))?;
    if !json.starts_with('"') {
        return Ok(json);
    }
    serde_json::from_str(&json).map_err(|cause| format!("the value cannot be written as JSON: {cause}"))
}

/// The stored text of a KV value: plain JSON.
pub fn kv_to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|cause| format!("KV serialization error: {cause}"))
}

/// The KV value behind a stored text. The error names the expected type and never quotes the text.
pub fn kv_from_json<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|cause| {
        format!(
            "KV deserialization error: the stored text is not a {}: {:?} error at line {} column {}",
            std::any::type_name::<T>(),
            cause.classify(),
            cause.line(),
            cause.column()
        )
    })
}

/// The value behind a stored text. The error names the expected type and never quotes the text.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(json_error) => {
            serde_json::from_value(serde_json::Value::String(text.to_string())).map_err(|_| {
                format!(
                    "the stored text is not a {}: {:?} error at line {} column {}",
                    std::any::type_name::<T>(),
                    json_error.classify(),
                    json_error.line(),
                    json_error.column()
                )
            })
        }
    }
}
