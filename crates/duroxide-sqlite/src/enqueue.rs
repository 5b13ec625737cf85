//! How messages reach an inbox: starts, messages that come too early or too late, and cancels.

use std::time::Duration;

use duroxide_core::{
    Columns, INITIAL_EXECUTION_ID, ItemKind, ParentLink, Route, WithoutInstance, WorkItem, columns_of,
    limits, reply_to_colliding_start, start_fingerprint,
};
use duroxide_provider::support::Placed;
use duroxide_provider::{SendOutcome, random};

use super::damaged;
use super::early;
use super::fault::Fault;
use super::history;
use super::instance_row::{CANCELLED_WHILE_LOCKED, NOT_PINNED, QueueRow, Status, key_of};
use super::redrive;
use super::tx::Tx;
use super::values::{Ms, after, from_column, to_column, to_json};

/// A message or work item with its stored form, which is made before the writer is asked.
#[derive(Debug)]
pub(super) struct EncodedItem {
    pub(super) item: WorkItem,
    pub(super) json: String,
}

impl EncodedItem {
    pub(super) fn new(item: WorkItem) -> Result<Self, Fault> {
        let json = to_json(&item)?;
        Ok(Self { item, json })
    }

    pub(super) fn all(items: Vec<WorkItem>) -> Result<Vec<Self>, Fault> {
        items.into_iter().map(Self::new).collect()
    }
}

/// Checks that an item belongs into an inbox.
pub(super) fn check_message(item: &WorkItem) -> Result<(), Fault> {
    check_instance(item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Err(Fault::Invalid("an activity does not belong into an inbox".to_string())),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Ok(()),
    }
}

/// Checks that an item names an instance.
pub(super) fn check_instance(item: &WorkItem) -> Result<(), Fault> {
    if item.instance().is_empty() {
        return Err(Fault::Invalid("the instance id is empty".to_string()));
    }
    Ok(())
}

/// Puts a client's message where it belongs.
pub(super) fn enqueue_for_orchestrator(
    tx: &mut Tx<'_>,
    item: &EncodedItem,
    delay: Option<Duration>,
) -> Result<Placed, Fault> {
    check_message(&item.item)?;
    deliver(tx, item, delay, FullInbox::Refuse)
}

/// What happens to an event for an inbox that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FullInbox {
    /// A client is told.
    Refuse,
    /// What a turn sends always finds room, like completions, timers and cancels: only clients can fill an
    /// inbox without end.
    Admit,
}

/// Takes a checked message to where it belongs: an inbox, the early messages, or nowhere.
pub(super) fn deliver(
    tx: &mut Tx<'_>,
    item: &EncodedItem,
    delay: Option<Duration>,
    full: FullInbox,
) -> Result<Placed, Fault> {
    let columns = columns_of(&item.item);
    if columns.kind == ItemKind::Start {
        return match start(tx, item, delay)? {
            Start::Created => Ok(Placed::Started),
            Start::IdTaken { reply } => {
                if let Some(reply) = reply {
                    deliver(tx, &reply, None, FullInbox::Admit)?;
                }
                Ok(Placed::IdTaken)
            }
        };
    }
    let visible_at = visible_at(tx.now, &columns, delay);
    match receiver(tx, columns.instance)? {
        Some(row) if row.status.ends_instance() => arrive_late(tx, &row, item, full).map(Placed::Message),
        Some(mut row) => {
            if full == FullInbox::Refuse && columns.kind == ItemKind::Event {
                check_room(columns.instance, row.inbox_count)?;
            }
            let ready_before = row.ready_at;
            put_message(tx, &mut row, &columns, &item.json, visible_at)?;
            if row.ready_at == ready_before && columns.kind != ItemKind::Cancel {
                row.save_inbox(tx.db)?
            } else {
                row.save(tx.db)?
            }
            Ok(Placed::Message(SendOutcome::Delivered))
        }
        None => match columns.kind.without_instance() {
            WithoutInstance::Keep => {
                early::keep(tx, &columns, &item.json, visible_at)?;
                Ok(Placed::Message(SendOutcome::Kept))
            }
            WithoutInstance::Drop | WithoutInstance::Create => {
                tx.effects.dropped_unknown += 1;
                Ok(Placed::Message(SendOutcome::NotFound))
            }
        },
    }
}

/// The row of an instance. One that cannot be read is ended: a sender must not fail for its receiver.
fn receiver(tx: &mut Tx<'_>, instance: &str) -> Result<Option<QueueRow>, Fault> {
    let error = match QueueRow::by_id(tx.db, instance) {
        Ok(row) => return Ok(row),
        Err(error) => error,
    };
    match (damaged::cause_of(&error), key_of(tx.db, instance)?) {
        (Some(cause), Some(key)) => damaged::end_instance(tx, key, &cause)?,
        (None, _) | (_, None) => return Err(error.into()),
    }
    Ok(QueueRow::by_id(tx.db, instance)?)
}

