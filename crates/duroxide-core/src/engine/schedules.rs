//! What the execution has scheduled, by event id.

use std::sync::Arc;

use super::slot::Slot;
use super::turn::DropReason;

/// What kind of thing an event scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScheduleKind {
    Activity,
    Timer,
    Wait,
    Dequeue,
    Child,
}

impl ScheduleKind {
    /// The word that a nondeterminism message uses for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Wait => "event wait",
            Self::Dequeue => "queue wait",
            Self::Child => "suborchestration",
        }
    }
}

enum Entry {
    /// The event with this id scheduled nothing.
    Nothing,
    Open(ScheduleKind, Arc<Slot>),
    Completed(ScheduleKind),
    Cancelled(ScheduleKind),
}

/// What a completion finds.
pub(super) enum Found {
    /// A schedule that waits for it.
    Open,
    /// It is no longer wanted.
    Closed(DropReason),
    /// It is a schedule of another kind.
    OtherKind(ScheduleKind),
    /// There is no such schedule.
    Nothing,
}

/// A table indexed by event id: lookups cost the same at any length of history.
#[derive(Default)]
pub(super) struct Schedules {
    entries: Vec<Entry>,
    open: usize,
}

impl Schedules {
    pub(super) fn open(&mut self, event_id: u64, kind: ScheduleKind, slot: Arc<Slot>) {
        let index = index(event_id);
        while self.entries.len() <= index {
            self.entries.push(Entry::Nothing);
        }
        self.replace(event_id, Entry::Open(kind, slot));
    }

    /// Whether anything is open.
    pub(super) fn any_open(&self) -> bool {
        self.open > 0
    }

    fn replace(&mut self, event_id: u64, entry: Entry) {
        let now_open = matches!(entry, Entry::Open(..));
        let before = std::mem::replace(&mut self.entries[index(event_id)], entry);
        self.open += usize::from(now_open);
        self.open -= usize::from(matches!(before, Entry::Open(..)));
    }

    pub(super) fn find(&self, event_id: u64, kind: ScheduleKind) -> Found {
        match self.entries.get(index(event_id)) {
            None | Some(Entry::Nothing) => Found::Nothing,
            Some(Entry::Open(found, _) | Entry::Completed(found) | Entry::Cancelled(found))
                if *found != kind =>
            {
                Found::OtherKind(*found)
            }
            Some(Entry::Open(..)) => Found::Open,
            Some(Entry::Completed(_)) => Found::Closed(DropReason::Duplicate),
            Some(Entry::Cancelled(_)) => Found::Closed(DropReason::Cancelled),
        }
    }

    /// The kind of an open schedule.
    pub(super) fn open_kind(&self, event_id: u64) -> Option<ScheduleKind> {
        match self.entries.get(index(event_id)) {
            Some(Entry::Open(kind, _)) => Some(*kind),
            None | Some(Entry::Nothing | Entry::Completed(_) | Entry::Cancelled(_)) => None,
        }
    }

    /// The kind of a schedule that has its result.
    pub(super) fn completed_kind(&self, event_id: u64) -> Option<ScheduleKind> {
        match self.entries.get(index(event_id)) {
            Some(Entry::Completed(kind)) => Some(*kind),
            None | Some(Entry::Nothing | Entry::Open(..) | Entry::Cancelled(_)) => None,
        }
    }

    pub(super) fn complete(&mut self, event_id: u64, kind: ScheduleKind) {
        self.replace(event_id, Entry::Completed(kind));
    }

    pub(super) fn cancel(&mut self, event_id: u64, kind: ScheduleKind) {
        self.replace(event_id, Entry::Cancelled(kind));
    }

    /// The slot of an open schedule.
    pub(super) fn slot(&self, event_id: u64) -> Option<Arc<Slot>> {
        match self.entries.get(index(event_id)) {
            Some(Entry::Open(_, slot)) => Some(slot.clone()),
            None | Some(Entry::Nothing | Entry::Completed(_) | Entry::Cancelled(_)) => None,
        }
    }

    /// The open schedules of a kind, oldest first.
    pub(super) fn open_ids(&self, kind: ScheduleKind) -> Vec<u64> {
        (0u64..)
            .zip(&self.entries)
            .filter(|(_, entry)| matches!(entry, Entry::Open(open, _) if *open == kind))
            .map(|(id, _)| id)
            .collect()
    }
}

fn index(event_id: u64) -> usize {
    usize::try_from(event_id).unwrap_or(usize::MAX)
}
