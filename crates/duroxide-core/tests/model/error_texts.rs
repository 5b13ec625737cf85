//! The texts, categories and retry rules of stored errors.

use duroxide_core::{
    AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, OrchestrationStatus, PoisonMessageType,
    WorkItem, current_build_version,
};

fn check(details: &ErrorDetails, text: &str, category: &str) {
    assert_eq!(details.display_message(), text);
    assert_eq!(details.to_string(), text, "Display is the same text");
    assert_eq!(details.category(), category);
}

fn configuration(kind: ConfigErrorKind, message: Option<&str>) -> ErrorDetails {
    ErrorDetails::Configuration { kind, resource: "Order".into(), message: message.map(Into::into) }
}

fn application(kind: AppErrorKind) -> ErrorDetails {
    ErrorDetails::Application { kind, message: "no stock".into(), retryable: true }
}

fn poison(message_type: PoisonMessageType) -> ErrorDetails {
    ErrorDetails::Poison { attempt_count: 11, max_attempts: 10, message_type, message: "[\"secret\"]".into() }
}

#[test]
fn infrastructure_says_operation_and_message() {
    let details = ErrorDetails::Infrastructure {
        operation: "ack".into(),
        message: "disk is full".into(),
        retryable: true,
    };
    check(&details, "infrastructure:ack: disk is full", "infrastructure");
}

#[test]
fn configuration_says_what_does_not_fit() {
    let nondeterminism = ConfigErrorKind::Nondeterminism;
    check(
        &configuration(nondeterminism.clone(), Some("schedule mismatch")),
        "nondeterministic: schedule mismatch",
        "configuration",
    );
    check(&configuration(nondeterminism, None), "nondeterministic in Order", "configuration");
    check(
        &configuration(ConfigErrorKind::UnsupportedReplayVersion, Some("2.0.0 is outside >=0.0.0, <=1.0.0")),
        "unsupported replay version: 2.0.0 is outside >=0.0.0, <=1.0.0",
        "configuration",
    );
    check(
        &configuration(ConfigErrorKind::UnsupportedReplayVersion, None),
        "unsupported replay version: Order",
        "configuration",
    );
}

#[test]
fn application_says_the_programs_own_text() {
    check(&application(AppErrorKind::ActivityFailed), "no stock", "application");
    check(&application(AppErrorKind::OrchestrationFailed), "no stock", "application");
    check(&application(AppErrorKind::Panicked), "orchestration panicked: no stock", "application");
    check(
        &application(AppErrorKind::Cancelled { reason: "customer left".into() }),
        "canceled: customer left",
        "application",
    );
}

#[test]
fn poison_says_who_and_how_often_and_not_the_messages() {
    check(
        &poison(PoisonMessageType::Orchestration { instance: "order-42".into(), execution_id: 2 }),
        "poison: orchestration order-42 exceeded 11 attempts (max 10)",
        "poison",
    );
    check(
        &poison(PoisonMessageType::Activity {
            instance: "order-42".into(),
            execution_id: 2,
            activity_name: "Charge".into(),
            activity_id: 7,
        }),
        "poison: activity Charge#7 exceeded 11 attempts (max 10)",
        "poison",
    );
    check(
        &poison(PoisonMessageType::FailedDeserialization {
            instance: "order-42".into(),
            execution_id: 2,
            error: "event at position 3: eof".into(),
        }),
        "poison: orchestration order-42 history deserialization failed after 11 attempts (max 10): \
         event at position 3: eof",
        "poison",
    );
}

#[test]
fn only_infrastructure_and_application_errors_can_be_retryable() {
    for retryable in [true, false] {
        let infrastructure =
            ErrorDetails::Infrastructure { operation: "o".into(), message: "m".into(), retryable };
        let application =
            ErrorDetails::Application { kind: AppErrorKind::ActivityFailed, message: "m".into(), retryable };
        assert_eq!(infrastructure.is_retryable(), retryable);
        assert_eq!(application.is_retryable(), retryable);
    }
    assert!(!configuration(ConfigErrorKind::Nondeterminism, None).is_retryable());
    assert!(
        !poison(PoisonMessageType::Orchestration { instance: "i".into(), execution_id: 1 }).is_retryable()
    );
    assert!(!ErrorDetails::orchestration_failed("over a limit").is_retryable());
    assert_eq!(ErrorDetails::orchestration_failed("over a limit").display_message(), "over a limit");
}

#[test]
fn an_event_made_by_hand_has_the_time_and_the_build() {
    let event = Event::new("i", 3, Some(2), EventKind::TimerFired { fire_at_ms: 5 });
    assert_eq!((event.event_id(), event.source_event_id(), event.execution_id), (0, Some(2), 3));
    assert!(event.timestamp_ms > 1_700_000_000_000);
    assert_eq!(event.duroxide_version, current_build_version().to_string());
    assert_eq!(Event::with_event_id(9, "i", 3, None, EventKind::KeyValuesCleared).event_id(), 9);
}

#[test]
fn completed_failed_and_continued_as_new_end_an_execution_and_nothing_else_does() {
    let is_terminal = |kind| Event::with_event_id(1, "i", 1, None, kind).is_terminal();
    assert!(is_terminal(EventKind::OrchestrationCompleted { output: String::new() }));
    assert!(is_terminal(EventKind::OrchestrationFailed { details: ErrorDetails::orchestration_failed("x") }));
    assert!(is_terminal(EventKind::OrchestrationContinuedAsNew { input: String::new() }));
    assert!(!is_terminal(EventKind::OrchestrationCancelRequested { reason: String::new() }));
    assert!(!is_terminal(EventKind::ActivityFailed { details: ErrorDetails::orchestration_failed("x") }));
    assert!(!is_terminal(EventKind::SubOrchestrationCompleted { result: String::new() }));
}

#[test]
fn only_completed_and_failed_end_an_instance() {
    let (custom_status, custom_status_version) = (None, 0);
    assert!(!OrchestrationStatus::NotFound.is_terminal());
    assert!(!OrchestrationStatus::Running { custom_status: None, custom_status_version }.is_terminal());
    let completed =
        OrchestrationStatus::Completed { output: "o".into(), custom_status: None, custom_status_version };
    assert!(completed.is_terminal());
    let details = ErrorDetails::orchestration_failed("x");
    assert!(OrchestrationStatus::Failed { details, custom_status, custom_status_version }.is_terminal());
}

#[test]
fn the_answer_of_a_child_goes_to_its_parents_inbox() {
    let item = WorkItem::SubOrchCompleted {
        parent_instance: "parent".into(),
        parent_execution_id: 1,
        parent_id: 2,
        result: String::new(),
    };
    assert_eq!(item.instance(), "parent");
}