/// A message for an instance that has ended: kept if it may go on, dropped otherwise.
fn arrive_late(
    tx: &mut Tx<'_>,
    row: &QueueRow,
    item: &EncodedItem,
    full: FullInbox,
) -> Result<SendOutcome, Fault> {
    let columns = columns_of(&item.item);
    if !redrive::keeps_since_failure(tx, row, columns.kind)? {
        tx.effects.dropped_finished += 1;
        return Ok(SendOutcome::Ended);
    }
    let kept = redrive::kept_count(tx, row)?;
    if full == FullInbox::Refuse {
        check_room(columns.instance, kept)?;
    }
    redrive::keep_since_failure(tx, row, kept, &item.json)?;
    Ok(SendOutcome::Kept)
}

/// From when on a message is visible.
fn visible_at(now: Ms, columns: &Columns<'_>, delay: Option<Duration>) -> Ms {
    match (delay, columns.due_ms) {
        (Some(delay), _) => after(now, delay),
        (None, Some(due_ms)) => to_column(due_ms),
        (None, None) => now,
    }
}

pub(super) fn check_room(instance: &str, waiting: i64) -> Result<(), Fault> {
    let limit = limits::MAX_INBOX_MESSAGES;
    if usize::try_from(waiting).unwrap_or(0) >= limit {
        return Err(Fault::Invalid(format!("the inbox of '{instance}' is full ({limit} messages)")));
    }
    Ok(())
}

/// Where a cancel stands: ahead of all others if more messages wait than one fetch takes.
fn ahead_of_deep_inbox(tx: &Tx<'_>, row: &QueueRow, visible_at: Ms) -> Result<Ms, Fault> {
    const SQL: &str = "SELECT min(visible_at) FROM inbox WHERE instance_key = ?1";
    if !is_inbox_deep(tx, row)? {
        return Ok(visible_at);
    }
    let first: Option<Ms> = tx.db.first(SQL, [row.key], |found| found.get(0))?.flatten();
    Ok(first.map_or(visible_at, |first| visible_at.min(first.saturating_sub(1))))
}

/// Whether as much waits as one fetch takes, or more. One message alone is no more than a turn may have in its hands.
fn is_inbox_deep(tx: &Tx<'_>, row: &QueueRow) -> Result<bool, Fault> {
    const SQL: &str = "SELECT sum(octet_length(item)) FROM inbox WHERE instance_key = ?1";
    if row.inbox_count >= history::rows(limits::MAX_MESSAGES_PER_FETCH) {
        return Ok(true);
    }
    if row.inbox_count < 2 {
        return Ok(false);
    }
    let waiting: Option<i64> = tx.db.first(SQL, [row.key], |found| found.get(0))?.flatten();
    Ok(waiting.unwrap_or(0) > history::rows(limits::MAX_MESSAGE_BYTES_PER_FETCH))
}

/// Inserts a message and changes `row` as it demands; the caller saves the row.
pub(super) fn put_message(
    tx: &mut Tx<'_>,
    row: &mut QueueRow,
    columns: &Columns<'_>,
    json: &str,
    visible_at: Ms,
) -> Result<(), Fault> {
    let ahead = columns.kind == ItemKind::Cancel && visible_at <= tx.now;
    let ready_at = if ahead { ahead_of_deep_inbox(tx, row, visible_at)? } else { visible_at };
    let visible_at = if ready_at == tx.now { row.next_arrival(tx.now) } else { ready_at };
    insert_message(tx, row, columns, json, visible_at)?;
    row.inbox_count = row.inbox_count.saturating_add(1);
    row.next_position = row.next_position.saturating_add(1);
    row.cancels = row.cancels.saturating_add(i64::from(columns.kind == ItemKind::Cancel));
    if columns.kind == ItemKind::Cancel && row.lock.is_some() {
        row.not_before = CANCELLED_WHILE_LOCKED;
    } else if columns.kind == ItemKind::Cancel && row.not_before != 0 {
        row.not_before = 0;
        row.recompute_ready_at(tx)?;
    } else if row.lock.is_none() {
        let ready_at = ready_at.max(row.not_before);
        row.ready_at = Some(row.ready_at.map_or(ready_at, |sooner| sooner.min(ready_at)));
        tx.effects.turn_ready(ready_at);
    }
    Ok(())
}

