//! One sample of every variant that is stored, and a smallest form of those with optional fields.

use std::collections::BTreeMap;

use duroxide_core::{
    ActivityDeadlines, AppErrorKind, BounceCause, ConfigErrorKind, ErrorDetails, Event, EventKind, KvEntry,
    PoisonMessageType, RetriedCall, WorkItem,
};

/// What the golden file of a variant holds.
pub(crate) struct Samples<T> {
    /// The variant's name in the code, which is the file's name.
    pub(crate) variant: &'static str,
    /// Every field set.
    pub(crate) full: T,
    /// Every optional field left out, for a variant that has one.
    pub(crate) minimal: Option<T>,
}

/// The list of an enum's samples, and the name of a variant.
///
/// Both come from one list through a match without a wildcard: a new variant does not compile here until
/// it has a sample, and a variant with a sample must have a golden file.
macro_rules! samples_of {
    ($(#[$doc:meta])* $list:ident, $name:ident, $kind:ident {
        $($variant:ident: $full:expr $(, minimal: $minimal:expr)?;)*
    }) => {
        $(#[$doc])*
        pub(crate) fn $list() -> Vec<Samples<$kind>> {
            vec![$(Samples {
                variant: stringify!($variant),
                full: $full,
                minimal: None$(.or(Some($minimal)))?,
            }),*]
        }

        /// The name of a value's variant.
        pub(crate) fn $name(value: &$kind) -> &'static str {
            match value {
                $($kind::$variant { .. } => stringify!($variant)),*
            }
        }
    };
}

/// An event of a fixed time and build around a kind.
pub(crate) fn event(kind: EventKind) -> Event {
    Event {
        event_id: 7,
        source_event_id: Some(3),
        instance_id: "order-42".to_string(),
        execution_id: 2,
        timestamp_ms: 1_700_000_000_123,
        duroxide_version: "1.0.0".to_string(),
        kind,
    }
}

fn deadlines() -> ActivityDeadlines {
    ActivityDeadlines { schedule_to_start_ms: Some(60_000), start_to_close_ms: Some(5_000) }
}

fn s(text: &str) -> String {
    text.to_string()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_string())
}

fn pairs() -> Vec<(String, String)> {
    vec![(s("orders"), s("{\"n\":1}")), (s("orders"), s("two"))]
}

fn details() -> ErrorDetails {
    ErrorDetails::Application {
        kind: AppErrorKind::ActivityFailed,
        message: s("card declined"),
        retryable: true,
    }
}

