//! How typed values become stored text, and back.

use std::collections::BTreeMap;
use std::fmt::Debug;

use duroxide_core::{decode, encode};
use proptest::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

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

proptest! {
    #[test]
    fn any_text_is_stored_as_it_is(text in any::<String>()) {
        prop_assert_eq!(encode(&text).unwrap(), text);
    }

    #[test]
    fn what_is_not_a_string_comes_back_as_it_was(numbers in any::<Vec<i64>>(), note in any::<Option<String>>()) {
        let value = (numbers, note);
        prop_assert_eq!(decode::<(Vec<i64>, Option<String>)>(&encode(&value).unwrap()).unwrap(), value);
    }
}
