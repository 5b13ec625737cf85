//! Every instance ended as its program says, or because somebody who may had cancelled it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide::providers::memory::{InstanceSnapshot, Snapshot};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};
use serde_json::Value;

use super::{events, running};
use crate::expect::{self, Expect, Neighbours};
use crate::generate::Send;
use crate::interpret::{parsed, result_value};
use crate::ledger::Ledger;
use crate::program::{Input, Program, ProgramId};

/// What the ends show.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) findings: Vec<String>,
    pub(super) counts: Vec<&'static str>,
}

pub(super) fn check(programs: &[Arc<Program>], snapshot: &Snapshot, ledger: &Ledger, ended: &mut Ended) {
    for id in running(snapshot) {
        ended.findings.push(format!("{id}: has not ended"));
    }
    for (id, instance) in &snapshot.instances {
        if let Some(end) = last_event(instance) {
            let known = Known { programs, ledger };
            check_instance(id, instance, end, snapshot, &known, ended);
        }
        if !instance.executions.is_empty() && instance.executions.len() > 1 {
            ended.counts.push("continued as new");
        }
    }
    for (id, seen) in &ledger.seen_ends {
        let stored = snapshot.instances.get(id).and_then(last_event).map(end_value);
        if stored.as_ref() != Some(seen) {
            ended.findings.push(format!("{id}: a client saw the end {seen}, the store has {stored:?}"));
        }
    }
    for acknowledged in &ledger.acknowledged {
        let exists = snapshot.instances.contains_key(&acknowledged.instance);
        let deletable = ledger.is_deletable(&acknowledged.instance);
        if matches!(acknowledged.what, Send::Start { .. }) && !exists && !deletable {
            ended.findings.push(format!("{}: its start was acknowledged and is gone", acknowledged.instance));
        }
    }
    check_guids(snapshot, ended);
}

fn last_event(instance: &InstanceSnapshot) -> Option<&Event> {
    let current = instance.executions.get(&instance.current_execution_id)?;
    events(current).pop().filter(|event| event.is_terminal())
}

fn end_value(end: &Event) -> Value {
    if let EventKind::OrchestrationCompleted { output } = &end.kind {
        result_value(Ok(parsed(output)))
    } else if let EventKind::OrchestrationFailed { details } = &end.kind {
        result_value(Err(details.display_message()))
    } else {
        Value::Null
    }
}

fn check_instance(
    id: &str,
    instance: &InstanceSnapshot,
    end: &Event,
    snapshot: &Snapshot,
    known: &Known<'_>,
    ended: &mut Ended,
) {
    let ledger = known.ledger;
    let cancelled_by_client = ledger.cancels.contains_key(id);
    if let EventKind::OrchestrationFailed { details } = &end.kind {
        match details {
            ErrorDetails::Poison { .. } => ended.counts.push("poisoned"),
            ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } => {
                ended.counts.push("cancel won");
                if !may_cancel(id, instance, reason, snapshot, ledger) {
                    ended
                        .findings
                        .push(format!("{id}: was cancelled ({reason}) by somebody who has no part in it"));
                }
                return;
            }
            ErrorDetails::Infrastructure { .. }
            | ErrorDetails::Configuration { .. }
            | ErrorDetails::Application { .. } => {}
        }
    }
    if cancelled_by_client {
        ended.counts.push("completion won against a cancel");
    }
    let Some(program) = program_of(instance).and_then(|input| known.programs.get(input.program)) else {
        ended.findings.push(format!("{id}: its start holds no program"));
        return;
    };
    let expected: Expect = expect::of_program(program, known);
    let value = end_value(end);
    if !expected.accepts(&value) {
        ended.findings.push(format!("{id}: ended as {value}\n  expected {expected:?}"));
    }
}

fn program_of(instance: &InstanceSnapshot) -> Option<Input> {
    let first = instance.executions.values().next()?;
    let started = *events(first).first()?;
    let EventKind::OrchestrationStarted { input, .. } = &started.kind else { return None };
    serde_json::from_str(input).ok()
}

/// Clients may, and the parent that started it.
fn may_cancel(
    id: &str,
    instance: &InstanceSnapshot,
    reason: &str,
    snapshot: &Snapshot,
    ledger: &Ledger,
) -> bool {
    if ledger.cancels.get(id).is_some_and(|reasons| reasons.iter().any(|known| known == reason)) {
        return true;
    }
    let Some(link) = &instance.parent else { return false };
    if ledger.prunable.contains(&link.instance) {
        // The execution that said so may have been removed.
        return true;
    }
    let execution =
        snapshot.instances.get(&link.instance).and_then(|parent| parent.executions.get(&link.execution_id));
    execution.map(events).unwrap_or_default().iter().any(|event| {
        event.source_event_id == Some(link.event_id)
            && matches!(event.kind, EventKind::SubOrchestrationCancelRequested { .. })
    })
}

/// What is known besides the store.
struct Known<'a> {
    programs: &'a [Arc<Program>],
    ledger: &'a Ledger,
}

impl Neighbours for Known<'_> {
    fn program(&self, id: ProgramId) -> &Program {
        &self.programs[id]
    }

    fn cancel_reasons(&self, id: &str) -> Vec<String> {
        self.ledger.cancels.get(id).cloned().unwrap_or_default()
    }
}

/// No guid is given out twice.
fn check_guids(snapshot: &Snapshot, ended: &mut Ended) {
    let mut guids = BTreeSet::new();
    for (id, instance) in &snapshot.instances {
        for (execution_id, execution) in &instance.executions {
            let events = events(execution);
            // A redriven execution has those of the one before.
            for event in events.iter().filter(|event| event.execution_id == *execution_id) {
                let EventKind::ActivityCompleted { result } = &event.kind else { continue };
                let asked = event.source_event_id.and_then(|source| {
                    let index = usize::try_from(source).ok()?.checked_sub(1)?;
                    events.get(index)
                });
                let is_guid = asked.is_some_and(|asked| {
                    matches!(&asked.kind, EventKind::ActivityScheduled { name, .. } if name.ends_with(":new_guid"))
                });
                if is_guid && !guids.insert(result.clone()) {
                    ended.findings.push(format!("{id}: guid {result} was given out before"));
                }
            }
        }
    }
}
