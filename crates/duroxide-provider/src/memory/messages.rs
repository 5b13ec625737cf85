//! How messages reach an inbox: starts, messages that come too early or too late, and cancels.

use std::time::Duration;

use duroxide_core::{
    FirstInput, ItemKind, WithoutInstance, WorkItem, columns_of, limits, reply_to_colliding_start,
    start_fingerprint, test_fault,
};

use super::rows::{EarlyRow, InstanceRow, MessageKey, MessageRow, Ms, NewInstance, SetAside, Stored, to_ms};
use super::state::{State, check_instance, invalid};
use crate::clock::millis;
use crate::metric;
use crate::outcome::Placed;
use crate::{Enqueued, ProviderError, SendOutcome, StartOutcome};

/// Why a message was dropped, as a label of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    UnknownInstance,
    FinishedInstance,
    Expired,
}

impl DropReason {
    fn label(self) -> &'static str {
        match self {
            Self::UnknownInstance => "unknown_instance",
            Self::FinishedInstance => "finished_instance",
            Self::Expired => "expired",
        }
    }
}

/// Checks that an item belongs into an inbox.
pub(super) fn check_message(operation: &str, item: &WorkItem) -> Result<(), ProviderError> {
    check_instance(operation, item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Err(invalid(operation, "an activity does not belong into an inbox")),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Ok(()),
    }
}

/// From when on a message is visible.
fn visible_at(now: Ms, item: &WorkItem, delay: Option<Duration>) -> Ms {
    match (delay, columns_of(item).due_ms) {
        (Some(delay), _) => now.saturating_add(to_ms(millis(delay))),
        (None, Some(due_ms)) => to_ms(due_ms),
        (None, None) => now,
    }
}

impl State {
    pub(super) fn enqueue_for_orchestrator(
        &mut self,
        now: Ms,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        check_message(OPERATION, &item)?;
        // Only clients can fill an inbox without end, and they send events; a completion, a timer or a
        // cancel always finds room.
        if columns_of(&item).kind == ItemKind::Event {
            let instance = item.instance();
            let waiting = match self.instances.get(instance) {
                Some(row) if row.status.ends_instance() => row.kept.len(),
                Some(row) => row.inbox().len(),
                None => self.early.get(instance).map_or(0, std::collections::BTreeMap::len),
            };
            if waiting >= limits::MAX_INBOX_MESSAGES {
                let limit = limits::MAX_INBOX_MESSAGES;
                return Err(invalid(
                    OPERATION,
                    format!("the inbox of '{instance}' is full ({limit} messages)"),
                ));
            }
        }
        // Read before the item is given away. A start that finds its id taken changes nothing of it.
        let is_start = columns_of(&item).kind == ItemKind::Start;
        let existing = if is_start { self.existing(&item) } else { None };
        Ok(match self.deliver(now, item, delay) {
            Placed::Message(outcome) => Enqueued::Message(outcome),
            Placed::Started | Placed::IdTaken => Enqueued::Start(existing.unwrap_or(StartOutcome::Started)),
        })
    }

    /// What a start is told of the instance that has its id.
    fn existing(&self, start: &WorkItem) -> Option<StartOutcome> {
        let row = self.instances.get(start.instance())?;
        let first = FirstInput { fingerprint: row.first_input, ..FirstInput::default() };
        let (orchestration, same_input) = (row.name.clone(), first.is_of(start));
        Some(StartOutcome::AlreadyExists { orchestration, same_input })
    }

    /// Takes a checked message to where it belongs: an inbox, the early messages, or nowhere.
    pub(super) fn deliver(&mut self, now: Ms, item: WorkItem, delay: Option<Duration>) -> Placed {
        let visible_at = visible_at(now, &item, delay);
        let columns = columns_of(&item);
        let kind = columns.kind;
        match self.instances.get(columns.instance) {
            Some(_) if kind == ItemKind::Start => {
                self.collide(now, &item);
                Placed::IdTaken
            }
            Some(row) if row.status.ends_instance() => Placed::Message(self.arrive_late(item)),
            Some(row) => {
                let ahead = kind == ItemKind::Cancel && visible_at <= now;
                let visible_at = if ahead { row.ahead_of_deep_inbox(visible_at) } else { visible_at };
                self.put_message(visible_at, item);
                Placed::Message(SendOutcome::Delivered)
            }
            None => match kind.without_instance() {
                WithoutInstance::Create => {
                    self.create_instance(now, visible_at, item);
                    Placed::Started
                }
                WithoutInstance::Keep => {
                    self.keep_early(now, visible_at, item);
                    Placed::Message(SendOutcome::Kept)
                }
                WithoutInstance::Drop => {
                    self.count_dropped(DropReason::UnknownInstance, 1);
                    Placed::Message(SendOutcome::NotFound)
                }
            },
        }
    }

