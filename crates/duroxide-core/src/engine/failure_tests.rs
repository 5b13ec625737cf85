//! What a call sees of a failure: its text, its kind, and the error that was recorded before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::commands::{Command, Schedule};
use super::slot::{Failed, Slot};
use super::turn::{Before, Outcome, TurnInput};
use super::{DurableFuture, OrchestrationContext, OrchestrationHandler, run_turn};
use crate::model::{AppErrorKind, ErrorDetails, PoisonMessageType, WorkItem};

struct Shows {
    is_child: bool,
}

#[async_trait]
impl OrchestrationHandler for Shows {
    async fn invoke(&self, ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        let (name, input) = ("A".to_string(), String::new());
        let what = if self.is_child {
            Schedule::Child { name, version: None, instance: None, input }
        } else {
            Schedule::Activity { name, input, session_id: None }
        };
        let slot = Slot::new(!self.is_child);
        ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        let call: DurableFuture<Result<String, Failed>> =
            DurableFuture::scheduled(slot, ctx.desk.clone(), |result| result);
        let call =
            if self.is_child { call } else { call.with_start_to_close(std::time::Duration::from_secs(1)) };
        let Failed { text, kind, error } = call.await.expect_err("it fails");
        Ok(format!("{kind:?} {text} {error:?}"))
    }
}

fn seen(is_child: bool, answer: WorkItem) -> String {
    let start = WorkItem::StartOrchestration {
        instance: "i".to_string(),
        orchestration: "Shows".to_string(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    let input = TurnInput {
        instance: "i".to_string(),
        execution_id: 1,
        now_ms: 1,
        entropy: 1,
        messages: vec![start, answer],
        kv: BTreeMap::new(),
    };
    let handler = Arc::new(Shows { is_child });
    let result = run_turn(Before::Stored { handler, version: "1.0.0".to_string(), history: &[] }, input);
    let Outcome::Completed { output } = result.turn.outcome else {
        panic!("not completed: {:?}", result.turn.outcome)
    };
    output
}

fn of_activity(details: ErrorDetails, error: Option<&str>, panicked: bool) -> String {
    let (instance, execution_id, id) = ("i".to_string(), 1, 2);
    let answer = match error.map(str::to_string) {
        None => WorkItem::ActivityFailed { instance, execution_id, id, details },
        Some(error) => WorkItem::ActivityErrored { instance, execution_id, id, details, error, panicked },
    };
    seen(false, answer)
}

fn of_child(details: ErrorDetails, error: Option<&str>) -> String {
    let (parent_instance, parent_execution_id, parent_id) = ("i".to_string(), 1, 2);
    let answer = match error.map(str::to_string) {
        None => WorkItem::SubOrchFailed { parent_instance, parent_execution_id, parent_id, details },
        Some(error) => {
            WorkItem::SubOrchErrored { parent_instance, parent_execution_id, parent_id, details, error }
        }
    };
    seen(true, answer)
}

fn application(kind: AppErrorKind, message: &str, retryable: bool) -> ErrorDetails {
    ErrorDetails::Application { kind, message: message.to_string(), retryable }
}

#[test]
fn the_failure_of_an_activity_has_its_kind_and_its_error() {
    let failed = |retryable| application(AppErrorKind::ActivityFailed, "no", retryable);
    assert_eq!(of_activity(failed(true), None, false), "App no None");
    assert_eq!(of_activity(failed(true), Some("1"), false), "App no Some(\"1\")");
    assert_eq!(of_activity(failed(true), Some("\"boom\""), true), "Panicked no Some(\"\\\"boom\\\"\")");
    assert_eq!(of_activity(failed(false), None, false), "TimedOut no None", "it has a deadline");
    let infrastructure = ErrorDetails::Infrastructure {
        operation: "o".to_string(),
        message: "m".to_string(),
        retryable: true,
    };
    assert_eq!(of_activity(infrastructure, None, false), "Other infrastructure:o: m None");
}

#[test]
fn the_failure_of_a_child_has_its_kind_and_its_error() {
    let failed = ErrorDetails::orchestration_failed("no");
    assert_eq!(of_child(failed.clone(), None), "App no None");
    assert_eq!(of_child(failed, Some("{}")), "App no Some(\"{}\")");
    assert_eq!(of_child(ErrorDetails::cancelled("why"), None), "Cancelled canceled: why None");
    let panicked = application(AppErrorKind::Panicked, "boom", false);
    assert_eq!(of_child(panicked, None), "Panicked orchestration panicked: boom None");
    let message_type = PoisonMessageType::Orchestration { instance: "c".to_string(), execution_id: 1 };
    let poison =
        ErrorDetails::Poison { attempt_count: 2, max_attempts: 1, message_type, message: String::new() };
    assert_eq!(of_child(poison, None), "Poisoned poison: orchestration c exceeded 2 attempts (max 1) None");
}
