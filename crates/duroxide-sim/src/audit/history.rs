//! Every history is well formed: ids dense, one end and it is last, one completion per schedule, time forward.

use std::collections::BTreeMap;

use duroxide::providers::memory::{Inspection, InstanceSnapshot, Snapshot};
use duroxide::{Event, EventKind};

use super::{Findings, events};
use crate::ledger::Ledger;

pub(super) fn check(snapshot: &Snapshot, ledger: &Ledger, findings: &mut Findings) {
    for (id, instance) in &snapshot.instances {
        if instance.executions.is_empty() {
            findings.push(format!("{id}: has no execution"));
        }
        let complete = !ledger.prunable.contains(id);
        let mut last_execution = 0;
        for (execution_id, execution) in &instance.executions {
            let name = format!("{id}/{execution_id}");
            let events = events(execution);
            if complete && *execution_id != last_execution + 1 {
                findings.push(format!("{name}: follows execution {last_execution}"));
            }
            last_execution = *execution_id;
            if events.len() != execution.events.len() {
                findings.push(format!("{name}: an event does not decode"));
            }
            let redriven = ledger.is_redriven(id, *execution_id);
            let failed_before = ledger.is_redriven(id, execution_id + 1);
            check_events(id, *execution_id, redriven, &events, findings);
            check_ends(&name, &events, findings);
            check_status(&name, instance, *execution_id, failed_before, &events, findings);
            check_completions(&name, &events, findings);
        }
    }
}

/// The same for the current execution of one instance.
pub(super) fn check_current(id: &str, inspection: &Inspection<'_>, redriven: bool, findings: &mut Findings) {
    let execution_id = inspection.current_execution_id;
    let name = format!("{id}/{execution_id}");
    if inspection.events.len() != inspection.event_count {
        findings.push(format!("{name}: an event does not decode"));
    }
    check_events(id, execution_id, redriven, &inspection.events, findings);
    check_ends(&name, &inspection.events, findings);
    check_completions(&name, &inspection.events, findings);
    let says = word_of(&inspection.events);
    if says != inspection.status {
        findings.push(format!("{name}: the history says {says}, the instance's row {}", inspection.status));
    }
}

/// A redriven execution begins with events of those before it.
fn check_events(id: &str, execution_id: u64, redriven: bool, events: &[&Event], findings: &mut Findings) {
    // A clock may be set back between two executions, but not within one.
    let mut last_timestamp = 0;
    let mut earliest = if redriven { 1 } else { execution_id };
    for (event, expected_id) in events.iter().zip(1..) {
        let name = || format!("{id}/{execution_id}: event {}", event.event_id);
        if event.event_id != expected_id {
            findings.push(format!("{} stands at {expected_id}", name()));
        }
        if event.timestamp_ms < last_timestamp {
            findings.push(format!("{}: time runs backwards", name()));
        }
        last_timestamp = event.timestamp_ms;
        if event.instance_id != *id || !(earliest..=execution_id).contains(&event.execution_id) {
            findings.push(format!("{} belongs elsewhere", name()));
        }
        earliest = event.execution_id;
    }
}

fn check_ends(name: &str, events: &[&Event], findings: &mut Findings) {
    if let Some(first) = events.first()
        && !matches!(first.kind, EventKind::OrchestrationStarted { .. })
    {
        findings.push(format!("{name}: does not begin with its start"));
    }
    let starts =
        events.iter().filter(|event| matches!(event.kind, EventKind::OrchestrationStarted { .. })).count();
    if starts > 1 {
        findings.push(format!("{name}: {starts} starts"));
    }
    let ends: Vec<usize> =
        events.iter().enumerate().filter(|(_, event)| event.is_terminal()).map(|(index, _)| index).collect();
    if ends.len() > 1 {
        findings.push(format!("{name}: {} terminal events", ends.len()));
    }
    if ends.first().is_some_and(|end| end + 1 != events.len()) {
        findings.push(format!("{name}: the terminal event is not the last"));
    }
}

