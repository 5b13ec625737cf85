//! Every scheduled thing is queued, running or done, and no child outlives the parent that waits for it.

use std::collections::BTreeSet;

use duroxide::providers::WorkItem;
use duroxide::providers::memory::{Inspection, Snapshot};
use duroxide::{Event, EventKind};
use duroxide_core::{ItemKind, ParentLink, columns_of};

use super::{Findings, events};
use crate::world::World;

pub(super) fn check(world: &World, snapshot: &Snapshot, findings: &mut Findings) {
    for id in snapshot.instances.keys() {
        world.store.inspect(id, |inspection| check_one(id, inspection, findings));
    }
    check_orphans(snapshot, findings);
}

/// What one instance has scheduled.
pub(super) fn check_one(id: &str, inspection: &Inspection<'_>, findings: &mut Findings) {
    if inspection.status != "Running" {
        if !inspection.inbox.is_empty() {
            findings.push(format!("{id}: has ended and still has an inbox"));
        }
        return;
    }
    let inbox = Inbox::of(&inspection.inbox);
    let current = inspection.current_execution_id;
    if inspection.events.is_empty() && !inbox.has_start {
        findings.push(format!("{id}/{current}: has not begun and has no start in its inbox"));
    }
    for event in open_schedules(&inspection.events) {
        // A redriven execution has schedules of those before it, and answers may name either.
        let (schedule, by) = (event.event_id, event.execution_id);
        let answered =
            inbox.answers.contains(&(current, schedule)) || inbox.answers.contains(&(by, schedule));
        let fault = if answered {
            None
        } else if let EventKind::TimerCreated { .. } = &event.kind {
            Some("a timer that will never fire")
        } else if let Some(child) = event.child_instance() {
            let link = ParentLink { instance: id.to_string(), execution_id: by, event_id: schedule };
            let mut running = inspection.running_children.iter();
            let runs = running.any(|(running, waiting)| *running == child && *waiting == link);
            (!runs).then_some("a child that neither runs nor has answered")
        } else {
            let queued = inspection.queued.contains(&(by, schedule));
            (!queued).then_some("an activity that is neither queued nor done")
        };
        if let Some(fault) = fault {
            findings.push(format!("{id}/{current}: event {schedule} is {fault}"));
        }
    }
}

/// A child whose parent does not wait for it any more has been told to end.
fn check_orphans(snapshot: &Snapshot, findings: &mut Findings) {
    for (id, instance) in &snapshot.instances {
        let Some(link) = instance.parent.as_ref().filter(|_| instance.status == "Running") else { continue };
        let Some(parent) = snapshot.instances.get(&link.instance) else { continue };
        let current = parent.executions.get(&parent.current_execution_id);
        let is_own =
            |event: &&Event| event.event_id == link.event_id && event.execution_id == link.execution_id;
        let goes_on = current.is_some_and(|current| events(current).iter().any(is_own));
        let waits =
            parent.status == "Running" && (parent.current_execution_id == link.execution_id || goes_on);
        let told = instance.inbox.iter().any(|message| message.kind == ItemKind::Cancel);
        if !waits && !told {
            findings.push(format!("{id}: is an orphan, its parent {} has gone on or ended", link.instance));
        }
    }
}

/// What waits in an inbox, by what it answers.
struct Inbox {
    has_start: bool,
    answers: BTreeSet<(u64, u64)>,
}

impl Inbox {
    fn of(messages: &[&WorkItem]) -> Self {
        let mut inbox = Self { has_start: false, answers: BTreeSet::new() };
        for item in messages {
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
                EventKind::ActivityScheduled { .. }
                    | EventKind::VersionRequested { .. }
                    | EventKind::ActivityDeadlinesRecorded { .. }
                    | EventKind::ActivityBegun
                    | EventKind::ErrorRecorded { .. }
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
