//! Errors of a program's own: recorded before the failure that they belong to, told to the parent, and pinned.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::limits::MAX_PAYLOAD_BYTES;
use duroxide_core::{
    ErrorDetails, EventKind, HandlerError, OrchestrationContext, OrchestrationHandler, Outcome,
    RecordedFailure, WorkItem, pinned_version_of,
};
use semver::Version;

use crate::build::{
    activity, begun_by, cancel, child_errored, child_failed, completed, errored, failed, handler, history,
    start, start_by_parent,
};
use crate::driver::{Driver, check, failure, output, run};

/// A program whose own error is more than its text.
struct Typed {
    error: String,
}

#[async_trait]
impl OrchestrationHandler for Typed {
    async fn invoke(&self, _ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        unreachable!("the engine calls `run`")
    }

    async fn run(&self, ctx: OrchestrationContext, _input: String) -> Result<String, HandlerError> {
        let error = Some(self.error.clone());
        // Left open, so that its cancellation is recorded as well.
        let open = ctx.schedule_activity("Open", "");
        let failed = ctx.schedule_activity("A", "").await;
        drop(open);
        failed.map_err(|text| HandlerError { message: format!("failed: {text}"), error })
    }
}

fn typed(error: &str) -> Arc<dyn OrchestrationHandler> {
    Arc::new(Typed { error: error.to_string() })
}

fn catches() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move {
        let activity = ctx.schedule_activity("A", "").await;
        let child = ctx.schedule_sub_orchestration("C", "").await;
        Ok(format!("{activity:?} {child:?}"))
    })
}

