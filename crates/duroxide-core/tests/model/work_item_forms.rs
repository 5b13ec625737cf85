//! Failures with an error of the program's own, as builds before 1.2.0 read them.

use duroxide_core::{AppErrorKind, ErrorDetails, WorkItem};
use serde::Deserialize;

/// The two kinds as 1.1.0 declares them.
#[derive(Debug, PartialEq, Deserialize)]
enum Before {
    ActivityFailed { instance: String, execution_id: u64, id: u64, details: ErrorDetails },
    SubOrchFailed { parent_instance: String, parent_execution_id: u64, parent_id: u64, details: ErrorDetails },
}

fn details() -> ErrorDetails {
    let kind = AppErrorKind::ActivityFailed;
    ErrorDetails::Application { kind, message: "card declined".to_string(), retryable: true }
}

fn written(item: &WorkItem) -> String {
    serde_json::to_string(item).expect("it has a JSON form")
}

#[test]
fn a_build_before_reads_an_error_as_a_plain_failure() {
    let (instance, parent_instance) = ("i".to_string(), "i".to_string());
    let activity = WorkItem::ActivityErrored {
        instance: instance.clone(),
        execution_id: 2,
        id: 7,
        details: details(),
        error: "\"Declined\"".to_string(),
        panicked: true,
    };
    let read: Before = serde_json::from_str(&written(&activity)).expect("1.1.0 reads it");
    assert_eq!(read, Before::ActivityFailed { instance, execution_id: 2, id: 7, details: details() });
    let child = WorkItem::SubOrchErrored {
        parent_instance: parent_instance.clone(),
        parent_execution_id: 2,
        parent_id: 7,
        details: details(),
        error: "1".to_string(),
    };
    let read: Before = serde_json::from_str(&written(&child)).expect("1.1.0 reads it");
    let expected =
        Before::SubOrchFailed { parent_instance, parent_execution_id: 2, parent_id: 7, details: details() };
    assert_eq!(read, expected);
    for item in [activity, child] {
        assert_eq!(serde_json::from_str::<WorkItem>(&written(&item)).expect("it is read back"), item);
        let value = serde_json::to_value(&item).expect("it has a JSON form");
        assert_eq!(serde_json::from_value::<WorkItem>(value).expect("it is read back"), item);
    }
}

#[test]
fn forms_that_are_none_are_refused_with_what_is_wrong() {
    for (text, cause) in [
        ("{\"Unheard\":{}}", "unknown variant `Unheard`"),
        ("{\"ActivityFailed\":{\"instance\":\"i\"}}", "missing field `execution_id`"),
        ("\"ActivityFailed\"", "invalid type: unit variant"),
        ("[]", "expected value"),
    ] {
        let error = serde_json::from_str::<WorkItem>(text).expect_err(text);
        assert!(error.to_string().contains(cause), "{text}: {error}");
    }
}
