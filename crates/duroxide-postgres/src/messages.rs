//! How messages reach an inbox: starts, messages that come too early or too late, and cancels.

use std::time::Duration;

use duroxide_core::{
    Columns, INITIAL_EXECUTION_ID, ItemKind, Route, WithoutInstance, columns_of, limits,
    reply_to_colliding_start, start_fingerprint,
};
use duroxide_provider::SendOutcome;
use duroxide_provider::support::Placed;

use crate::execution_row::ExecutionRow;
use crate::fault::Fault;
use crate::instance_row::{CANCELLED_WHILE_LOCKED, InstanceRow, Pending};
use crate::item::EncodedItem;
use crate::values::{Ms, NOT_PINNED, after, count, random_bits, to_column};
use crate::working_set::WorkingSet;
use crate::writes::{EarlyMessage, InboxRow};

/// What happens to an event for an inbox that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullInbox {
    /// A client is told.
    Refuse,
    /// What a turn sends always finds room, like completions, timers and cancels: only clients can fill an
    /// inbox without end.
    Admit,
}

/// What a start did.
pub(crate) enum Start {
    Created,
    /// Nothing; the reply is for the parent that asked for it, if one did.
    IdTaken {
        reply: Option<Box<EncodedItem>>,
    },
}

/// Why a call could not be carried out in this transaction.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The call fails.
    Fault(Fault),
    /// This id must be reserved before anything else is locked.
    Reserve(String),
}

impl From<Fault> for Obstacle {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl WorkingSet<'_> {
    /// Takes a checked message to where it belongs: an inbox, the early messages, or nowhere.
    pub(crate) async fn deliver(
        &mut self,
        item: &EncodedItem,
        delay: Option<Duration>,
        full: FullInbox,
    ) -> Result<Placed, Obstacle> {
        if item.kind() == ItemKind::Start {
            return match self.start(item, delay).await? {
                Start::Created => Ok(Placed::Started),
                Start::IdTaken { reply } => {
                    if let Some(reply) = reply {
                        let _outcome = self.deliver_message(&reply, None, FullInbox::Admit).await?;
                    }
                    Ok(Placed::IdTaken)
                }
            };
        }
        self.deliver_message(item, delay, full).await.map(Placed::Message)
    }

    async fn deliver_message(
        &mut self,
        item: &EncodedItem,
        delay: Option<Duration>,
        full: FullInbox,
    ) -> Result<SendOutcome, Obstacle> {
        let columns = columns_of(&item.item);
        let visible = Visible::new(self.now, &columns, delay);
        let Some(key) = self.key_of(columns.instance).await? else {
            return match columns.kind.without_instance() {
                WithoutInstance::Keep => {
                    self.keep(&columns, &item.json, visible.at(self.now)).await?;
                    Ok(SendOutcome::Kept)
                }
                WithoutInstance::Drop | WithoutInstance::Create => {
                    self.effects.dropped_unknown += 1;
                    Ok(SendOutcome::NotFound)
                }
            };
        };
        let row = self.instance(key)?;
        if row.ended {
            return Ok(self.arrive_late(key, &columns, &item.json, full).await?);
        }
        if full == FullInbox::Refuse && columns.kind == ItemKind::Event {
            check_room(columns.instance, row.inbox_count)?;
        }
        self.put_message(key, &columns, &item.json, visible).await?;
        Ok(SendOutcome::Delivered)
    }

    /// Puts a message into an inbox.
    pub(crate) async fn put_message(
        &mut self,
        key: i64,
        columns: &Columns<'_>,
        json: &str,
        visible: Visible,
    ) -> Result<(), Fault> {
        let now = self.now;
        let visible_at = match visible {
            Visible::AtOnce if columns.kind == ItemKind::Cancel => self.ahead_of_deep_inbox(key, now).await?,
            Visible::AtOnce => self.instance(key)?.next_arrival(now),
            Visible::Delayed(at) | Visible::At(at) => at,
        };
        let row = self.instance(key)?;
        let position = row.next_position;
        if matches!(visible, Visible::Delayed(_)) {
            self.writes.delayed.push((key, visible_at, position));
        }
        let row = self.instance(key)?;
        row.inbox_count = row.inbox_count.saturating_add(1);
        row.next_position = row.next_position.saturating_add(1);
        row.pending.queue = true;
        row.pending.first_added =
            Some(row.pending.first_added.map_or(visible_at, |first| first.min(visible_at)));
        self.writes.inbox.push(InboxRow::new(key, visible_at, position, columns, json));
        let row = self.instance(key)?;
        if columns.kind == ItemKind::Cancel {
            row.note_cancel();
        }
        if columns.kind == ItemKind::Cancel && row.lock.is_some() {
            row.not_before = CANCELLED_WHILE_LOCKED;
        } else if columns.kind == ItemKind::Cancel && row.not_before != 0 {
            row.not_before = 0;
            self.recompute_ready_at(key).await?;
        } else if row.lock.is_none() {
            let visible_at = if self.pull_back(key)? { now } else { visible_at };
            let row = self.instance(key)?;
            let ready_at = visible_at.max(row.not_before);
            row.ready_at = Some(row.ready_at.map_or(ready_at, |sooner| sooner.min(ready_at)));
            self.effects.turn_ready(ready_at);
        }
        Ok(())
    }

