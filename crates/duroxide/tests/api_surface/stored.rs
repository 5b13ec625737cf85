//! Events and work items: their fields, and the names that their stored form has.

use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, Event, EventKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::notation::{S, fields, methods, traits, variants};

pub(crate) fn checked() -> Vec<&'static str> {
    [event(), orchestration_events(), other_events(), work_items(), event_json(), optional_fields()].concat()
}

fn event() -> Vec<&'static str> {
    [
        fields!(Event {
            event_id: u64,
            source_event_id: Option<u64>,
            instance_id: String,
            execution_id: u64,
            timestamp_ms: u64,
            duroxide_version: String,
            kind: EventKind,
        }),
        methods!(Event {
            fn new(S, u64, Option<u64>, EventKind) -> Event;
            fn with_event_id(u64, S, u64, Option<u64>, EventKind) -> Event;
            fn event_id(&self) -> u64;
            fn source_event_id(&self) -> Option<u64>;
            fn is_terminal(&self) -> bool;
        }),
        traits! {
            Event: Clone, PartialEq, Serialize, DeserializeOwned;
            EventKind: Clone, PartialEq, Serialize, DeserializeOwned;
        },
    ]
    .concat()
}

fn orchestration_events() -> Vec<&'static str> {
    variants!(open EventKind {
        OrchestrationStarted {
            name: String,
            version: String,
            input: String,
            parent_instance: Option<String>,
            parent_id: Option<u64>,
            parent_execution_id: Option<u64>,
            carry_forward_events: Option<Vec<(String, String)>>,
            initial_custom_status: Option<String>,
        },
        OrchestrationCompleted { output: String },
        OrchestrationFailed { details: ErrorDetails },
        OrchestrationContinuedAsNew { input: String },
        OrchestrationCancelRequested { reason: String },
        OrchestrationChained { name: String, instance: String, input: String },
        SubOrchestrationScheduled { name: String, instance: String, input: String },
        SubOrchestrationCompleted { result: String },
        SubOrchestrationFailed { details: ErrorDetails },
        SubOrchestrationCancelRequested { reason: String },
    })
}

fn other_events() -> Vec<&'static str> {
    variants!(open EventKind {
        ActivityScheduled { name: String, input: String, session_id: Option<String>, tag: Option<String> },
        ActivityCompleted { result: String },
        ActivityFailed { details: ErrorDetails },
        ActivityCancelRequested { reason: String },
        TimerCreated { fire_at_ms: u64 },
        TimerFired { fire_at_ms: u64 },
        ExternalSubscribed { name: String },
        ExternalEvent { name: String, data: String },
        ExternalSubscribedCancelled { reason: String },
        QueueSubscribed { name: String },
        QueueEventDelivered { name: String, data: String },
        QueueSubscriptionCancelled { reason: String },
        CustomStatusUpdated { status: Option<String> },
        KeyValueSet { key: String, value: String, last_updated_at_ms: u64 },
        KeyValueCleared { key: String },
        KeyValuesCleared,
    })
}

fn work_items() -> Vec<&'static str> {
    let variants = variants!(open WorkItem {
        StartOrchestration {
            instance: String,
            orchestration: String,
            input: String,
            version: Option<String>,
            parent_instance: Option<String>,
            parent_id: Option<u64>,
            parent_execution_id: Option<u64>,
            execution_id: u64,
        },
        ActivityExecute {
            instance: String,
            execution_id: u64,
            id: u64,
            name: String,
            input: String,
            session_id: Option<String>,
            tag: Option<String>,
        },
        ActivityCompleted { instance: String, execution_id: u64, id: u64, result: String },
        ActivityFailed { instance: String, execution_id: u64, id: u64, details: ErrorDetails },
        TimerFired { instance: String, execution_id: u64, id: u64, fire_at_ms: u64 },
        ExternalRaised { instance: String, name: String, data: String },
        QueueMessage { instance: String, name: String, data: String },
        CancelInstance { instance: String, reason: String },
        SubOrchCompleted { parent_instance: String, parent_execution_id: u64, parent_id: u64, result: String },
        SubOrchFailed { parent_instance: String, parent_execution_id: u64, parent_id: u64, details: ErrorDetails },
        ContinueAsNew {
            instance: String,
            orchestration: String,
            input: String,
            version: Option<String>,
            parent_instance: Option<String>,
            parent_id: Option<u64>,
            parent_execution_id: Option<u64>,
            carry_forward_events: Vec<(String, String)>,
            initial_custom_status: Option<String>,
        },
    });
    let traits = traits! {
        WorkItem: Clone, PartialEq, Serialize, DeserializeOwned;
    };
    [variants, traits].concat()
}

