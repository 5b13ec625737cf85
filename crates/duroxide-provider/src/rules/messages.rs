//! How messages reach an inbox: starts, messages that come too early or too late, and cancels.

use std::time::Duration;

use duroxide_core::protection::Protection;
use duroxide_core::{
    Columns, INITIAL_EXECUTION_ID, ItemKind, Route, WithoutInstance, columns_of, limits,
    reply_to_colliding_start, start_fingerprint,
};

use super::changes::{AdmittedEarly, EarlyMessage, InboxRow, PulledBack};
use super::encoded::EncodedItem;
use super::execution_row::ExecutionRow;
use super::instance_row::{CANCELLED_WHILE_LOCKED, InstanceRow, Pending};
use super::values::{Ms, NOT_PINNED, after, count, to_column};
use super::wanted::{Early, Stop};
use super::{Fault, Rows};
use crate::outcome::{Placed, SendOutcome};
use crate::status_code::Status;

/// What happens to an event for an inbox that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FullInbox {
    /// A client is told.
    Refuse,
    /// What a turn sends always finds room, like completions, timers and cancels: only clients can fill an
    /// inbox without end.
    Admit,
}

/// What a start did.
pub(super) enum Start {
    Created,
    /// Nothing; the reply is for the parent that asked for it, if one did.
    IdTaken {
        reply: Option<Box<EncodedItem>>,
    },
}

impl Rows {
    /// Takes a checked message to where it belongs: an inbox, the early messages, or nowhere.
    pub(super) fn deliver(
        &mut self,
        item: &EncodedItem,
        delay: Option<Duration>,
        full: FullInbox,
    ) -> Result<Placed, Stop> {
        if item.kind() == ItemKind::Start {
            return match self.start(item, delay)? {
                Start::Created => Ok(Placed::Started),
                Start::IdTaken { reply } => {
                    if let Some(reply) = reply {
                        let _outcome = self.deliver_message(&reply, None, FullInbox::Admit)?;
                    }
                    Ok(Placed::IdTaken)
                }
            };
        }
        self.deliver_message(item, delay, full).map(Placed::Message)
    }

    fn deliver_message(
        &mut self,
        item: &EncodedItem,
        delay: Option<Duration>,
        full: FullInbox,
    ) -> Result<SendOutcome, Stop> {
        let columns = columns_of(&item.item);
        let visible = Visible::new(self.now, &columns, delay);
        let Some(key) = self.key_of(columns.instance)? else {
            return match columns.kind.without_instance() {
                WithoutInstance::Keep => {
                    self.keep_early(&columns, &item.json, visible.at(self.now))?;
                    Ok(SendOutcome::Kept)
                }
                WithoutInstance::Drop | WithoutInstance::Create => {
                    self.call.effects.dropped_unknown += 1;
                    Ok(SendOutcome::NotFound)
                }
            };
        };
        let row = self.loaded(key)?;
        if row.is_ended() {
            return self.arrive_late(key, &columns, &item.json, full);
        }
        if full == FullInbox::Refuse && columns.kind == ItemKind::Event {
            check_room(columns.instance, row.inbox_count)?;
        }
        self.put_message(key, &columns, &item.json, visible)?;
        Ok(SendOutcome::Delivered)
    }

    /// Puts a message into an inbox.
    pub(super) fn put_message(
        &mut self,
        key: i64,
        columns: &Columns<'_>,
        json: &str,
        visible: Visible,
    ) -> Result<(), Stop> {
        let now = self.now;
        let is_cancel = columns.kind == ItemKind::Cancel;
        let ready_at = match visible {
            Visible::AtOnce if is_cancel => self.ahead_of_deep_inbox(key, now)?,
            Visible::AtOnce => now,
            Visible::Delayed(at) | Visible::At(at) => at,
        };
        let row = self.instance_mut(key)?;
        // In its order, whatever the clock says.
        let in_order = visible == Visible::AtOnce && ready_at == now;
        let visible_at = if in_order { row.next_arrival(now) } else { ready_at };
        let position = row.next_position;
        row.inbox_count = row.inbox_count.saturating_add(1);
        row.next_position = row.next_position.saturating_add(1);
        row.pending.queue = true;
        row.pending.added += 1;
        row.pending.first_added =
            Some(row.pending.first_added.map_or(visible_at, |first| first.min(visible_at)));
        let (locked, backs_off) = (row.lock.is_some(), row.not_before != 0);
        if is_cancel {
            row.note_cancel();
        }
        let message = InboxRow::new(key, visible_at, position, columns, json);
        self.call.changes.inbox.push(InboxRow { delayed: visible.is_delayed(), ..message });
        let row = self.instance_mut(key)?;
        if is_cancel && locked {
            row.not_before = CANCELLED_WHILE_LOCKED;
        } else if is_cancel && backs_off {
            row.not_before = 0;
            self.recompute_ready_at(key)?;
        } else if !locked {
            // With what is pulled back it is ready at once, whatever comes now.
            let ready_at = if self.pull_back(key)? { now } else { ready_at };
            let row = self.instance_mut(key)?;
            let ready_at = ready_at.max(row.not_before);
            row.ready_at = Some(row.ready_at.map_or(ready_at, |sooner| sooner.min(ready_at)));
            self.call.effects.turn_ready(ready_at);
        }
        Ok(())
    }

