//! What the plain calls report when they changed nothing. They are `Ok` all the same: only the log and a counter tell.

use duroxide_core::{WorkItem, columns_of};

use crate::metric;
use crate::providers::{Enqueued, SendOutcome, StartOutcome};

/// A plain call, as the log and the counter name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainCall {
    StartOrchestration,
    RaiseEvent,
    EnqueueEvent,
    CancelInstance,
}

impl PlainCall {
    fn word(self) -> &'static str {
        match self {
            Self::StartOrchestration => "start_orchestration",
            Self::RaiseEvent => "raise_event",
            Self::EnqueueEvent => "enqueue_event",
            Self::CancelInstance => "cancel_instance",
        }
    }
}

/// A plain call and what it sent, as far as a report needs it.
pub(super) struct Sent {
    call: PlainCall,
    instance: String,
    /// The orchestration that a start asks for.
    orchestration: Option<String>,
}

impl Sent {
    pub(super) fn of(call: PlainCall, item: &WorkItem) -> Self {
        let columns = columns_of(item);
        Self { call, instance: columns.instance.to_string(), orchestration: columns.name.map(str::to_string) }
    }

    /// Logs and counts the call if it changed nothing.
    pub(super) fn report(&self, outcome: &Enqueued) {
        let Some(reason) = reason(self.orchestration.as_deref(), outcome) else { return };
        let (call, why) = (self.call.word(), reason.word());
        metric::client_calls_without_effect(call, why).increment(1);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %self.instance,
            call,
            reason = why,
            "{call} changed nothing: {}; {call}_checked returns this as its outcome",
            reason.text()
        );
    }
}

/// Why a call changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    OtherOrchestration,
    OtherInput,
    NotFound,
    Ended,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::OtherOrchestration => "other_orchestration",
            Self::OtherInput => "other_input",
            Self::NotFound => "not_found",
            Self::Ended => "ended",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::OtherOrchestration => "the instance with this id runs another orchestration",
            Self::OtherInput => "the instance with this id was started with another input",
            Self::NotFound => "no instance has this id",
            Self::Ended => "the instance has ended",
        }
    }
}

/// Why the call changed nothing; `None` if it did something, or need not have: a start that is repeated.
fn reason(asked: Option<&str>, outcome: &Enqueued) -> Option<Reason> {
    match outcome {
        Enqueued::Start(StartOutcome::AlreadyExists { orchestration, .. })
            if asked.is_some_and(|asked| asked != orchestration) =>
        {
            Some(Reason::OtherOrchestration)
        }
        Enqueued::Start(StartOutcome::AlreadyExists { same_input: false, .. }) => Some(Reason::OtherInput),
        Enqueued::Message(SendOutcome::NotFound) => Some(Reason::NotFound),
        Enqueued::Message(SendOutcome::Ended) => Some(Reason::Ended),
        Enqueued::Start(StartOutcome::Started | StartOutcome::AlreadyExists { same_input: true, .. })
        | Enqueued::Message(SendOutcome::Delivered | SendOutcome::Kept) => None,
    }
}