fn event_json() -> Vec<&'static str> {
    let name = || "q".to_string();
    let kind_of = |kind: EventKind| {
        let event = serde_json::to_value(Event::with_event_id(2, "i", 1, None, kind)).expect("JSON");
        (event["type"].as_str().expect("a tag").to_string(), event["name"].clone())
    };
    let tagged = |kind| kind_of(kind).0;
    assert_eq!(
        kind_of(EventKind::ExternalSubscribed { name: name() }),
        ("ExternalSubscribed".to_string(), json!("q"))
    );
    assert_eq!(tagged(EventKind::QueueSubscribed { name: name() }), "ExternalSubscribedPersistent");
    let delivered = EventKind::QueueEventDelivered { name: name(), data: String::new() };
    assert_eq!(tagged(delivered), "ExternalEventPersistent");
    let cancelled = EventKind::QueueSubscriptionCancelled { reason: String::new() };
    assert_eq!(tagged(cancelled), "ExternalSubscribedPersistentCancelled");
    let item = WorkItem::CancelInstance { instance: "i".to_string(), reason: "r".to_string() };
    let external = serde_json::to_value(item).expect("JSON");
    assert_eq!(external, json!({ "CancelInstance": { "instance": "i", "reason": "r" } }));
    vec![
        "JSON: an Event flattens its kind, tagged \"type\" by the variant's name",
        "JSON: QueueSubscribed = ExternalSubscribedPersistent",
        "JSON: QueueEventDelivered = ExternalEventPersistent",
        "JSON: QueueSubscriptionCancelled = ExternalSubscribedPersistentCancelled",
        "JSON: a WorkItem is externally tagged",
    ]
}

/// Reads the value from JSON without the optional fields, and writes it without them again.
fn check_left_out<T: Serialize + DeserializeOwned>(minimal: &serde_json::Value) {
    let value: T =
        serde_json::from_value(minimal.clone()).unwrap_or_else(|error| panic!("{minimal}: {error}"));
    assert_eq!(&serde_json::to_value(&value).expect("JSON"), minimal);
}

fn optional_fields() -> Vec<&'static str> {
    check_left_out::<EventKind>(&json!({ "type": "ActivityScheduled", "name": "A", "input": "" }));
    check_left_out::<EventKind>(&json!({
        "type": "OrchestrationStarted", "name": "O", "version": "1.0.0", "input": "",
        "parent_instance": null, "parent_id": null,
    }));
    check_left_out::<WorkItem>(&json!({
        "ActivityExecute": { "instance": "i", "execution_id": 1, "id": 2, "name": "A", "input": "" },
    }));
    check_left_out::<WorkItem>(&json!({
        "StartOrchestration": {
            "instance": "i", "orchestration": "O", "input": "", "version": null,
            "parent_instance": null, "parent_id": null, "execution_id": 1,
        },
    }));
    check_left_out::<WorkItem>(&json!({
        "ContinueAsNew": { "instance": "i", "orchestration": "O", "input": "", "version": null },
    }));
    vec!["JSON: optional fields are left out when None and default when missing"]
}
