//! What the queues hold for an instance, and what is overdue.

use std::collections::BTreeSet;

use duroxide_core::ItemKind;
use duroxide_core::health::{QueuedFor, QueuedMessage};
use duroxide_provider::rules::{InstanceRow, UNLOCKED};
use duroxide_provider::{HealthFacts, Overdue};

use super::db::Db;
use super::fault::Fault;
use super::instance_row::StoredInstance;
use super::values::{Ms, from_column, to_column};

/// What the queues hold for an instance; `None` if it is unknown or has ended.
pub(super) fn queued_for(db: &Db, now: Ms, instance: &str) -> Result<Option<QueuedFor>, Fault> {
    const LAST: &str = "SELECT last_event_id FROM executions WHERE instance_key = ?1 AND execution_id = ?2";
    const WORK: &str = "SELECT execution_id, activity_id FROM work_items WHERE instance_id = ?1";
    const INBOX: &str = "SELECT kind, execution_id, event_id FROM inbox WHERE instance_key = ?1";
    db.snapshot(|db| {
        let stored = StoredInstance::by_id(db, instance)?;
        let Some(row) = stored.map(|stored| stored.row).filter(|row| !row.is_ended()) else {
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

fn is_locked(row: &InstanceRow, now: Ms) -> bool {
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