    /// Where a cancel stands: ahead of all others if more messages wait than one fetch takes.
    async fn ahead_of_deep_inbox(&mut self, key: i64, visible_at: Ms) -> Result<Ms, Fault> {
        if !self.is_inbox_deep(key).await? {
            return Ok(visible_at);
        }
        let first = self.first_message(key).await?;
        Ok(first.map_or(visible_at, |first| visible_at.min(first.saturating_sub(1))))
    }

    /// Whether as much waits as one fetch takes, or more. One message alone is no more than a turn may have in its hands.
    async fn is_inbox_deep(&mut self, key: i64) -> Result<bool, Fault> {
        const SQL: &str =
            "SELECT sum(octet_length(n.item))::bigint FROM {s}.inbox n WHERE n.instance_key = $1";
        let waiting = self.instance(key)?.inbox_count;
        if waiting >= count(limits::MAX_MESSAGES_PER_FETCH) {
            return Ok(true);
        }
        if waiting < 2 {
            return Ok(false);
        }
        let added = self.writes.inbox.iter().filter(|row| row.key == key).map(|row| row.json.len()).sum();
        let row = self.conn()?.first(SQL, &[&key]).await?;
        let stored: i64 = row.and_then(|row| row.get(0)).unwrap_or(0);
        Ok(stored.saturating_add(count(added)) > count(limits::MAX_MESSAGE_BYTES_PER_FETCH))
    }

    /// Recomputes when an unlocked instance is ready, from the messages that are in its inbox.
    pub(crate) async fn recompute_ready_at(&mut self, key: i64) -> Result<(), Fault> {
        let waiting = self.instance(key)?.inbox_count;
        self.pull_back(key)?;
        let first = if waiting > 0 { self.first_message(key).await? } else { None };
        let row = self.instance(key)?;
        row.ready_at = first.map(|visible_at| visible_at.max(row.not_before));
        row.pending.queue = true;
        if let Some(ready_at) = row.ready_at {
            self.effects.turn_ready(ready_at);
        }
        Ok(())
    }

    /// Creates the instance of a start. A start of an id that exists changes nothing.
    pub(crate) async fn start(
        &mut self,
        start: &EncodedItem,
        delay: Option<Duration>,
    ) -> Result<Start, Obstacle> {
        let columns = columns_of(&start.item);
        if let Some(key) = self.key_of(columns.instance).await? {
            let parent = self.instance(key)?.parent();
            let reply = reply_to_colliding_start(&start.item, parent.as_ref());
            return Ok(Start::IdTaken { reply: reply.map(EncodedItem::new).transpose()?.map(Box::new) });
        }
        if !self.reserved.contains(columns.instance) {
            return Err(Obstacle::Reserve(columns.instance.to_string()));
        }
        self.create_instance(start, Visible::new(self.now, &columns, delay)).await?;
        Ok(Start::Created)
    }