    /// Where a cancel stands: ahead of all others if more messages wait than one fetch takes.
    fn ahead_of_deep_inbox(&self, key: i64, visible_at: Ms) -> Result<Ms, Stop> {
        if !self.is_inbox_deep(key)? {
            return Ok(visible_at);
        }
        let first = self.first_message(key)?;
        Ok(first.map_or(visible_at, |first| visible_at.min(first.saturating_sub(1))))
    }

    /// Whether as much waits as one fetch takes, or more. One message alone is no more than a turn may have in its hands.
    fn is_inbox_deep(&self, key: i64) -> Result<bool, Stop> {
        let row = self.loaded(key)?;
        if row.inbox_count >= count(limits::MAX_MESSAGES_PER_FETCH) {
            return Ok(true);
        }
        if row.inbox_count < 2 {
            return Ok(false);
        }
        let stored = if row.inbox_count == row.pending.added { 0 } else { self.inbox_bytes(key)? };
        let added = self.added_messages(key).map(|row| row.json.len()).sum();
        Ok(stored.saturating_add(count(added)) > count(limits::MAX_MESSAGE_BYTES_PER_FETCH))
    }

    /// The messages that the group adds to an inbox.
    pub(super) fn added_messages(&self, key: i64) -> impl Iterator<Item = &InboxRow> {
        let before = self.done.changes.inbox.iter();
        before.chain(&self.call.changes.inbox).filter(move |row| row.key == key)
    }

    /// Recomputes when an unlocked instance is ready, from the messages that are in its inbox.
    pub(super) fn recompute_ready_at(&mut self, key: i64) -> Result<(), Stop> {
        self.pull_back(key)?;
        let waiting = self.loaded(key)?.inbox_count;
        let first = if waiting == 0 { None } else { self.first_message(key)? };
        let row = self.instance_mut(key)?;
        row.ready_at = first.map(|visible_at| visible_at.max(row.not_before));
        row.pending.queue = true;
        if let Some(ready_at) = row.ready_at {
            self.call.effects.turn_ready(ready_at);
        }
        Ok(())
    }

    /// Makes messages visible that came while the clock was ahead; whether there may be some. The instance must not be
    /// locked: a lock covers messages by their times.
    fn pull_back(&mut self, key: i64) -> Result<bool, Stop> {
        let (now, until) = (self.now, self.loaded(key)?.last_arrival);
        if until <= now || self.loaded(key)?.inbox_count == 0 {
            return Ok(false);
        }
        let pulled = PulledBack { key, now, until };
        self.call.changes.inbox.iter_mut().for_each(|row| pulled.apply(row));
        self.call.changes.pulled_back.push(pulled);
        let mut added = self.added_messages(key).cloned().collect::<Vec<_>>();
        added.iter_mut().for_each(|row| pulled.apply(row));
        let row = self.instance_mut(key)?;
        row.last_arrival = now;
        row.pending.first_added = added.iter().map(|row| row.visible_at).min();
        row.pending.first_stored = None;
        row.pending.first_left = None;
        Ok(true)
    }

    /// Creates the instance of a start. A start of an id that exists changes nothing.
    pub(super) fn start(&mut self, start: &EncodedItem, delay: Option<Duration>) -> Result<Start, Stop> {
        let columns = columns_of(&start.item);
        if let Some(key) = self.key_of(columns.instance)? {
            let parent = self.loaded(key)?.parent();
            let reply = reply_to_colliding_start(&start.item, parent.as_ref())
                .filter(|_| !Protection::CollisionTellsParent.is_off());
            return Ok(Start::IdTaken { reply: reply.map(EncodedItem::new).transpose()?.map(Box::new) });
        }
        self.check_reserved(columns.instance)?;
        self.create_instance(start, Visible::new(self.now, &columns, delay))?;
        Ok(Start::Created)
    }

