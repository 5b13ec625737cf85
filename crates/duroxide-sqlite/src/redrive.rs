//! Failed instances that go on, and the messages kept for them.

use duroxide_core::redrive::{KeptMessages, kept_since_failure};
use duroxide_core::{
    ErrorDetails, ItemKind, Route, WorkItem, columns_of, pack_version, route_after_turn, state_changes,
};
use duroxide_provider::RedriveInstance;
use semver::Version;

use super::db::Db;
use super::enqueue::{EncodedItem, FullInbox, check_message, deliver, put_message};
use super::execution_row::ExecutionRow;
use super::fault::Fault;
use super::history::{EncodedEvents, insert_events};
use super::instance_row::{NOT_PINNED, QueueRow, Status};
use super::tx::Tx;
use super::values::{from_column, from_json, to_column};
use super::work;

/// Keeps what is in the inbox of an instance whose turn ends in a failure after which it may go on. Called before
/// any of it is deleted.
pub(super) fn keep_messages(tx: &Tx<'_>, row: &QueueRow, mut kept: KeptMessages) -> Result<(), Fault> {
    const INBOX: &str = "SELECT visible_at, position, kind, event_id FROM inbox WHERE instance_key = ?1 \
         ORDER BY visible_at, position";
    const KEEP: &str = "INSERT INTO kept_messages (instance_key, position, item) \
         SELECT ?1, ?4, item FROM inbox WHERE instance_key = ?1 AND visible_at = ?2 AND position = ?3";
    if row.inbox_count == 0 {
        return Ok(());
    }
    let inbox: Vec<(i64, i64, i64, Option<i64>)> =
        tx.db.all(INBOX, [row.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let mut order = 0_i64;
    for (visible_at, position, code, event_id) in inbox {
        let taken = row.lock.is_some_and(|lock| {
            (visible_at, position) <= (lock.visible_at, lock.position) && position < lock.watermark
        });
        // A kind that this build does not know is kept: another build may.
        if ItemKind::from_code(code).is_none_or(|kind| kept.keeps(kind, event_id.map(from_column), taken)) {
            tx.db.execute(KEEP, (row.key, visible_at, position, order))?;
            order += 1;
        }
    }
    Ok(())
}

/// Whether a message of this kind is kept for an instance that has ended.
pub(super) fn keeps_since_failure(tx: &Tx<'_>, row: &QueueRow, kind: ItemKind) -> Result<bool, Fault> {
    const FAILURE: &str = "SELECT failure FROM executions WHERE instance_key = ?1 AND execution_id = ?2 AND failure IS NOT NULL";
    if row.status != Status::Failed {
        return Ok(false);
    }
    let id = (row.key, to_column(row.current_execution_id));
    let failure = tx.db.first(FAILURE, id, |row| Ok(from_json::<ErrorDetails>(row.get_ref(0)?)))?;
    Ok(match failure {
        Some(Ok(failure)) => kept_since_failure(kind, &failure),
        // A failure that this build does not know: another build may let it go on.
        Some(Err(_)) => kind == ItemKind::Event,
        None => false,
    })
}

/// How many messages are kept for an instance. Their positions count from 0 and have no gaps.
pub(super) fn kept_count(tx: &Tx<'_>, row: &QueueRow) -> Result<i64, Fault> {
    const SQL: &str = "SELECT coalesce(max(position) + 1, 0) FROM kept_messages WHERE instance_key = ?1";
    Ok(tx.db.first(SQL, [row.key], |row| row.get(0))?.unwrap_or(0))
}

/// Keeps a message for an instance that has failed, after the `count` that are kept.
pub(super) fn keep_since_failure(tx: &Tx<'_>, row: &QueueRow, count: i64, json: &str) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO kept_messages (instance_key, position, item) VALUES (?1, ?2, ?3)";
    tx.db.execute(SQL, (row.key, count, json))?;
    Ok(())
}

/// The messages kept for an instance, in their order, without the first ones.
pub(super) fn kept_messages(db: &Db, instance: &str, seen: usize) -> Result<Vec<WorkItem>, Fault> {
    const SQL: &str = "SELECT k.item FROM kept_messages k JOIN instances i ON i.key = k.instance_key \
         WHERE i.instance_id = ?1 ORDER BY k.position LIMIT -1 OFFSET ?2";
    let seen = i64::try_from(seen).unwrap_or(i64::MAX);
    let stored: Vec<Result<WorkItem, String>> =
        db.all(SQL, (instance, seen), |row| Ok(from_json(row.get_ref(0)?)))?;
    let named = |cause| Fault::Corrupt(format!("a message kept for instance '{instance}': {cause}"));
    stored.into_iter().map(|item| item.map_err(named)).collect()
}

/// A [`RedriveInstance`] in its stored form.
#[derive(Debug)]
pub(super) struct EncodedRedrive {
    instance: String,
    failed_execution_id: u64,
    last_event_id: u64,
    events: EncodedEvents,
    begins_anew: bool,
    /// The handler that it needs from now on, if that changes.
    route: Option<Route>,
    pinned: Option<Version>,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    kept_seen: usize,
}

impl EncodedRedrive {
    /// Checks everything that can be wrong by itself, and encodes.
    pub(super) fn new(one: RedriveInstance) -> Result<Self, Fault> {
        one.activities.iter().try_for_each(work::check_work)?;
        one.messages.iter().try_for_each(check_message)?;
        let began = state_changes(&one.events).began;
        let route = route_after_turn(&one.instance, began, one.events.is_empty(), &one.messages);
        Ok(Self {
            instance: one.instance,
            route,
            failed_execution_id: one.failed_execution_id,
            last_event_id: one.last_event_id,
            begins_anew: one.events.is_empty(),
            events: EncodedEvents::new(one.events)?,
            pinned: one.pinned,
            activities: EncodedItem::all(one.activities)?,
            messages: EncodedItem::all(one.messages)?,
            kept_seen: one.kept_seen,
        })
    }

    /// What it weighs in a group.
    pub(super) fn bytes(&self) -> usize {
        let items = self.activities.iter().chain(&self.messages);
        self.events.bytes() + items.map(|item| item.json.len()).sum::<usize>()
    }
}

/// Lets these instances go on, all or none.
pub(super) fn redrive(tx: &mut Tx<'_>, all: &[EncodedRedrive]) -> Result<(), Fault> {
    let mut rows = Vec::with_capacity(all.len());
    for one in all {
        rows.push(look(tx, one)?);
    }
    let mut kept_since = Vec::with_capacity(all.len());
    for (one, row) in all.iter().zip(rows) {
        kept_since.push(EncodedItem::all(kept_messages(tx.db, &one.instance, one.kept_seen)?)?);
        begin(tx, one, row)?;
    }
    // Only now all of them run, so that what one sends to another finds it.
    for (one, kept_since) in all.iter().zip(&kept_since) {
        fill(tx, one, kept_since)?;
    }
    Ok(())
}

fn look(tx: &Tx<'_>, one: &EncodedRedrive) -> Result<QueueRow, Fault> {
    let EncodedRedrive { instance, failed_execution_id, last_event_id, .. } = one;
    let row = queue_row(tx, instance)?;
    let last = ExecutionRow::load(tx, row.key, row.current_execution_id)?.last_event_id;
    if row.status != Status::Failed
        || row.current_execution_id != *failed_execution_id
        || last != *last_event_id
    {
        return Err(Fault::Invalid(format!("instance '{instance}' is not as it was looked at")));
    }
    Ok(row)
}

/// Makes the next execution current.
fn begin(tx: &mut Tx<'_>, one: &EncodedRedrive, row: QueueRow) -> Result<(), Fault> {
    const INSTANCE: &str = "UPDATE instances SET status = ?2, ended_at = NULL, updated_at = ?3, \
         current_execution_id = ?4, pinned_key = ?5, not_before = 0, suspect = 0, suspect_before = 0 \
         WHERE key = ?1";
    const ROUTE: &str = "UPDATE instances SET route_name = ?2, route_version = ?3 WHERE key = ?1";
    const VERSION: &str = "UPDATE instances SET version = ?2 WHERE key = ?1";
    let next = one.failed_execution_id.saturating_add(1);
    let mut execution = ExecutionRow::load(tx, row.key, next)?;
    execution.pinned = one.pinned.as_ref().map(Into::into);
    insert_events(tx.db, (row.key, to_column(next)), &one.events, &mut execution)?;
    execution.save(tx, row.key, next)?;
    let pinned_key = one.pinned.as_ref().map_or(NOT_PINNED, pack_version);
    let params = (row.key, Status::Running.code(), tx.now, to_column(next), pinned_key);
    tx.db.execute(INSTANCE, params)?;
    if let Some(route) = &one.route {
        let (name, version) = route.columns();
        tx.db.execute(ROUTE, (row.key, name, version))?;
    }
    if one.begins_anew {
        let asked = one.messages.first().and_then(|start| columns_of(&start.item).version);
        tx.db.execute(VERSION, (row.key, asked.unwrap_or_default()))?;
    }
    tx.db.execute("DELETE FROM kept_messages WHERE instance_key = ?1", [row.key])?;
    tx.effects.changed.push(one.instance.clone());
    Ok(())
}

/// Puts its activities and messages into the queues, then what was kept since the caller looked.
fn fill(tx: &mut Tx<'_>, one: &EncodedRedrive, kept_since: &[EncodedItem]) -> Result<(), Fault> {
    for item in &one.activities {
        work::put(tx, item)?;
    }
    let mut row = queue_row(tx, &one.instance)?;
    for item in one.messages.iter().chain(kept_since) {
        let columns = columns_of(&item.item);
        if columns.instance == one.instance && columns.kind != ItemKind::Start {
            let visible_at = columns.due_ms.map_or(tx.now, to_column);
            put_message(tx, &mut row, &columns, &item.json, visible_at)?;
        } else {
            // The answer to a start that collides goes to its parent, which may be this very instance.
            row.save(tx.db)?;
            deliver(tx, item, None, FullInbox::Admit)?;
            row = queue_row(tx, &one.instance)?;
        }
    }
    row.save(tx.db)?;
    Ok(())
}

fn queue_row(tx: &Tx<'_>, instance: &str) -> Result<QueueRow, Fault> {
    QueueRow::by_id(tx.db, instance)?.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))
}
