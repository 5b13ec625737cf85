//! How typed values become stored text, and back.

use std::collections::BTreeMap;
use std::fmt::Debug;

use duroxide_core::{decode, encode};
use proptest::prelude::*;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Colour {
    Red,
    Mixed { parts: Vec<u8> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
}

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, text: &str) {
    assert_eq!(encode(value).expect("a value with a JSON form"), text);
    assert_eq!(&decode::<T>(text).expect("the text of such a value"), value, "{text}");
}

#[test]
fn a_string_is_stored_as_the_bare_text() {
    check(&"hello".to_string(), "hello");
    check(&String::new(), "");
    check(&"two\nlines \u{1f980} and a \\".to_string(), "two\nlines \u{1f980} and a \\");
    check(&Some("x".to_string()), "x");
}

#[test]
fn whatever_serialises_to_a_json_string_is_stored_as_the_bare_text() {
    check(&Colour::Red, "Red");
    check(&'c', "c");
    check(&semver::Version::new(1, 2, 3), "1.2.3");
}

#[test]
fn a_text_that_would_parse_as_json_is_stored_json_encoded() {
    check(&"\"quoted\"".to_string(), r#""\"quoted\"""#);
    check(&"123".to_string(), "\"123\"");
    check(&Some("null".to_string()), "\"null\"");
    check(&serde_json::json!("123"), "\"123\"");
    check(&serde_json::json!("{}"), "\"{}\"");
    check(&Some(" [1] ".to_string()), "\" [1] \"");
    check(&serde_json::json!("1e999"), "\"1e999\"");
    let deep = "[".repeat(300) + &"]".repeat(300);
    check(&serde_json::json!(deep), &format!("\"{deep}\""));
}

#[test]
fn everything_else_is_stored_as_json() {
    check(&42_u64, "42");
    check(&-1.5_f64, "-1.5");
    check(&true, "true");
    check(&(), "null");
    check(&None::<u8>, "null");
    check(&vec!["a".to_string()], "[\"a\"]");
    check(&Order { id: 7, note: Some("x".into()) }, "{\"id\":7,\"note\":\"x\"}");
    check(&Colour::Mixed { parts: vec![1] }, "{\"Mixed\":{\"parts\":[1]}}");
}

#[test]
fn decoding_tries_json_before_it_takes_the_text_as_a_string() {
    assert_eq!(decode::<String>("\"quoted\"").unwrap(), "quoted");
    assert_eq!(decode::<String>("42").unwrap(), "42");
    assert_eq!(decode::<String>("{\"id\":1}").unwrap(), "{\"id\":1}");
    assert_eq!(decode::<Option<String>>("null").unwrap(), None);
    assert_eq!(decode::<serde_json::Value>("plain").unwrap(), serde_json::json!("plain"));
}

#[test]
fn an_error_names_the_type_and_never_quotes_the_text() {
    let error = decode::<u64>("secret-token").unwrap_err();
    assert!(error.contains("u64"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let error = decode::<Order>("{\"id\":\"secret\"}").unwrap_err();
    assert!(error.contains("Order") && !error.contains("secret"), "{error}");
}

#[test]
fn a_value_without_a_json_form_is_an_error() {
    assert!(encode(&BTreeMap::from([((1, 2), 3)])).unwrap_err().contains("JSON"));
}

/// Texts that look like JSON, and others.
fn any_text() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    let tricky = [
        "null", "true", "false", "0", "-1.5e3", "{}", "[]", "\"\"", "\"a\"", " 1 ", "{\"a\":1}", "", "\\", "1e999",
        "\n\t\r true", "truest", "nullify", "f", "-", "\u{feff}1", "\u{a0}1", "say \"hi\"",
    ];
    prop_oneof![
        3 => proptest::sample::select(tricky.map(str::to_string).to_vec()),
        1 => any::<String>(),
        1 => "[0-9\"\\[\\]{}:,ntruefalse. -]{0,12}",
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        6 => any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The rule of the codec without its short cuts.
fn encode_by_the_rule(value: &Value) -> Result<String, String> {
    let json = value.to_string();
    let Ok(text) = serde_json::from_str::<String>(&json) else { return Ok(json) };
    Ok(if serde_json::from_str::<IgnoredAny>(&text).is_ok() { json } else { text })
}

fn decode_by_the_rule<T: DeserializeOwned>(text: &str) -> Option<T> {
    let bare = || serde_json::from_value(Value::String(text.to_string()));
    serde_json::from_str(text).or_else(|_| bare()).ok()
}

proptest! {
    #[test]
    fn any_text_comes_back_as_it_was(text in any::<String>()) {
        let stored = encode(&text).unwrap();
        prop_assert_eq!(decode::<String>(&stored).unwrap(), text.clone());
        let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        prop_assert!(is_json || stored == text, "a text that is no JSON is stored bare");
    }

    #[test]
    fn what_is_stored_follows_the_rule_word_for_word(text in any_text(), value in any_value()) {
        for value in [Value::String(text.clone()), value] {
            prop_assert_eq!(encode(&value), encode_by_the_rule(&value));
        }
        prop_assert_eq!(decode::<String>(&text).ok(), decode_by_the_rule(&text));
        prop_assert_eq!(decode::<Value>(&text).ok(), decode_by_the_rule(&text));
        prop_assert_eq!(decode::<Option<String>>(&text).ok(), decode_by_the_rule(&text));
        prop_assert_eq!(decode::<i64>(&text).ok(), decode_by_the_rule(&text));
    }

    #[test]
    fn any_value_comes_back_as_it_was(value in any_value()) {
        prop_assert_eq!(&decode::<Value>(&encode(&value).unwrap()).unwrap(), &value);
        let option = Some(value.clone()).filter(|value| !value.is_null());
        prop_assert_eq!(decode::<Option<Value>>(&encode(&option).unwrap()).unwrap(), option);
        // A text that is itself the JSON of a value.
        let nested = value.to_string();
        prop_assert_eq!(decode::<String>(&encode(&nested).unwrap()).unwrap(), nested.clone());
        prop_assert_eq!(decode::<Value>(&encode(&nested).unwrap()).unwrap(), Value::String(nested));
    }

    #[test]
    fn what_is_not_a_string_comes_back_as_it_was(numbers in any::<Vec<i64>>(), note in any::<Option<String>>()) {
        let value = (numbers, note);
        prop_assert_eq!(decode::<(Vec<i64>, Option<String>)>(&encode(&value).unwrap()).unwrap(), value);
    }
}