    fn create_instance(&mut self, start: &EncodedItem, visible: Visible) -> Result<(), Stop> {
        let columns = &columns_of(&start.item);
        let visible_at = visible.at(self.now);
        let key = self.next_key()?;
        let execution_id = columns.execution_id.unwrap_or(INITIAL_EXECUTION_ID);
        let parent = columns.parent.as_ref();
        let early = self.early(columns.instance).map_or(0, |early| early.count);
        self.create(InstanceRow {
            key: key.key,
            revision: 0,
            instance: columns.instance.to_string(),
            incarnation: key.incarnation,
            created_at: self.now,
            name: columns.name.unwrap_or_default().to_string(),
            version: columns.version.unwrap_or_default().to_string(),
            parent_instance: parent.map(|link| link.instance.clone()),
            parent_execution_id: parent.map(|link| to_column(link.execution_id)),
            parent_event_id: parent.map(|link| to_column(link.event_id)),
            status: Status::Running,
            updated_at: self.now,
            current_execution_id: execution_id,
            pinned_key: NOT_PINNED,
            has_kv: false,
            inbox_count: early.saturating_add(1),
            next_position: early.saturating_add(2),
            not_before: 0,
            ready_at: Some(visible_at),
            suspect: false,
            suspect_before: false,
            lock: None,
            cancelled: false,
            bounced: false,
            last_arrival: if visible == Visible::AtOnce { visible_at } else { 0 },
            pending: Pending {
                queue: true,
                route: Some(Route::new(columns.name.unwrap_or_default(), columns.version)),
                created: true,
                first_stored: Some(None),
                first_added: Some(visible_at),
                added: early.saturating_add(1),
                first_input: start_fingerprint(&start.item).map(u64::cast_signed),
                ..Pending::default()
            },
        });
        let key = key.key;
        let message = InboxRow::new(key, visible_at, 1, columns, &start.json);
        self.call.changes.inbox.push(InboxRow { delayed: visible.is_delayed(), ..message });
        self.put_execution(key, execution_id, ExecutionRow::default());
        if early > 0 {
            self.admit_early(columns.instance, key, visible_at);
        }
        self.call.effects.turn_ready(visible_at);
        Ok(())
    }

    fn admit_early(&mut self, instance: &str, key: i64, start_at: Ms) {
        self.call.changes.expire_early = true;
        self.call.changes.admitted_early.push(AdmittedEarly {
            instance: instance.to_string(),
            key,
            start_at,
            first_position: 2,
        });
        self.set_early(instance, None);
    }

    /// Keeps a message for the start of its instance.
    fn keep_early(&mut self, columns: &Columns<'_>, json: &str, visible_at: Ms) -> Result<(), Stop> {
        let instance = columns.instance;
        if Protection::EarlyEventsAreKept.is_off() {
            return Ok(());
        }
        self.check_reserved(instance)?;
        let mut early = self.early(instance).unwrap_or(Early { last: 0, count: 0 });
        check_room(instance, early.count)?;
        early.last = early.last.saturating_add(1);
        early.count = early.count.saturating_add(1);
        self.set_early(instance, Some(early));
        self.call.changes.early.push(EarlyMessage {
            instance: instance.to_string(),
            position: early.last,
            visible_at,
            json: json.to_string(),
        });
        // What was kept for others may have expired.
        self.call.changes.expire_early = true;
        Ok(())
    }
}

/// From when on a message is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visible {
    /// As soon as it is here, after those that came before.
    AtOnce,
    /// After a delay, which ends then.
    Delayed(Ms),
    /// From its own time on: a timer, or what goes before all others.
    At(Ms),
}

impl Visible {
    fn new(now: Ms, columns: &Columns<'_>, delay: Option<Duration>) -> Self {
        match delay {
            Some(delay) => Self::Delayed(after(now, delay)),
            None => Self::without_delay(columns),
        }
    }

    pub(super) fn without_delay(columns: &Columns<'_>) -> Self {
        columns.due_ms.map_or(Self::AtOnce, |due_ms| Self::At(to_column(due_ms)))
    }

    fn is_delayed(self) -> bool {
        matches!(self, Self::Delayed(_))
    }

    fn at(self, now: Ms) -> Ms {
        match self {
            Self::AtOnce => now,
            Self::Delayed(at) | Self::At(at) => at,
        }
    }
}

pub(super) fn check_room(instance: &str, waiting: i64) -> Result<(), Fault> {
    let limit = limits::MAX_INBOX_MESSAGES;
    if usize::try_from(waiting).unwrap_or(0) >= limit {
        return Err(Fault::Invalid(format!("the inbox of '{instance}' is full ({limit} messages)")));
    }
    Ok(())
}