    async fn create_instance(&mut self, start: &EncodedItem, visible: Visible) -> Result<(), Fault> {
        let columns = &columns_of(&start.item);
        let key = self.next_key().await?;
        let visible_at = visible.at(self.now);
        if matches!(visible, Visible::Delayed(_)) {
            self.writes.delayed.push((key, visible_at, 1));
        }
        let execution_id = columns.execution_id.unwrap_or(INITIAL_EXECUTION_ID);
        let parent = columns.parent.as_ref();
        let early = self.admitted_early(columns.instance).await?;
        self.create(InstanceRow {
            key,
            revision: 0,
            instance: columns.instance.to_string(),
            incarnation: random_bits().cast_unsigned(),
            created_at: self.now,
            name: columns.name.unwrap_or_default().to_string(),
            version: columns.version.unwrap_or_default().to_string(),
            parent_instance: parent.map(|link| link.instance.clone()),
            parent_execution_id: parent.map(|link| to_column(link.execution_id)),
            parent_event_id: parent.map(|link| to_column(link.event_id)),
            ended: false,
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
            last_arrival: if visible == Visible::AtOnce { visible_at } else { Ms::MIN },
            pending: Pending {
                queue: true,
                route: Some(Route::new(columns.name.unwrap_or_default(), columns.version)),
                created: true,
                first_stored: Some(None),
                first_added: Some(visible_at),
                first_input: start_fingerprint(&start.item).map(u64::cast_signed),
                ..Pending::default()
            },
        });
        self.writes.inbox.push(InboxRow::new(key, visible_at, 1, columns, &start.json));
        self.executions.insert((key, execution_id), ExecutionRow::new());
        if early > 0 {
            self.writes.admitted_early.push((columns.instance.to_string(), key, visible_at));
            self.early.remove(columns.instance);
        }
        self.effects.turn_ready(visible_at);
        Ok(())
    }

    /// How many messages wait for an instance that starts now.
    async fn admitted_early(&mut self, instance: &str) -> Result<i64, Fault> {
        let pending = self.writes.early.iter().filter(|early| early.instance == instance).count();
        if !self.early.contains_key(instance) && pending == 0 {
            return Ok(0);
        }
        self.drop_expired_if_any(instance).await?;
        // Positions continue from what is stored, so that the span counts what this transaction adds, too.
        Ok(self.early.get(instance).map_or(0, |early| early.count))
    }

    async fn drop_expired_if_any(&mut self, instance: &str) -> Result<(), Fault> {
        let cutoff = self.now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS));
        if self.early.get(instance).is_none_or(|early| early.oldest >= cutoff) {
            return Ok(());
        }
        let added = self.writes.early.iter().filter(|early| early.instance == instance).count();
        self.effects.expired += drop_expired(self.conn()?, cutoff).await?;
        self.reload_early(instance).await?;
        if added > 0
            && let Some(early) = self.early.get_mut(instance)
        {
            early.count = early.count.saturating_add(crate::values::count(added));
            early.last = early.last.saturating_add(crate::values::count(added));
        }
        Ok(())
    }

    /// Keeps a message for the start of its instance.
    async fn keep(&mut self, columns: &Columns<'_>, json: &str, visible_at: Ms) -> Result<(), Obstacle> {
        let instance = columns.instance;
        if !self.reserved.contains(instance) {
            return Err(Obstacle::Reserve(instance.to_string()));
        }
        self.drop_expired_if_any(instance).await?;
        let now = self.now;
        let early = self.early.entry(instance.to_string()).or_insert(crate::working_set::Early {
            last: 0,
            count: 0,
            oldest: now,
        });
        check_room(instance, early.count)?;
        early.last = early.last.saturating_add(1);
        early.count = early.count.saturating_add(1);
        let position = early.last;
        self.writes.early.push(EarlyMessage {
            instance: instance.to_string(),
            position,
            visible_at,
            json: json.to_string(),
        });
        // What was kept for others may have expired.
        self.writes.expire_early = true;
        Ok(())
    }
}

/// Drops what was kept too long; how much.
pub(crate) async fn drop_expired(conn: &crate::connection::Conn<'_>, cutoff: Ms) -> Result<u64, Fault> {
    conn.execute("DELETE FROM {s}.early_messages WHERE kept_at < $1", &[&cutoff]).await
}

/// From when on a message is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visible {
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

    pub(crate) fn without_delay(columns: &Columns<'_>) -> Self {
        columns.due_ms.map_or(Self::AtOnce, |due_ms| Self::At(to_column(due_ms)))
    }

    fn at(self, now: Ms) -> Ms {
        match self {
            Self::AtOnce => now,
            Self::Delayed(at) | Self::At(at) => at,
        }
    }
}

pub(crate) fn check_room(instance: &str, waiting: i64) -> Result<(), Fault> {
    let limit = limits::MAX_INBOX_MESSAGES;
    if usize::try_from(waiting).unwrap_or(0) >= limit {
        return Err(Fault::Invalid(format!("the inbox of '{instance}' is full ({limit} messages)")));
    }
    Ok(())
}
