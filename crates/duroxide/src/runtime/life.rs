//! The life of instances and activities, as counters, metrics and the log tell it. Payloads and the texts of programs'
//! errors are in none of them.

use std::time::Duration;

use duroxide_core::{
    AppErrorKind, ConfigErrorKind, ErrorDetails, Event, EventKind, INITIAL_EXECUTION_ID, ItemKind,
    PoisonMessageType, Turn, WorkItem, columns_of,
};

use super::activity_context::ActivityFacts;
use super::node::Node;
use super::traces::TurnOf;
use crate::metric;
use crate::providers::TurnFacts;

/// A line about an execution.
macro_rules! of_execution {
    ($level:ident, $node:expr, $of:expr, $($line:tt)+) => {
        tracing::$level!(
            target: "duroxide::runtime",
            instance_id = %$of.instance_id,
            execution_id = $of.execution_id,
            orchestration_name = %$of.orchestration_name,
            orchestration_version = %$of.orchestration_version,
            worker_id = %$node.node_id,
            $($line)+
        )
    };
}

/// A line about an activity, at DEBUG.
macro_rules! of_activity {
    ($facts:expr, $($line:tt)+) => {
        tracing::debug!(
            target: "duroxide::runtime",
            instance_id = %$facts.instance,
            execution_id = $facts.execution_id,
            orchestration_name = %$facts.orchestration_name,
            orchestration_version = %$facts.orchestration_version,
            activity_name = %$facts.name,
            activity_id = $facts.activity_id,
            attempt = $facts.attempt(),
            worker_id = %$facts.worker_id,
            $($line)+
        )
    };
}

/// Counts and logs a turn that is in the store.
pub(super) fn turn_committed(node: &Node, of: &TurnOf, turn: &Turn, facts: Option<&TurnFacts>) {
    let label = || node.orchestration_label(&of.orchestration_name);
    metric::turn_duration(label()).record(of.fetched_at.elapsed().as_secs_f64());
    for reason in &turn.dropped {
        metric::messages_dropped(reason.word()).increment(1);
    }
    if let Some(first) = turn.events.first()
        && matches!(first.kind, EventKind::OrchestrationStarted { .. })
    {
        execution_started(node, of, first);
    }
    let children = turn.orchestrator_items.iter().filter(|item| {
        let columns = columns_of(item);
        columns.kind == ItemKind::Start && columns.parent.is_some()
    });
    node.counters.suborchestration_calls.add(children.count());
    of_execution!(
        debug,
        node,
        of,
        events = turn.events.len(),
        activities = turn.worker_items.len(),
        messages = turn.orchestrator_items.len(),
        dropped_messages = turn.dropped.len(),
        "turn committed"
    );
    if let Some(last) = turn.events.last().filter(|last| last.is_terminal()) {
        execution_ended(node, of, last, facts);
    }
}

fn execution_started(node: &Node, of: &TurnOf, first: &Event) {
    if first.execution_id == INITIAL_EXECUTION_ID {
        node.counters.orch_starts.increment();
        metric::orchestration_starts(node.orchestration_label(&of.orchestration_name)).increment(1);
        of_execution!(info, node, of, "instance started");
    } else {
        of_execution!(debug, node, of, "execution started");
    }
}

fn execution_ended(node: &Node, of: &TurnOf, last: &Event, facts: Option<&TurnFacts>) {
    let label = node.orchestration_label(&of.orchestration_name);
    let took =
        facts.map(|facts| Duration::from_millis(last.timestamp_ms.saturating_sub(facts.created_at_ms)));
    let duration_ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let record = |outcome: &'static str| {
        if let Some(took) = took {
            metric::orchestration_duration(outcome, label.clone()).record(took.as_secs_f64());
        }
    };
    if matches!(last.kind, EventKind::OrchestrationCompleted { .. }) {
        node.counters.orch_completions.increment();
        metric::orchestration_completions(label.clone()).increment(1);
        record("completed");
        of_execution!(info, node, of, duration_ms, "instance completed");
    } else if let EventKind::OrchestrationFailed { details } = &last.kind {
        node.counters.orchestration_failed(details, label.clone());
        record("failed");
        let (category, kind) = (details.category(), kind_word(details));
        of_execution!(info, node, of, duration_ms, category, kind, "instance failed");
    } else if matches!(last.kind, EventKind::OrchestrationContinuedAsNew { .. }) {
        node.counters.orch_continue_as_new.increment();
        metric::orchestration_continued_as_new(label).increment(1);
        of_execution!(debug, node, of, "execution continued as new");
    }
}

/// Counts and logs that a handler is about to be called.
pub(super) fn activity_started(node: &Node, facts: &ActivityFacts) {
    let label = node.activity_label(&facts.name);
    metric::activity_starts(label.clone()).increment(1);
    if facts.attempt() > 1 {
        metric::activity_retries(label).increment(1);
        of_activity!(facts, "activity retried");
    } else {
        of_activity!(facts, "activity started");
    }
}

/// Records how a call of a handler ended.
pub(super) fn handler_ended(node: &Node, facts: &ActivityFacts, outcome: &'static str, took: Duration) {
    metric::activity_duration(outcome, node.activity_label(&facts.name)).record(took.as_secs_f64());
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    of_activity!(facts, outcome, duration_ms, "activity ended");
}

/// Counts a result of an activity that is in the store.
pub(super) fn activity_committed(node: &Node, facts: &ActivityFacts, completion: &WorkItem) {
    let label = node.activity_label(&facts.name);
    if let WorkItem::ActivityFailed { details, .. } | WorkItem::ActivityErrored { details, .. } = completion {
        node.counters.activity_failed(details, label);
        let (category, kind) = (details.category(), kind_word(details));
        of_activity!(facts, category, kind, "activity failed");
    } else {
        node.counters.activity_success.increment();
        metric::activity_completions(label.clone()).increment(1);
        metric::activity_attempts(label).record(f64::from(facts.attempt()));
        of_activity!(facts, "activity completed");
    }
}

/// What kind of failure it is, in a word.
fn kind_word(details: &ErrorDetails) -> &'static str {
    match details {
        ErrorDetails::Infrastructure { .. } => "infrastructure",
        ErrorDetails::Configuration { kind, .. } => match kind {
            ConfigErrorKind::Nondeterminism => "nondeterminism",
            ConfigErrorKind::UnsupportedReplayVersion => "unsupported_replay_version",
        },
        ErrorDetails::Application { kind, .. } => match kind {
            AppErrorKind::ActivityFailed => "activity_failed",
            AppErrorKind::OrchestrationFailed => "orchestration_failed",
            AppErrorKind::Panicked => "panicked",
            AppErrorKind::Cancelled { .. } => "cancelled",
        },
        ErrorDetails::Poison { message_type, .. } => match message_type {
            PoisonMessageType::Orchestration { .. } => "poisoned_orchestration",
            PoisonMessageType::Activity { .. } => "poisoned_activity",
            PoisonMessageType::FailedDeserialization { .. } => "undecodable",
        },
    }
}