samples_of! {
    /// Every kind of event.
    event_kinds, event_kind_name, EventKind {
    OrchestrationStarted: EventKind::OrchestrationStarted {
        name: s("Order"), version: s("1.2.3"), input: s("{\"id\":42}"), parent_instance: some("shop-1"),
        parent_id: Some(5), parent_execution_id: Some(3), carry_forward_events: Some(pairs()),
        initial_custom_status: some("half done"),
    }, minimal: EventKind::OrchestrationStarted {
        name: s("Order"), version: s("1.2.3"), input: s(""), parent_instance: None, parent_id: None,
        parent_execution_id: None, carry_forward_events: None, initial_custom_status: None,
    };
    OrchestrationCompleted: EventKind::OrchestrationCompleted { output: s("tab\t, \"quotes\", \u{1f980} and\nlines") };
    OrchestrationFailed: EventKind::OrchestrationFailed { details: details() };
    OrchestrationContinuedAsNew: EventKind::OrchestrationContinuedAsNew { input: s("[1,2]") };
    CancelPolicyRecorded: EventKind::CancelPolicyRecorded { within_ms: 600_000 };
    OrchestrationCancelRequested: EventKind::OrchestrationCancelRequested { reason: s("customer left") };
    ActivityScheduled: EventKind::ActivityScheduled {
        name: s("Charge"), input: s("42"), session_id: some("gpu-7"), tag: some("gpu"),
    }, minimal: EventKind::ActivityScheduled { name: s("Charge"), input: s("42"), session_id: None, tag: None };
    ActivityCompleted: EventKind::ActivityCompleted { result: s("ok") };
    ErrorRecorded: EventKind::ErrorRecorded { error: s(r#"{"Network":"reset"}"#), panicked: true },
        minimal: EventKind::ErrorRecorded { error: s(r#""Declined""#), panicked: false };
    ActivityFailed: EventKind::ActivityFailed { details: details() };
    ActivityCancelRequested: EventKind::ActivityCancelRequested { reason: s("dropped_future") };
    TimerCreated: EventKind::TimerCreated { fire_at_ms: 1_700_000_060_000 };
    TimerFired: EventKind::TimerFired { fire_at_ms: u64::MAX };
    TimerCancelled: EventKind::TimerCancelled { reason: s("dropped_future") };
    ExternalSubscribed: EventKind::ExternalSubscribed { name: s("Approval") };
    ExternalEvent: EventKind::ExternalEvent { name: s("Approval"), data: s("yes") };
    ExternalSubscribedCancelled: EventKind::ExternalSubscribedCancelled { reason: s("dropped_future") };
    QueueSubscribed: EventKind::QueueSubscribed { name: s("orders") };
    QueueEventDelivered: EventKind::QueueEventDelivered { name: s("orders"), data: s("first") };
    QueueSubscriptionCancelled: EventKind::QueueSubscriptionCancelled { reason: s("dropped_future") };
    OrchestrationChained: EventKind::OrchestrationChained {
        name: s("Invoice"), instance: s("invoice-42"), input: s("42"),
    };
    SubOrchestrationScheduled: EventKind::SubOrchestrationScheduled {
        name: s("Ship"), instance: s("order-42::sub::2_7"), input: s("42"),
    };
    VersionRequested: EventKind::VersionRequested { version: s("2.0.0") };
    SubOrchestrationCompleted: EventKind::SubOrchestrationCompleted { result: s("shipped") };
    SubOrchestrationFailed: EventKind::SubOrchestrationFailed { details: details() };
    SubOrchestrationCancelRequested: EventKind::SubOrchestrationCancelRequested { reason: s("dropped_future") };
    CustomStatusUpdated: EventKind::CustomStatusUpdated { status: some("half done") },
        minimal: EventKind::CustomStatusUpdated { status: None };
    KeyValueSet: EventKind::KeyValueSet { key: s("total"), value: s("99"), last_updated_at_ms: 1_700_000_000_123 };
    KeyValueCleared: EventKind::KeyValueCleared { key: s("total") };
    KeyValuesCleared: EventKind::KeyValuesCleared;
    PatchMarked: EventKind::PatchMarked { id: s("fraud-check") };
    KeyValuesCarried: EventKind::KeyValuesCarried {
        values: BTreeMap::from([(s("total"), KvEntry { value: s("99"), last_updated_at_ms: 1_700_000_000_123 })]),
    };
    RetryPolicyRecorded: EventKind::RetryPolicyRecorded { policy: s(r#"{"max_attempts":2,"backoff":"None"}"#) };
    ActivityDeadlinesRecorded: EventKind::ActivityDeadlinesRecorded { deadlines: deadlines() },
        minimal: EventKind::ActivityDeadlinesRecorded { deadlines: ActivityDeadlines::default() };
    ActivityBegun: EventKind::ActivityBegun;
    ActivityStopped: EventKind::ActivityStopped;
    OrchestrationRepaired: EventKind::OrchestrationRepaired {
        put_back: 2, by: s("ops"), at_ms: 1_700_000_000_123,
    };
    OrchestrationRedriven: EventKind::OrchestrationRedriven {
        from_execution_id: 1, by: s("ops"), at_ms: 1_700_000_000_123,
    };
}}

samples_of! {
    /// Every kind of work item.
    work_items, work_item_name, WorkItem {
    StartOrchestration: WorkItem::StartOrchestration {
        instance: s("order-42"), orchestration: s("Order"), input: s("{\"id\":42}"), version: some("1.2.3"),
        parent_instance: some("shop-1"), parent_id: Some(5), parent_execution_id: Some(3), execution_id: 1,
    }, minimal: WorkItem::StartOrchestration {
        instance: s("order-42"), orchestration: s("Order"), input: s(""), version: None, parent_instance: None,
        parent_id: None, parent_execution_id: None, execution_id: 1,
    };
    ActivityExecute: WorkItem::ActivityExecute {
        instance: s("order-42"), execution_id: 2, id: 7, name: s("Charge"), input: s("42"),
        session_id: some("gpu-7"), tag: some("gpu"),
    }, minimal: WorkItem::ActivityExecute {
        instance: s("order-42"), execution_id: 2, id: 7, name: s("Charge"), input: s("42"), session_id: None,
        tag: None,
    };
    ActivityExecuteWithin: WorkItem::ActivityExecuteWithin {
        instance: s("order-42"), execution_id: 2, id: 7, name: s("Charge"), input: s("42"),
        session_id: some("gpu-7"), tag: some("gpu"), deadlines: deadlines(), retried: None, reports_stop: false,
    }, minimal: WorkItem::ActivityExecuteWithin {
        instance: s("order-42"), execution_id: 2, id: 7, name: s("Charge"), input: s("42"), session_id: None,
        tag: None, deadlines: ActivityDeadlines::default(), retried: None, reports_stop: false,
    };
    ActivityBegun: WorkItem::ActivityBegun { instance: s("order-42"), execution_id: 2, id: 7 };
    ActivityStopped: WorkItem::ActivityStopped { instance: s("order-42"), execution_id: 2, id: 7 };
    Repaired: WorkItem::Repaired {
        instance: s("order-42"), put_back: 2, by: s("ops"), at_ms: 1_700_000_000_123,
    };
    Redriven: WorkItem::Redriven {
        instance: s("order-42"), from_execution_id: 1, by: s("ops"), at_ms: 1_700_000_000_123,
    };
    ActivityCompleted: WorkItem::ActivityCompleted {
        instance: s("order-42"), execution_id: 2, id: 7, result: s("tab\t, \"quotes\", \u{1f980} and\nlines"),
    };
    ActivityFailed: WorkItem::ActivityFailed { instance: s("order-42"), execution_id: 2, id: 7, details: details() };
    ActivityErrored: WorkItem::ActivityErrored {
        instance: s("order-42"), execution_id: 2, id: 7, details: details(), error: s(r#"{"Network":"reset"}"#),
        panicked: true,
    }, minimal: WorkItem::ActivityErrored {
        instance: s("order-42"), execution_id: 2, id: 7, details: details(), error: s(r#""Declined""#), panicked: false,
    };
    TimerFired: WorkItem::TimerFired { instance: s("order-42"), execution_id: 2, id: 7, fire_at_ms: u64::MAX };
    ExternalRaised: WorkItem::ExternalRaised { instance: s("order-42"), name: s("Approval"), data: s("yes") };
    QueueMessage: WorkItem::QueueMessage { instance: s("order-42"), name: s("orders"), data: s("first") };
    CancelInstance: WorkItem::CancelInstance { instance: s("order-42"), reason: s("customer left") };
    SubOrchCompleted: WorkItem::SubOrchCompleted {
        parent_instance: s("order-42"), parent_execution_id: 2, parent_id: 7, result: s("shipped"),
    };
    SubOrchFailed: WorkItem::SubOrchFailed {
        parent_instance: s("order-42"), parent_execution_id: 2, parent_id: 7, details: details(),
    };
    SubOrchErrored: WorkItem::SubOrchErrored {
        parent_instance: s("order-42"), parent_execution_id: 2, parent_id: 7, details: details(),
        error: s(r#""OutOfStock""#),
    };
    ContinueAsNew: WorkItem::ContinueAsNew {
        instance: s("order-42"), orchestration: s("Order"), input: s("[1,2]"), version: some("1.2.3"),
        parent_instance: some("shop-1"), parent_id: Some(5), parent_execution_id: Some(3),
        carry_forward_events: pairs(), initial_custom_status: some("half done"),
    }, minimal: WorkItem::ContinueAsNew {
        instance: s("order-42"), orchestration: s("Order"), input: s("[1,2]"), version: None, parent_instance: None,
        parent_id: None, parent_execution_id: None, carry_forward_events: Vec::new(), initial_custom_status: None,
    };
}}

samples_of! {
    /// Every stored reason of a failure.
    error_details, error_details_name, ErrorDetails {
    Infrastructure: ErrorDetails::Infrastructure { operation: s("ack"), message: s("disk is full"), retryable: true };
    Configuration: ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism, resource: s("Order"), message: some("schedule mismatch"),
    }, minimal: ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism, resource: s("Order"), message: None,
    };
    Application: ErrorDetails::Application {
        kind: AppErrorKind::Cancelled { reason: s("customer left") }, message: s("canceled"), retryable: false,
    };
    Poison: ErrorDetails::Poison {
        attempt_count: 11, max_attempts: 10,
        message_type: PoisonMessageType::Orchestration { instance: s("order-42"), execution_id: 2 },
        message: s("[]"),
    };
}}

samples_of! {
    /// Every cause of a bounce.
    bounce_causes, bounce_cause_name, BounceCause {
    OrchestrationNotRegistered: BounceCause::OrchestrationNotRegistered { name: s("Order"), version: some("2.0.0") },
        minimal: BounceCause::OrchestrationNotRegistered { name: s("Order"), version: None };
    ActivityNotRegistered: BounceCause::ActivityNotRegistered { name: s("Charge") };
    VersionNotReplayed: BounceCause::VersionNotReplayed { pinned: s("2.1.0"), supported: s("1.0.0 to 2.0.0") };
    Undecodable: BounceCause::Undecodable { error: s("event at position 3: EOF while parsing") };
    NoStart: BounceCause::NoStart;
    Nondeterministic: BounceCause::Nondeterministic { diff: s("schedule mismatch") };
    Panicked: BounceCause::Panicked { message: s("index out of bounds") };
    FunctionWithoutName: BounceCause::FunctionWithoutName { text: s("'ship' has no name here") };
    CommitRefused: BounceCause::CommitRefused { error: s("value too long") };
}}

samples_of! {
    /// Every way in which code may not fit.
    config_error_kinds, config_error_kind_name, ConfigErrorKind {
    Nondeterminism: ConfigErrorKind::Nondeterminism;
    UnsupportedReplayVersion: ConfigErrorKind::UnsupportedReplayVersion;
}}

samples_of! {
    /// Every way in which a program fails.
    app_error_kinds, app_error_kind_name, AppErrorKind {
    ActivityFailed: AppErrorKind::ActivityFailed;
    OrchestrationFailed: AppErrorKind::OrchestrationFailed;
    Panicked: AppErrorKind::Panicked;
    Cancelled: AppErrorKind::Cancelled { reason: s("customer left") };
}}

samples_of! {
    /// Everything that can be poisoned.
    poison_message_types, poison_message_type_name, PoisonMessageType {
    Orchestration: PoisonMessageType::Orchestration { instance: s("order-42"), execution_id: 2 };
    Activity: PoisonMessageType::Activity {
        instance: s("order-42"), execution_id: 2, activity_name: s("Charge"), activity_id: 7,
    };
    FailedDeserialization: PoisonMessageType::FailedDeserialization {
        instance: s("order-42"), execution_id: 2, error: s("event at position 3: missing field `name`"),
    };
}}

/// A form of a work item that was added to its variant later.
pub(crate) fn later_attempt() -> WorkItem {
    WorkItem::ActivityExecuteWithin {
        instance: s("order-42"),
        execution_id: 2,
        id: 11,
        name: s("Charge"),
        input: s("42"),
        session_id: None,
        tag: None,
        deadlines: ActivityDeadlines::default(),
        retried: Some(RetriedCall { first_execution_id: 1, first_id: 7, attempt: 3 }),
        reports_stop: false,
    }
}

/// The same, for the field after that.
pub(crate) fn reports_stop() -> WorkItem {
    let mut item = later_attempt();
    if let WorkItem::ActivityExecuteWithin { reports_stop, .. } = &mut item {
        *reports_stop = true;
    }
    item
}
