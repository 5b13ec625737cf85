//! Nothing acknowledged is missing.

use std::collections::{BTreeMap, BTreeSet};

use duroxide::providers::WorkItem;
use duroxide::providers::memory::{InstanceSnapshot, Snapshot, Stored};
use duroxide::{Event, EventKind};

use super::{Findings, events};
use crate::generate::Send;
use crate::ledger::Ledger;

pub(super) fn check(snapshot: &Snapshot, ledger: &Ledger, findings: &mut Findings) {
    check_histories(snapshot, ledger, findings);
    check_completions(snapshot, ledger, findings);
    let mut arrived: BTreeMap<&str, BTreeSet<Send>> = BTreeMap::new();
    for acknowledged in &ledger.acknowledged {
        let id = acknowledged.instance.as_str();
        if ledger.is_deletable(id) || ledger.prunable.contains(id) {
            continue;
        }
        let Some(instance) = snapshot.instances.get(id) else {
            let early = snapshot.early.get(id).into_iter().flatten().any(|item| is(item, &acknowledged.what));
            let may_be_gone = matches!(acknowledged.what, Send::Cancel { .. });
            if !early && !may_be_gone {
                findings.push(format!("{id}: {:?} was acknowledged and is gone", acknowledged.what));
            }
            continue;
        };
        if instance.status != "Running" {
            continue;
        }
        // A cancel may have come before the instance.
        let needed = match &acknowledged.what {
            Send::Start { .. } | Send::Cancel { .. } | Send::Delete | Send::DeleteFinished | Send::Prune => {
                false
            }
            Send::Raise { .. } | Send::Enqueue { .. } => true,
        };
        let arrived = arrived.entry(id).or_insert_with(|| arrivals(instance));
        if needed && !arrived.contains(&acknowledged.what) {
            findings.push(format!("{id}: {:?} was acknowledged and is gone", acknowledged.what));
        }
    }
}

fn is(item: &WorkItem, what: &Send) -> bool {
    sent(item).as_ref() == Some(what)
}

fn sent(item: &WorkItem) -> Option<Send> {
    match item {
        WorkItem::ExternalRaised { name, data, .. } => {
            Some(Send::Raise { name: name.clone(), data: data.clone() })
        }
        WorkItem::QueueMessage { name, data, .. } => {
            Some(Send::Enqueue { queue: name.clone(), data: data.clone() })
        }
        WorkItem::StartOrchestration { .. }
        | WorkItem::ContinueAsNew { .. }
        | WorkItem::ActivityExecute { .. }
        | WorkItem::ActivityExecuteWithin { .. }
        | WorkItem::ActivityBegun { .. }
        | WorkItem::ActivityStopped { .. }
        | WorkItem::Redriven { .. }
        | WorkItem::Repaired { .. }
        | WorkItem::ActivityCompleted { .. }
        | WorkItem::ActivityFailed { .. }
        | WorkItem::ActivityErrored { .. }
        | WorkItem::TimerFired { .. }
        | WorkItem::CancelInstance { .. }
        | WorkItem::SubOrchCompleted { .. }
        | WorkItem::SubOrchFailed { .. }
        | WorkItem::SubOrchErrored { .. } => None,
    }
}

/// The events and messages that an instance has got, read or not.
fn arrivals(instance: &InstanceSnapshot) -> BTreeSet<Send> {
    let mut arrived = BTreeSet::new();
    for message in &instance.inbox {
        if let Stored::Value(item) = &message.item {
            arrived.extend(sent(item));
        }
    }
    for execution in instance.executions.values() {
        for event in events(execution) {
            if let EventKind::ExternalEvent { name, data } = &event.kind {
                arrived.insert(Send::Raise { name: name.clone(), data: data.clone() });
            } else if let EventKind::QueueEventDelivered { name, data } = &event.kind {
                arrived.insert(Send::Enqueue { queue: name.clone(), data: data.clone() });
            }
        }
    }
    arrived
}

/// The store holds exactly the histories whose commits it acknowledged.
fn check_histories(snapshot: &Snapshot, ledger: &Ledger, findings: &mut Findings) {
    for ((id, execution_id), promised) in &ledger.histories {
        if ledger.is_deletable(id) {
            continue;
        }
        let instance = snapshot.instances.get(id);
        let execution = instance.and_then(|instance| instance.executions.get(execution_id));
        let is_old = instance.is_some_and(|instance| instance.current_execution_id != *execution_id);
        if execution.is_none() && is_old && ledger.prunable.contains(id) {
            continue;
        }
        let stored: Vec<&Event> = execution.map(events).unwrap_or_default();
        if !promised.iter().eq(stored.iter().copied()) {
            let differs = promised.iter().zip(&stored).take_while(|(one, other)| one == *other).count() + 1;
            findings.push(format!(
                "{id}/{execution_id}: {} events were acknowledged, {} are stored; they differ from event {differs} on",
                promised.len(),
                stored.len(),
            ));
        }
    }
}

/// A recorded completion is the one that was acknowledged.
fn check_completions(snapshot: &Snapshot, ledger: &Ledger, findings: &mut Findings) {
    for ((id, execution_id, schedule), completion) in &ledger.completions {
        // Redriven executions have the schedule as well; what was poisoned has its real result in the last of them.
        let last = (*execution_id..).take_while(|next| ledger.is_redriven(id, next + 1)).last();
        let last = last.map_or(*execution_id, |before_last| before_last + 1);
        let execution = snapshot.instances.get(id).and_then(|instance| instance.executions.get(&last));
        for event in execution.map(events).unwrap_or_default() {
            if event.source_event_id != Some(*schedule) {
                continue;
            }
            let agrees = if let EventKind::ActivityCompleted { result } = &event.kind {
                matches!(completion, WorkItem::ActivityCompleted { result: sent, .. } if sent == result)
            } else if let EventKind::ActivityFailed { details } = &event.kind {
                matches!(
                    completion,
                    WorkItem::ActivityFailed { details: sent, .. } | WorkItem::ActivityErrored { details: sent, .. }
                        if sent == details
                )
            } else if let EventKind::ErrorRecorded { error, .. } = &event.kind {
                matches!(completion, WorkItem::ActivityErrored { error: sent, .. } if sent == error)
            } else {
                true
            };
            if !agrees {
                findings.push(format!(
                    "{id}/{execution_id}: activity {schedule} has another result than it gave"
                ));
            }
        }
    }
}
