//! What the queues hold for an instance, what is overdue, and repairs.

use std::collections::BTreeSet;

use duroxide_core::health::{QueuedFor, QueuedMessage};
use duroxide_core::{ItemKind, columns_of};
use duroxide_provider::{HealthFacts, Overdue, RepairInstance};

use super::db::Db;
use super::enqueue::{EncodedItem, FullInbox, check_message, deliver};
use super::execution_row::ExecutionRow;
use super::fault::Fault;
use super::instance_row::{QueueRow, key_of};
use super::token::UNLOCKED;
use super::tx::Tx;
use super::values::{Ms, from_column, to_column};
use super::work;

/// What the queues hold for an instance; `None` if it is unknown or has ended.
pub(super) fn queued_for(db: &Db, now: Ms, instance: &str) -> Result<Option<QueuedFor>, Fault> {
    const LAST: &str = "SELECT last_event_id FROM executions WHERE instance_key = ?1 AND execution_id = ?2";
    const WORK: &str = "SELECT execution_id, activity_id FROM work_items WHERE instance_id = ?1";
    const INBOX: &str = "SELECT kind, execution_id, event_id FROM inbox WHERE instance_key = ?1";
    db.snapshot(|db| {
        let Some(row) = QueueRow::by_id(db, instance)?.filter(|row| !row.status.ends_instance()) else {
            return Ok(None);
        };
        let last: Option<i64> =
            db.first(LAST, (row.key, to_column(row.current_execution_id)), |row| row.get(0))?;
        let work: Vec<(i64, i64)> = db.all(WORK, [instance], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let inbox: Vec<(i64, Option<i64>, Option<i64>)> =
            db.all(INBOX, [row.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let messages = inbox.into_iter().filter_map(|(code, execution_id, event_id)| {
            Some(QueuedMessage {
                kind: ItemKind::from_code(code)?,
                execution_id: execution_id.map(from_column),
                event_id: event_id.map(from_column),
            })
        });
        let work: BTreeSet<(u64, u64)> =
            work.into_iter().map(|(execution, id)| (from_column(execution), from_column(id))).collect();
        Ok(Some(QueuedFor {
            execution_id: row.current_execution_id,
            last_event_id: last.map_or(0, from_column),
            is_locked: is_locked(&row, now),
            work,
            messages: messages.collect(),
        }))
    })
}

fn is_locked(row: &QueueRow, now: Ms) -> bool {
    row.lock.is_some() && row.ready_at.is_some_and(|expires| now < expires)
}

/// What has been ready since `before`, and what waits for a time after `ahead` although it has no delay.
pub(super) fn health_facts(db: &Db, before: Ms, ahead: Ms) -> Result<HealthFacts, Fault> {
    const TURNS: &str = "SELECT count(*), min(ready_at) FROM instances \
         WHERE ready_at IS NOT NULL AND ready_at <= ?1 AND status = 1 AND lock_nonce IS NULL";
    const TURN_LOCKS: &str = "SELECT count(*), min(ready_at) FROM instances \
         WHERE ready_at IS NOT NULL AND ready_at <= ?1 AND status = 1 AND lock_nonce IS NOT NULL";
    const TIMERS: &str = "SELECT count(*), min(visible_at) FROM inbox WHERE kind = 5 AND visible_at <= ?1";
    const WORK: &str =
        "SELECT count(*), min(ready_at) FROM work_items WHERE ready_at <= ?1 AND lock_nonce = ?2";
    const WORK_LOCKS: &str =
        "SELECT count(*), min(ready_at) FROM work_items WHERE ready_at <= ?1 AND lock_nonce <> ?2";
    const ORPHANS: &str = "SELECT count(*), min(ready_at) FROM work_items w WHERE NOT EXISTS \
         (SELECT 1 FROM instances i WHERE i.instance_id = w.instance_id AND i.status = 1)";
    const EARLY: &str = "SELECT count(*), min(kept_at) FROM early_messages WHERE kept_at <= ?1";
    const AHEAD_TURNS: &str = "SELECT count(*), min(ready_at) FROM instances WHERE ready_at > ?1 \
         AND ready_at IS NOT NULL AND ready_at <= last_arrival AND lock_nonce IS NULL AND status = 1";
    const AHEAD_WORK: &str = "SELECT count(*), min(ready_at) FROM work_items \
         WHERE ready_at > ?1 AND lock_nonce = ?2 AND delayed_at IS NULL";
    db.snapshot(|db| {
        let (turns, work) = (overdue(db, AHEAD_TURNS, [ahead])?, overdue(db, AHEAD_WORK, (ahead, UNLOCKED))?);
        Ok(HealthFacts {
            ahead_of_clock: Overdue {
                count: turns.count + work.count,
                oldest_ms: turns.oldest_ms.into_iter().chain(work.oldest_ms).min(),
            },
            overdue_turns: overdue(db, TURNS, [before])?,
            overdue_timers: overdue(db, TIMERS, [before])?,
            expired_turn_locks: overdue(db, TURN_LOCKS, [before])?,
            overdue_work: overdue(db, WORK, (before, UNLOCKED))?,
            expired_work_locks: overdue(db, WORK_LOCKS, (before, UNLOCKED))?,
            orphan_work: overdue(db, ORPHANS, [])?,
            early_messages: overdue(db, EARLY, [before])?,
        })
    })
}

fn overdue(db: &Db, sql: &'static str, params: impl rusqlite::Params) -> Result<Overdue, Fault> {
    let found = db.first(sql, params, |row| {
        let (count, oldest): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(Overdue { count: from_column(count), oldest_ms: oldest.map(from_column) })
    })?;
    Ok(found.unwrap_or_default())
}

/// A [`RepairInstance`] in its stored form.
#[derive(Debug)]
pub(super) struct EncodedRepair {
    instance: String,
    execution_id: u64,
    last_event_id: u64,
    activities: Vec<EncodedItem>,
    messages: Vec<EncodedItem>,
    note: EncodedItem,
}

impl EncodedRepair {
    /// Checks everything that can be wrong by itself, and encodes.
    pub(super) fn new(request: RepairInstance) -> Result<Self, Fault> {
        request.activities.iter().try_for_each(work::check_work)?;
        request.messages.iter().chain([&request.note]).try_for_each(check_message)?;
        Ok(Self {
            instance: request.instance,
            execution_id: request.execution_id,
            last_event_id: request.last_event_id,
            activities: EncodedItem::all(request.activities)?,
            messages: EncodedItem::all(request.messages)?,
            note: EncodedItem::new(request.note)?,
        })
    }
}

/// Puts back what is not there; how much that was.
pub(super) fn repair(tx: &mut Tx<'_>, request: &EncodedRepair) -> Result<u64, Fault> {
    let EncodedRepair { instance, execution_id, last_event_id, .. } = request;
    let row =
        QueueRow::by_id(tx.db, instance)?.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
    let last = ExecutionRow::load(tx, row.key, row.current_execution_id)?.last_event_id;
    let same = row.current_execution_id == *execution_id && last == *last_event_id;
    if row.status.ends_instance() || is_locked(&row, tx.now) || !same {
        return Err(Fault::Invalid(format!("instance '{instance}' is not as it was looked at")));
    }
    recount(tx, row.clone())?;
    let mut put_back = 0;
    for item in &request.activities {
        put_back += u64::from(work::put(tx, item)?);
    }
    for item in &request.messages {
        if !is_delivered(tx.db, row.key, item)? {
            deliver(tx, item, None, FullInbox::Admit)?;
            put_back += 1;
        }
    }
    if put_back > 0 {
        deliver(tx, &request.note, None, FullInbox::Admit)?;
    }
    Ok(put_back)
}

/// Rows that are gone may still be counted.
fn recount(tx: &mut Tx<'_>, mut row: QueueRow) -> Result<(), Fault> {
    const SQL: &str = "SELECT count(*) FROM inbox WHERE instance_key = ?1";
    let stored: Option<i64> = tx.db.first(SQL, [row.key], |row| row.get(0))?;
    row.inbox_count = stored.unwrap_or(0);
    row.lock = None;
    row.recompute_ready_at(tx)?;
    Ok(row.save(tx.db)?)
}

/// Whether the message is in the inbox, or the instance that it starts exists.
fn is_delivered(db: &Db, key: i64, item: &EncodedItem) -> Result<bool, Fault> {
    const SQL: &str = "SELECT 1 FROM inbox WHERE instance_key = ?1 AND kind = ?2 AND execution_id IS ?3 \
         AND event_id IS ?4 LIMIT 1";
    let columns = columns_of(&item.item);
    if columns.kind == ItemKind::Start {
        return Ok(key_of(db, columns.instance)?.is_some());
    }
    let (execution_id, event_id) = (columns.execution_id.map(to_column), columns.event_id.map(to_column));
    let found: Option<i64> =
        db.first(SQL, (key, columns.kind.code(), execution_id, event_id), |row| row.get(0))?;
    Ok(found.is_some())
}