    /// A message for an instance that has ended.
    fn arrive_late(&mut self, item: WorkItem) -> SendOutcome {
        let columns = columns_of(&item);
        match self.instances.get_mut(columns.instance) {
            Some(row) if row.keeps_since_failure(columns.kind) => {
                row.kept.push(Stored::Value(item));
                SendOutcome::Kept
            }
            Some(_) | None => {
                self.count_dropped(DropReason::FinishedInstance, 1);
                SendOutcome::Ended
            }
        }
    }

    /// Puts a message into the inbox of an instance that exists.
    pub(super) fn put_message(&mut self, visible_at: Ms, item: WorkItem) {
        let position = self.next_number();
        let columns = columns_of(&item);
        let instance = columns.instance.to_string();
        let Some(row) = self.instances.get_mut(&instance) else { return };
        if columns.kind == ItemKind::Cancel {
            row.not_before = 0;
            if let Some(lock) = &mut row.lock {
                lock.cancelled = true;
            }
        }
        let message = MessageRow {
            kind: columns.kind,
            execution_id: columns.execution_id,
            event_id: columns.event_id,
            attempts: 0,
            delayed: visible_at > self.now,
            item: Stored::Value(item),
        };
        row.put_message(MessageKey { visible_at, position }, message);
        self.reindex_turn(&instance);
    }

    /// A start of an id that exists changes nothing; a parent that asked for it is told.
    fn collide(&mut self, now: Ms, start: &WorkItem) {
        let existing_parent = self.instances.get(start.instance()).and_then(InstanceRow::parent);
        test_fault!(CollisionTellsParent => return);
        if let Some(reply) = reply_to_colliding_start(start, existing_parent.as_ref()) {
            self.deliver(now, reply, None);
        }
    }

    fn create_instance(&mut self, now: Ms, visible_at: Ms, start: WorkItem) {
        self.drop_expired_early(now);
        let (seq, incarnation) = (self.next_number(), self.next_random());
        let columns = columns_of(&start);
        let instance = columns.instance.to_string();
        if let Some(parent) = &columns.parent {
            self.children.entry(parent.instance.clone()).or_default().insert(seq);
        }
        let row = InstanceRow::created(
            now,
            NewInstance {
                seq,
                incarnation,
                name: columns.name.unwrap_or_default(),
                version: columns.version.unwrap_or_default(),
                execution_id: columns.execution_id.unwrap_or(duroxide_core::INITIAL_EXECUTION_ID),
                parent: columns.parent,
                first_input: start_fingerprint(&start),
            },
        );
        self.instances.insert(instance.clone(), row);
        self.created.insert(seq, instance.clone());
        self.by_time.insert((now, seq));
        self.wakes.instances.insert(instance.clone());
        self.put_message(visible_at, start);
        for (position, early) in self.early.remove(&instance).unwrap_or_default() {
            self.early_by_age.remove(&(early.kept_at, position));
            // Nothing is admitted before the start, and what has no delay in the order of its arrival.
            let delayed = early.visible_at > early.kept_at;
            self.put_message(if delayed { early.visible_at.max(visible_at) } else { visible_at }, early.item);
        }
    }

    fn keep_early(&mut self, now: Ms, visible_at: Ms, item: WorkItem) {
        test_fault!(EarlyEventsAreKept => return);
        self.drop_expired_early(now);
        let position = self.next_number();
        let instance = item.instance().to_string();
        self.early_by_age.insert((now, position), instance.clone());
        self.early.entry(instance).or_default().insert(position, EarlyRow { visible_at, kept_at: now, item });
    }

    fn drop_expired_early(&mut self, now: Ms) {
        let retention = to_ms(limits::EARLY_MESSAGE_RETENTION_MS);
        while let Some(oldest) = self.early_by_age.first_entry() {
            let (kept_at, position) = *oldest.key();
            if now.saturating_sub(kept_at) <= retention {
                return;
            }
            let instance = oldest.remove();
            if let Some(kept) = self.early.get_mut(&instance) {
                kept.remove(&position);
                if kept.is_empty() {
                    self.early.remove(&instance);
                }
            }
            self.count_dropped(DropReason::Expired, 1);
        }
    }

    pub(super) fn count_dropped(&mut self, reason: DropReason, messages: usize) {
        if messages == 0 {
            return;
        }
        let messages = u64::try_from(messages).unwrap_or(u64::MAX);
        match reason {
            DropReason::UnknownInstance | DropReason::FinishedInstance => self.counters.dropped += messages,
            DropReason::Expired => self.counters.expired += messages,
        }
        metric::messages_dropped(reason.label()).increment(messages);
    }

    pub(super) fn keep_aside(&mut self, instance: &str, kind: ItemKind, cause: &str) {
        self.counters.set_aside += 1;
        metric::messages_set_aside().increment(1);
        self.set_aside.push(SetAside { instance: instance.to_string(), kind, cause: cause.to_string() });
    }
}