#[test]
fn an_error_stands_before_its_failure_and_the_text_api_sees_the_text() {
    let messages =
        vec![errored(2, "card declined", "\"Declined\""), child_errored(5, "lost", "{\"Lost\":1}")];
    let history = expect_test::expect![[r#"
        1 OrchestrationStarted { input: "" }
        2 ActivityScheduled { name: "A", input: "", session_id: None, tag: None }
        3 <- 2 ErrorRecorded { error: "\"Declined\"", panicked: false }
        4 <- 2 ActivityFailed { details: Application { kind: ActivityFailed, message: "card declined", retryable: false } }
        5 SubOrchestrationScheduled { name: "C", instance: "sub::5", input: "" }
        6 <- 5 ErrorRecorded { error: "{\"Lost\":1}", panicked: false }
        7 <- 5 SubOrchestrationFailed { details: Application { kind: OrchestrationFailed, message: "lost", retryable: false } }
        8 OrchestrationCompleted { output: "Err(\"card declined\") Err(\"lost\")" }
    "#]];
    let driver = check(catches(), messages, history);
    assert_eq!(output(driver.last()), "Err(\"card declined\") Err(\"lost\")");
}

#[test]
fn a_completion_with_an_error_resolves_its_schedule_once() {
    let messages = vec![errored(2, "first", "1"), errored(2, "second", "2"), failed(2, "third")];
    let driver = run(catches(), messages);
    let errors = driver.history.iter().filter(|event| matches!(event.kind, EventKind::ErrorRecorded { .. }));
    assert_eq!(errors.count(), 1);
    let dropped: usize = driver.turns.iter().map(|turn| turn.dropped.len()).sum();
    assert_eq!(dropped, 2);
    assert_eq!(run(catches(), vec![completed(2, "ok"), errored(2, "late", "1")]).history.len(), 4);
}

#[test]
fn an_execution_that_fails_with_an_error_records_it_last_and_tells_its_parent() {
    let mut driver = Driver::new(typed("\"OutOfStock\""));
    driver.send(vec![start_by_parent("p", 3, 8), failed(3, "no")]);
    let failed = RecordedFailure::at_end_of(&driver.history).expect("it has failed");
    let details = ErrorDetails::orchestration_failed("failed: no");
    let error = "\"OutOfStock\"".to_string();
    assert_eq!(failed, RecordedFailure { details: details.clone(), error: Some(error.clone()) });
    let told = WorkItem::SubOrchErrored {
        parent_instance: "p".to_string(),
        parent_execution_id: 3,
        parent_id: 8,
        details,
        error,
    };
    assert_eq!(driver.last().orchestrator_items, [told]);
    assert!(matches!(&driver.last().outcome, Outcome::Failed { .. }));
    let last = driver.history.len() - 1;
    assert!(matches!(driver.history[last - 1].kind, EventKind::ErrorRecorded { panicked: false, .. }));
    assert_eq!(driver.history[last - 1].source_event_id, None);
}

#[test]
fn an_error_above_the_limit_of_a_payload_is_left_out_with_a_warning_and_the_text_stays() {
    let mut driver = Driver::new(typed(&"x".repeat(MAX_PAYLOAD_BYTES + 1)));
    driver.send(vec![start_by_parent("p", 3, 8), failed(3, "no")]);
    assert_eq!(failure(driver.last()), "failed: no");
    assert!(matches!(driver.last().orchestrator_items[..], [WorkItem::SubOrchFailed { .. }]));
    let warnings = &driver.last().traces;
    assert!(
        matches!(&warnings[..], [line] if line.level == "warn" && line.message.contains("only its text is recorded")),
        "{warnings:?}"
    );
    let mut at_the_limit = Driver::new(typed(&"x".repeat(MAX_PAYLOAD_BYTES)));
    at_the_limit.send(vec![start(""), failed(3, "no")]);
    let recorded = RecordedFailure::at_end_of(&at_the_limit.history).and_then(|failure| failure.error);
    assert_eq!(recorded.map(|error| error.len()), Some(MAX_PAYLOAD_BYTES));
}

#[test]
fn a_cancelled_execution_has_no_error_of_its_own() {
    let driver = run(typed("1"), vec![cancel("enough")]);
    let failure = RecordedFailure::at_end_of(&driver.history).expect("it has failed");
    assert_eq!(failure, RecordedFailure { details: ErrorDetails::cancelled("enough"), error: None });
}

#[test]
fn an_error_in_an_execution_of_an_earlier_build_raises_its_pin_in_the_same_turn() {
    let stored = begun_by("1.1.0", history(vec![(None, activity("A", ""))]));
    let mut driver = Driver::new(catches()).with_history(stored);
    driver.send(vec![errored(2, "no", "1"), child_failed(5, "no")]);
    let pins: Vec<_> =
        driver.turns.iter().map(|turn| turn.metadata.pinned_duroxide_version.clone()).collect();
    assert_eq!(pins, [Some(Version::new(1, 2, 0)), None]);
    assert_eq!(pinned_version_of(&driver.history), Some(Version::new(1, 2, 0)));
}

#[test]
fn a_failure_without_an_error_leaves_the_pin_as_it_is() {
    let stored = begun_by("1.1.0", history(vec![(None, activity("A", ""))]));
    let mut driver = Driver::new(catches()).with_history(stored);
    driver.send(vec![failed(2, "no"), child_failed(4, "no")]);
    assert!(driver.turns.iter().all(|turn| turn.metadata.pinned_duroxide_version.is_none()));
    assert_eq!(pinned_version_of(&driver.history), Some(Version::new(1, 1, 0)));
}

#[test]
fn an_execution_of_an_earlier_build_that_fails_with_an_error_raises_its_pin_at_its_end() {
    let begun = history(vec![(None, activity("Open", "")), (None, activity("A", ""))]);
    let mut driver = Driver::new(typed("1")).with_history(begun_by("1.1.0", begun));
    driver.send(vec![failed(3, "no")]);
    assert_eq!(driver.last().metadata.pinned_duroxide_version, Some(Version::new(1, 2, 0)));
    assert_eq!(driver.last().metadata.status.as_deref(), Some("Failed"));
}