fn insert_message(
    tx: &Tx<'_>,
    row: &QueueRow,
    columns: &Columns<'_>,
    json: &str,
    visible_at: Ms,
) -> rusqlite::Result<()> {
    const SQL: &str = "INSERT INTO inbox (instance_key, visible_at, position, kind, execution_id, event_id, item) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let execution_id = columns.execution_id.map(to_column);
    let event_id = columns.event_id.map(to_column);
    let params = (row.key, visible_at, row.next_position, columns.kind.code(), execution_id, event_id, json);
    tx.db.execute(SQL, params).map(|_| ())
}

/// Creates the instance of a start; `false` when the id is taken.
fn create_instance(
    tx: &mut Tx<'_>,
    columns: &Columns<'_>,
    item: &EncodedItem,
    visible_at: Ms,
) -> Result<bool, Fault> {
    const INSTANCE: &str = "INSERT INTO instances (instance_id, incarnation, name, version, parent_instance, \
         parent_execution_id, parent_event_id, created_at, updated_at, status, current_execution_id, pinned_key, \
         inbox_count, next_position, ready_at, route_name, route_version, first_input, last_arrival) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, 1, 2, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (instance_id) DO NOTHING";
    let execution_id = columns.execution_id.unwrap_or(INITIAL_EXECUTION_ID);
    let parent = columns.parent.as_ref();
    let route = Route::new(columns.name.unwrap_or_default(), columns.version);
    let (route_name, route_version) = route.columns();
    let last_arrival = if visible_at > tx.now { 0 } else { visible_at };
    let inserted = tx.db.execute(
        INSTANCE,
        (
            columns.instance,
            random::bits_64().cast_signed(),
            columns.name.unwrap_or_default(),
            columns.version.unwrap_or_default(),
            parent.map(|link| link.instance.as_str()),
            parent.map(|link| to_column(link.execution_id)),
            parent.map(|link| to_column(link.event_id)),
            tx.now,
            Status::Running.code(),
            to_column(execution_id),
            NOT_PINNED,
            visible_at,
            route_name,
            route_version,
            start_fingerprint(&item.item).map(u64::cast_signed),
            last_arrival,
        ),
    )?;
    if inserted == 0 {
        return Ok(false);
    }
    let mut row = QueueRow {
        key: tx.db.last_key(),
        status: Status::Running,
        current_execution_id: execution_id,
        pinned_key: NOT_PINNED,
        has_kv: false,
        inbox_count: 1,
        next_position: 1,
        not_before: 0,
        ready_at: Some(visible_at),
        suspect: false,
        suspect_before: false,
        lock: None,
        cancels: 0,
        last_arrival,
    };
    insert_message(tx, &row, columns, &item.json, visible_at)?;
    row.next_position = 2;
    create_execution(tx, row.key, execution_id)?;
    early::admit(tx, &mut row, columns.instance, visible_at)?;
    tx.effects.turn_ready(visible_at);
    Ok(true)
}

/// Creates an execution that has not begun; nothing if it exists.
pub(super) fn create_execution(tx: &Tx<'_>, key: i64, execution_id: u64) -> rusqlite::Result<()> {
    const SQL: &str = "INSERT INTO executions (instance_key, execution_id, status, started_at) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    tx.db.execute(SQL, (key, to_column(execution_id), Status::Running.code(), tx.now)).map(|_| ())
}

/// What a start did.
pub(super) enum Start {
    Created,
    /// Nothing; the reply is for the parent that asked for it, if one did.
    IdTaken {
        reply: Option<Box<EncodedItem>>,
    },
}

/// Creates the instance of a start. A start of an id that exists changes nothing.
pub(super) fn start(tx: &mut Tx<'_>, start: &EncodedItem, delay: Option<Duration>) -> Result<Start, Fault> {
    const PARENT: &str = "SELECT parent_instance, parent_execution_id, parent_event_id FROM instances \
         WHERE instance_id = ?1";
    let columns = columns_of(&start.item);
    let visible_at = visible_at(tx.now, &columns, delay);
    if create_instance(tx, &columns, start, visible_at)? {
        return Ok(Start::Created);
    }
    let parent = tx.db.first(PARENT, [columns.instance], |row| {
        let (execution_id, event_id): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let instance: Option<String> = row.get(0)?;
        Ok(ParentLink::from_fields(
            instance.as_deref(),
            execution_id.map(from_column),
            event_id.map(from_column),
        ))
    })?;
    let reply = reply_to_colliding_start(&start.item, parent.flatten().as_ref());
    Ok(Start::IdTaken { reply: reply.map(EncodedItem::new).transpose()?.map(Box::new) })
}
