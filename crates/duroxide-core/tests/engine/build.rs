//! Builders: handlers from closures, messages, and histories written by hand.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{
    AppErrorKind, ErrorDetails, Event, EventKind, OrchestrationContext, OrchestrationHandler, WorkItem,
};

pub(crate) const INSTANCE: &str = "i";
pub(crate) const VERSION: &str = "1.0.0";

struct Program<F>(F);

#[async_trait]
impl<F, Fut> OrchestrationHandler for Program<F>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, String>> + Send,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        (self.0)(ctx, input).await
    }
}

pub(crate) fn handler<F, Fut>(program: F) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    Arc::new(Program(program))
}

pub(crate) fn start(input: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: INSTANCE.to_string(),
        orchestration: "Program".to_string(),
        input: input.to_string(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn start_by_parent(parent: &str, execution: u64, id: u64) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: INSTANCE.to_string(),
        orchestration: "Program".to_string(),
        input: String::new(),
        version: None,
        parent_instance: Some(parent.to_string()),
        parent_id: Some(id),
        parent_execution_id: Some(execution),
        execution_id: 1,
    }
}

pub(crate) fn completed_in(execution_id: u64, id: u64, result: &str) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: INSTANCE.to_string(),
        execution_id,
        id,
        result: result.to_string(),
    }
}

pub(crate) fn completed(id: u64, result: &str) -> WorkItem {
    completed_in(1, id, result)
}

pub(crate) fn app_error(message: &str) -> ErrorDetails {
    ErrorDetails::Application {
        kind: AppErrorKind::ActivityFailed,
        message: message.to_string(),
        retryable: false,
    }
}

pub(crate) fn failed(id: u64, message: &str) -> WorkItem {
    failed_with(id, app_error(message))
}

pub(crate) fn failed_with(id: u64, details: ErrorDetails) -> WorkItem {
    WorkItem::ActivityFailed { instance: INSTANCE.to_string(), execution_id: 1, id, details }
}

pub(crate) fn errored(id: u64, message: &str, error: &str) -> WorkItem {
    WorkItem::ActivityErrored {
        instance: INSTANCE.to_string(),
        execution_id: 1,
        id,
        details: app_error(message),
        error: error.to_string(),
        panicked: false,
    }
}

pub(crate) fn child_errored(id: u64, message: &str, error: &str) -> WorkItem {
    WorkItem::SubOrchErrored {
        parent_instance: INSTANCE.to_string(),
        parent_execution_id: 1,
        parent_id: id,
        details: ErrorDetails::orchestration_failed(message),
        error: error.to_string(),
    }
}

pub(crate) fn fired(id: u64) -> WorkItem {
    WorkItem::TimerFired { instance: INSTANCE.to_string(), execution_id: 1, id, fire_at_ms: 5_000 }
}

pub(crate) fn raised(name: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: INSTANCE.to_string(),
        name: name.to_string(),
        data: data.to_string(),
    }
}

pub(crate) fn queued(name: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage { instance: INSTANCE.to_string(), name: name.to_string(), data: data.to_string() }
}

pub(crate) fn cancel(reason: &str) -> WorkItem {
    WorkItem::CancelInstance { instance: INSTANCE.to_string(), reason: reason.to_string() }
}

pub(crate) fn child_completed(id: u64, result: &str) -> WorkItem {
    WorkItem::SubOrchCompleted {
        parent_instance: INSTANCE.to_string(),
        parent_execution_id: 1,
        parent_id: id,
        result: result.to_string(),
    }
}

pub(crate) fn child_failed(id: u64, message: &str) -> WorkItem {
    WorkItem::SubOrchFailed {
        parent_instance: INSTANCE.to_string(),
        parent_execution_id: 1,
        parent_id: id,
        details: ErrorDetails::orchestration_failed(message),
    }
}

/// The same history as a build of this version would have begun it.
pub(crate) fn begun_by(version: &str, mut history: Vec<Event>) -> Vec<Event> {
    if let Some(started) = history.first_mut() {
        started.duroxide_version = version.to_string();
    }
    history
}

/// A history that begins with a start; each event is (the event it answers, what happened).
pub(crate) fn history(events: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
    let started = EventKind::OrchestrationStarted {
        name: "Program".to_string(),
        version: VERSION.to_string(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    (1..)
        .zip(std::iter::once((None, started)).chain(events))
        .map(|(id, (source, kind))| event(id, source, kind))
        .collect()
}

pub(crate) fn event(event_id: u64, source_event_id: Option<u64>, kind: EventKind) -> Event {
    Event {
        event_id,
        source_event_id,
        instance_id: INSTANCE.to_string(),
        execution_id: 1,
        timestamp_ms: 1_000,
        duroxide_version: VERSION.to_string(),
        kind,
    }
}

pub(crate) fn activity(name: &str, input: &str) -> EventKind {
    EventKind::ActivityScheduled {
        name: name.to_string(),
        input: input.to_string(),
        session_id: None,
        tag: None,
    }
}