/// The row says what the history says.
fn check_status(
    name: &str,
    instance: &InstanceSnapshot,
    execution_id: u64,
    failed_before: bool,
    events: &[&Event],
    findings: &mut Findings,
) {
    let is_current = execution_id == instance.current_execution_id;
    let says = word_of(events);
    let execution_status = instance.executions.get(&execution_id).map_or("", |execution| execution.status);
    if says != execution_status {
        findings.push(format!("{name}: the history says {says}, the execution's row {execution_status}"));
    }
    if is_current && says != instance.status {
        findings.push(format!("{name}: the history says {says}, the instance's row {}", instance.status));
    }
    let went_on = if failed_before { "Failed" } else { "ContinuedAsNew" };
    if !is_current && says != went_on {
        findings.push(format!("{name}: was followed by another execution but ended as {says}"));
    }
}

/// The status that a history tells.
fn word_of(events: &[&Event]) -> &'static str {
    match events.last().map(|event| &event.kind) {
        Some(EventKind::OrchestrationCompleted { .. }) => "Completed",
        Some(EventKind::OrchestrationFailed { .. }) => "Failed",
        Some(EventKind::OrchestrationContinuedAsNew { .. }) => "ContinuedAsNew",
        Some(_) | None => "Running",
    }
}

/// What a schedule waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    Activity,
    Timer,
    Child,
}

fn check_completions(name: &str, events: &[&Event], findings: &mut Findings) {
    let mut schedules: BTreeMap<u64, (Waits, bool)> = BTreeMap::new();
    for event in events {
        let (kind, word) = match &event.kind {
            EventKind::ActivityScheduled { .. } => {
                schedules.insert(event.event_id, (Waits::Activity, false));
                continue;
            }
            EventKind::TimerCreated { .. } => {
                schedules.insert(event.event_id, (Waits::Timer, false));
                continue;
            }
            EventKind::SubOrchestrationScheduled { .. } => {
                schedules.insert(event.event_id, (Waits::Child, false));
                continue;
            }
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                (Waits::Activity, "completed")
            }
            EventKind::ActivityCancelRequested { .. } => (Waits::Activity, "cancelled"),
            EventKind::TimerFired { .. } => (Waits::Timer, "fired"),
            EventKind::TimerCancelled { .. } => (Waits::Timer, "cancelled"),
            EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationFailed { .. } => {
                (Waits::Child, "completed")
            }
            EventKind::SubOrchestrationCancelRequested { .. } => (Waits::Child, "cancelled"),
            EventKind::OrchestrationStarted { .. }
            | EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
            | EventKind::OrchestrationCancelRequested { .. }
            | EventKind::ExternalSubscribed { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::OrchestrationChained { .. }
            | EventKind::VersionRequested { .. }
            | EventKind::CustomStatusUpdated { .. }
            | EventKind::KeyValueSet { .. }
            | EventKind::KeyValueCleared { .. }
            | EventKind::KeyValuesCarried { .. }
            | EventKind::RetryPolicyRecorded { .. }
            | EventKind::ActivityDeadlinesRecorded { .. }
            | EventKind::ActivityBegun
            | EventKind::OrchestrationRedriven { .. }
            | EventKind::OrchestrationRepaired { .. }
            | EventKind::ErrorRecorded { .. }
            | EventKind::CancelPolicyRecorded { .. }
            | EventKind::ActivityStopped
            | EventKind::PatchMarked { .. }
            | EventKind::KeyValuesCleared => continue,
        };
        let source = event.source_event_id.unwrap_or_default();
        match schedules.get_mut(&source) {
            Some((scheduled, closed)) if *scheduled == kind && !*closed => *closed = true,
            Some((scheduled, true)) if *scheduled == kind => {
                findings.push(format!("{name}: schedule {source} was {word} after it had been answered"));
            }
            Some(_) | None => {
                findings.push(format!("{name}: event {} answers no {kind:?}", event.event_id));
            }
        }
    }
}
