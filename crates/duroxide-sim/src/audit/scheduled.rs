//! Every scheduled thing is queued, running or done.

use std::collections::BTreeSet;

use duroxide::providers::WorkItem;
use duroxide::providers::memory::{InstanceSnapshot, Snapshot, Stored};
use duroxide::{Event, EventKind};
use duroxide_core::{ItemKind, ParentLink, columns_of};

use super::{Findings, events};

pub(super) fn check(snapshot: &Snapshot, findings: &mut Findings) {
    let work: BTreeSet<(&str, u64, u64)> =
        snapshot.work.iter().map(|row| (row.instance.as_str(), row.execution_id, row.activity_id)).collect();
    for (id, instance) in &snapshot.instances {
        if instance.status != "Running" {
            if !instance.inbox.is_empty() {
                findings.push(format!("{id}: has ended and still has an inbox"));
            }
            continue;
        }
        let inbox = Inbox::of(instance);
        let current = instance.current_execution_id;
        let events = instance.executions.get(&current).map(events).unwrap_or_default();
        if events.is_empty() && !inbox.has_start {
            findings.push(format!("{id}/{current}: has not begun and has no start in its inbox"));
        }
        for event in open_schedules(&events) {
            let schedule = event.event_id;
            let answered = inbox.answers.contains(&(current, schedule));
            let fault = if answered {
                None
            } else if let EventKind::TimerCreated { .. } = &event.kind {
                Some("a timer that will never fire")
            } else if let EventKind::SubOrchestrationScheduled { instance: child, .. } = &event.kind {
                let link = ParentLink { instance: id.clone(), execution_id: current, event_id: schedule };
                let child = snapshot.instances.get(child);
                let runs = child
                    .is_some_and(|child| child.status == "Running" && child.parent.as_ref() == Some(&link));
                (!runs).then_some("a child that neither runs nor has answered")
            } else {
                let queued = work.contains(&(id.as_str(), current, schedule));
                (!queued).then_some("an activity that is neither queued nor done")
            };
            if let Some(fault) = fault {
                findings.push(format!("{id}/{current}: event {schedule} is {fault}"));
            }
        }
    }
}

/// What waits in an inbox, by what it answers.
struct Inbox {
    has_start: bool,
    answers: BTreeSet<(u64, u64)>,
}

impl Inbox {
    fn of(instance: &InstanceSnapshot) -> Self {
        let mut inbox = Self { has_start: false, answers: BTreeSet::new() };
        for message in &instance.inbox {
            let Stored::Value(item) = &message.item else { continue };
            let item: &WorkItem = item;
            let columns = columns_of(item);
            match columns.kind {
                ItemKind::Start | ItemKind::ContinueAsNew => inbox.has_start = true,
                ItemKind::Completion | ItemKind::Timer => {
                    inbox.answers.extend(columns.execution_id.zip(columns.event_id));
                }
                ItemKind::Activity | ItemKind::Note | ItemKind::Event | ItemKind::Cancel => {}
            }
        }
        inbox
    }
}

/// Activities, timers and children that have neither been answered nor given up.
fn open_schedules<'a>(events: &[&'a Event]) -> Vec<&'a Event> {
    let answered: BTreeSet<u64> = events
        .iter()
        // These name a schedule too, but do not answer it.
        .filter(|event| {
            !matches!(
                event.kind,
                EventKind::VersionRequested { .. }
                    | EventKind::ActivityDeadlinesRecorded { .. }
                    | EventKind::ActivityBegun
            )
        })
        .filter_map(|event| event.source_event_id)
        .collect();
    let is_schedule = |event: &Event| {
        matches!(
            event.kind,
            EventKind::ActivityScheduled { .. }
                | EventKind::TimerCreated { .. }
                | EventKind::SubOrchestrationScheduled { .. }
        )
    };
    let open = events.iter().filter(|event| is_schedule(event) && !answered.contains(&event.event_id));
    open.copied().collect()
}
