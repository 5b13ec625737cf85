//! Whether what a history waits for is really queued.

use std::collections::BTreeSet;

use super::{Event, ItemKind, OpenWork, WorkItem, columns_of, open_work};

/// What the queues hold for an instance, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueuedFor {
    /// The current execution.
    pub execution_id: u64,
    /// Its last event.
    pub last_event_id: u64,
    /// Whether a turn is under way: then nothing can be said.
    pub is_locked: bool,
    /// The activities in the worker queue, by execution and schedule.
    pub work: BTreeSet<(u64, u64)>,
    /// The messages in its inbox.
    pub messages: Vec<QueuedMessage>,
}

/// A message in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Its kind.
    pub kind: ItemKind,
    /// The execution that it names, if it does.
    pub execution_id: Option<u64>,
    /// The schedule that it answers, if it does.
    pub event_id: Option<u64>,
}

/// What is wrong with an instance according to its history and its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// Activities and timers that were scheduled, have no result, and are queued nowhere.
    pub missing: Vec<WorkItem>,
    /// The starts of children whose results are not in the inbox; only the children themselves tell more.
    pub children: Vec<WorkItem>,
    /// Work items, by execution and schedule, that nobody waits for.
    pub orphans: Vec<(u64, u64)>,
    /// It waits for nothing, and nothing is on its way to it.
    pub waits_for_nothing: bool,
    /// It has not begun, and nothing will begin it.
    pub never_starts: bool,
}

/// Compares a history with the queues. `history` must be that of `queued.execution_id` up to `queued.last_event_id`.
pub fn diagnose(history: &[Event], queued: &QueuedFor) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    if queued.is_locked || history.last().is_some_and(Event::is_terminal) {
        return diagnosis;
    }
    if history.is_empty() {
        let begins =
            |message: &QueuedMessage| matches!(message.kind, ItemKind::Start | ItemKind::ContinueAsNew);
        diagnosis.never_starts = !queued.messages.iter().any(begins);
        return diagnosis;
    }
    let open = open_work(history);
    let answered = answers(queued, ItemKind::Completion);
    let timers = answers(queued, ItemKind::Timer);
    let nothing_open = is_empty(&open);
    let wanted: BTreeSet<(u64, u64)> = open.activities.iter().filter_map(key).collect();
    diagnosis.orphans = queued.work.difference(&wanted).copied().collect();
    let missing_work = |item: &WorkItem| {
        key(item).is_some_and(|key| !queued.work.contains(&key) && !answered.contains(&key))
    };
    diagnosis.missing.extend(open.activities.into_iter().filter(missing_work));
    let missing_timer = |item: &WorkItem| key(item).is_some_and(|key| !timers.contains(&key));
    diagnosis.missing.extend(open.timers.into_iter().filter(missing_timer));
    let unanswered = |start: &WorkItem| {
        let parent = columns_of(start).parent;
        parent.is_some_and(|link| !answered.contains(&(link.execution_id, link.event_id)))
    };
    diagnosis.children.extend(open.children.into_iter().filter(unanswered));
    diagnosis.waits_for_nothing = nothing_open && queued.messages.is_empty();
    diagnosis
}

fn is_empty(open: &OpenWork) -> bool {
    open.activities.is_empty() && open.timers.is_empty() && open.children.is_empty() && open.waits == 0
}

fn key(item: &WorkItem) -> Option<(u64, u64)> {
    let columns = columns_of(item);
    columns.execution_id.zip(columns.event_id)
}

/// The schedules that messages of a kind answer.
fn answers(queued: &QueuedFor, kind: ItemKind) -> BTreeSet<(u64, u64)> {
    let of_kind = queued.messages.iter().filter(|message| message.kind == kind);
    of_kind.filter_map(|message| message.execution_id.zip(message.event_id)).collect()
}
