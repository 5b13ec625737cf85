//! Writing what a group of calls changed: each row once, what leaves an inbox before what comes into it.

use std::collections::HashMap;

use duroxide_core::{ItemKind, Route};
use duroxide_provider::rules::{
    Changes, ExecutionRow, HistoryRow, InstanceRow, KeptItem, Ms, NewWork, Rows, UNLOCKED, WorkChange,
    WorkRow,
};
use duroxide_provider::support::Status;
use rusqlite::{ErrorCode, params};

use super::db::Db;
use super::early;
use super::fault::Fault;
use super::instance_row::Indexed;
use super::remembered::Remembered;
use super::sessions;
use super::values::to_column;

/// The statement that writes the columns of the queue, with further columns.
macro_rules! queue_update {
    ($further:literal) => {
        concat!(
            "UPDATE instances SET updated_at = ?2, current_execution_id = ?3, has_kv = ?4, inbox_count = ?5, \
             next_position = ?6, not_before = ?7, suspect_before = ?8, lock_nonce = ?9, lock_visible_at = ?10, \
             lock_position = ?11, lock_watermark = ?12, last_arrival = ?13",
            $further,
            " WHERE key = ?1"
        )
    };
}

/// What is known once everything is written.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// The ids of new work items that are locked, by their locks. One that was queued before is not among them.
    pub(super) work_ids: HashMap<i64, i64>,
    /// How many early messages expired.
    pub(super) expired: u64,
}

/// Writes what the calls changed, and remembers how the rows are then.
pub(super) fn flush(
    db: &Db,
    rows: &Rows,
    indexed: &HashMap<i64, Indexed>,
    remembered: &mut Remembered,
) -> Result<Flushed, Fault> {
    let (changes, now) = (rows.changes(), rows.now());
    let mut flushed = Flushed::default();
    if changes.expire_early {
        flushed.expired = early::drop_expired(db, now)?;
    }
    write_removals(db, changes, now)?;
    write_inbox(db, changes)?;
    for row in rows.instances().filter(|row| row.pending.queue) {
        write_instance(db, row, indexed.get(&row.key), now)?;
    }
    write_cancels(db, rows)?;
    for ((key, execution_id), row) in rows.executions().filter(|(_, row)| row.changed) {
        write_execution(db, *key, *execution_id, row, now)?;
    }
    for (key, execution_id) in &changes.next_executions {
        const SQL: &str = "INSERT INTO executions (instance_key, execution_id, status, started_at) \
             VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        db.execute(SQL, (key, to_column(*execution_id), Status::Running.code(), now))?;
    }
    write_history(db, &changes.history)?;
    write_bounces(db, changes, now)?;
    write_state(db, changes)?;
    write_work(db, changes, now, &mut flushed)?;
    write_early(db, changes, now)?;
    remember(rows, indexed, remembered);
    Ok(flushed)
}

/// What leaves inboxes.
fn write_removals(db: &Db, changes: &Changes, now: Ms) -> Result<(), Fault> {
    for kept in &changes.kept {
        const NEW: &str = "INSERT INTO kept_messages (instance_key, position, item) VALUES (?1, ?2, ?3)";
        const STORED: &str = "INSERT INTO kept_messages (instance_key, position, item) \
             SELECT ?1, ?2, item FROM inbox WHERE instance_key = ?1 AND visible_at = ?3 AND position = ?4";
        match &kept.item {
            KeptItem::New(json) => db.execute(NEW, (kept.key, kept.order, json))?,
            KeptItem::Stored { visible_at, position } => {
                db.execute(STORED, (kept.key, kept.order, visible_at, position))?
            }
        };
    }
    for key in &changes.redriven {
        db.execute("DELETE FROM kept_messages WHERE instance_key = ?1", [key])?;
        let sql = "UPDATE instances SET status = ?2, ended_at = NULL WHERE key = ?1";
        db.execute(sql, (key, Status::Running.code()))?;
    }
    for (key, lock) in &changes.ended_attempts {
        const SQL: &str = "UPDATE inbox SET attempts = min(attempts + 1, 4294967295) \
             WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
        db.execute(SQL, (key, lock.visible_at, lock.position, lock.watermark))?;
    }
    for aside in &changes.aside_messages {
        const KEEP: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
             SELECT i.instance_id, n.kind, n.execution_id, n.event_id, ?4, ?5, n.item \
             FROM inbox n JOIN instances i ON i.key = n.instance_key \
             WHERE n.instance_key = ?1 AND n.visible_at = ?2 AND n.position = ?3";
        const DELETE: &str =
            "DELETE FROM inbox WHERE instance_key = ?1 AND visible_at = ?2 AND position = ?3";
        db.execute(KEEP, (aside.key, aside.visible_at, aside.position, now, &aside.cause))?;
        db.execute(DELETE, (aside.key, aside.visible_at, aside.position))?;
    }
    for (key, lock) in &changes.covered {
        const SQL: &str = "DELETE FROM inbox \
             WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
        db.execute(SQL, (key, lock.visible_at, lock.position, lock.watermark))?;
    }
    for (key, execution_id, schedule) in &changes.timers {
        const ONE: &str = "DELETE FROM inbox INDEXED BY inbox_timers \
             WHERE kind = 5 AND instance_key = ?1 AND execution_id = ?2 AND event_id = ?3";
        const ALL: &str = "DELETE FROM inbox INDEXED BY inbox_timers \
             WHERE kind = 5 AND instance_key = ?1 AND execution_id = ?2";
        let execution_id = to_column(*execution_id);
        match schedule {
            Some(schedule) => db.execute(ONE, (key, execution_id, to_column(*schedule)))?,
            None => db.execute(ALL, (key, execution_id))?,
        };
    }
    for key in &changes.emptied {
        db.execute("DELETE FROM inbox WHERE instance_key = ?1", [key])?;
    }
    for pulled in &changes.pulled_back {
        const SQL: &str = "UPDATE inbox SET visible_at = ?2 \
             WHERE instance_key = ?1 AND visible_at > ?2 AND visible_at <= ?3 AND kind <> ?4";
        db.execute(SQL, (pulled.key, pulled.now, pulled.until, ItemKind::Timer.code()))?;
    }
    Ok(())
}

fn write_inbox(db: &Db, changes: &Changes) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO inbox (instance_key, visible_at, position, kind, execution_id, event_id, item) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for row in &changes.inbox {
        let (execution_id, event_id) = (row.execution_id, row.event_id);
        let params =
            (row.key, row.visible_at, row.position, row.kind.code(), execution_id, event_id, &row.json);
        db.execute(SQL, params)?;
    }
    Ok(())
}

fn write_instance(db: &Db, row: &InstanceRow, before: Option<&Indexed>, now: Ms) -> Result<(), Fault> {
    if row.pending.created {
        insert_instance(db, row)?;
    } else {
        update_instance(db, row, before)?;
    }
    if row.pending.description {
        const SQL: &str = "UPDATE instances SET name = ?2, version = ?3, parent_instance = ?4 WHERE key = ?1";
        db.execute(SQL, (row.key, &row.name, &row.version, &row.parent_instance))?;
    }
    if let Some(end) = row.pending.end {
        // Apart from the rest: most turns end nothing, and these columns are indexed.
        let sql = "UPDATE instances SET status = ?2, ended_at = ?3 WHERE key = ?1";
        db.execute(sql, (row.key, end.code(), now))?;
    }
    Ok(())
}

fn insert_instance(db: &Db, row: &InstanceRow) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO instances (key, instance_id, incarnation, name, version, parent_instance, \
         parent_execution_id, parent_event_id, created_at, updated_at, status, current_execution_id, pinned_key, \
         first_input, inbox_count, next_position, not_before, ready_at, suspect, suspect_before, lock_nonce, \
         lock_visible_at, lock_position, lock_watermark, last_arrival, has_kv, route_name, route_version) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23, ?24, ?25, ?26, ?27, ?28)";
    let (route_name, route_version) = row.pending.route.as_ref().map_or(("", ""), Route::columns);
    let params = params![
        row.key,
        row.instance,
        row.incarnation.cast_signed(),
        row.name,
        row.version,
        row.parent_instance,
        row.parent_execution_id,
        row.parent_event_id,
        row.created_at,
        row.updated_at,
        row.status.code(),
        to_column(row.current_execution_id),
        row.pinned_key,
        row.pending.first_input,
        row.inbox_count,
        row.next_position,
        row.not_before,
        row.ready_at,
        row.suspect,
        row.suspect_before,
        row.lock.map(|lock| lock.nonce),
        row.lock.map(|lock| lock.visible_at),
        row.lock.map(|lock| lock.position),
        row.lock.map(|lock| lock.watermark),
        row.last_arrival,
        row.has_kv,
        route_name,
        route_version,
    ];
    db.execute(SQL, params)?;
    Ok(())
}

/// Writes the columns of the queue, those that stand in indexes only where they changed.
fn update_instance(db: &Db, row: &InstanceRow, before: Option<&Indexed>) -> Result<(), Fault> {
    const QUEUE: &str = queue_update!("");
    const READY: &str = queue_update!(", ready_at = ?14, suspect = ?15, pinned_key = ?16");
    const ROUTED: &str = queue_update!(
        ", ready_at = ?14, suspect = ?15, pinned_key = ?16, route_name = ?17, route_version = ?18"
    );
    let left = Indexed::left(row, before);
    let same_route = before.is_some_and(|before| before.route == left.route);
    let (sql, columns) = if before == Some(&left) {
        (QUEUE, 13)
    } else if same_route {
        (READY, 16)
    } else {
        (ROUTED, 18)
    };
    let (route_name, route_version) = left.route.columns();
    let params = params![
        row.key,
        row.updated_at,
        to_column(row.current_execution_id),
        row.has_kv,
        row.inbox_count,
        row.next_position,
        row.not_before,
        row.suspect_before,
        row.lock.map(|lock| lock.nonce),
        row.lock.map(|lock| lock.visible_at),
        row.lock.map(|lock| lock.position),
        row.lock.map(|lock| lock.watermark),
        row.last_arrival,
        row.ready_at,
        row.suspect,
        row.pinned_key,
        route_name,
        route_version,
    ];
    db.execute(sql, &params[..columns])?;
    Ok(())
}

/// After the inboxes are written.
fn write_cancels(db: &Db, rows: &Rows) -> Result<(), Fault> {
    const SQL: &str = "UPDATE instances SET cancels = \
         (SELECT count(*) FROM inbox n WHERE n.instance_key = ?1 AND n.kind = ?2) WHERE key = ?1";
    for row in rows.instances().filter(|row| row.pending.cancels) {
        db.execute(SQL, (row.key, ItemKind::Cancel.code()))?;
    }
    Ok(())
}

fn write_execution(db: &Db, key: i64, execution_id: u64, row: &ExecutionRow, now: Ms) -> Result<(), Fault> {
    const INSERT: &str = "INSERT INTO executions (instance_key, execution_id, status, completed_at, \
         pinned_major, pinned_minor, pinned_patch, event_count, last_event_id, history_bytes, output, failure, \
         started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    // The last parameter is for the insertion alone.
    const UPDATE: &str = "UPDATE executions SET status = ?3, completed_at = ?4, pinned_major = ?5, \
         pinned_minor = ?6, pinned_patch = ?7, event_count = ?8, last_event_id = ?9, history_bytes = ?10, \
         output = coalesce(?11, output), failure = coalesce(?12, failure) \
         WHERE instance_key = ?1 AND execution_id = ?2 AND ?13 IS NOT NULL";
    let sql = if row.is_stored { UPDATE } else { INSERT };
    let params = (
        key,
        to_column(execution_id),
        row.status.code(),
        row.completed_at,
        row.pinned.map(|pinned| pinned.major),
        row.pinned.map(|pinned| pinned.minor),
        row.pinned.map(|pinned| pinned.patch),
        row.event_count,
        to_column(row.last_event_id),
        row.history_bytes,
        &row.new_output,
        &row.new_failure,
        now,
    );
    db.execute(sql, params)?;
    Ok(())
}

fn write_history(db: &Db, events: &[HistoryRow]) -> Result<(), Fault> {
    const ONE: &str =
        "INSERT INTO history (instance_key, execution_id, event_id, event) VALUES (?1, ?2, ?3, ?4)";
    const TWO: &str = "INSERT INTO history (instance_key, execution_id, event_id, event) \
         VALUES (?1, ?2, ?3, ?4), (?5, ?6, ?7, ?8)";
    let refused = |event: &HistoryRow, error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => {
            Fault::Invalid(format!("event {} is already stored", event.event_id))
        }
        Some(_) | None => error.into(),
    };
    for events in events.chunks(2) {
        match events {
            [one, two] => {
                let params = (
                    one.key,
                    to_column(one.execution_id),
                    to_column(one.event_id),
                    &one.json,
                    two.key,
                    to_column(two.execution_id),
                    to_column(two.event_id),
                    &two.json,
                );
                db.execute(TWO, params).map_err(|error| refused(one, error))?;
            }
            events => {
                for one in events {
                    let params = (one.key, to_column(one.execution_id), to_column(one.event_id), &one.json);
                    db.execute(ONE, params).map_err(|error| refused(one, error))?;
                }
            }
        }
    }
    Ok(())
}

fn write_bounces(db: &Db, changes: &Changes, now: Ms) -> Result<(), Fault> {
    const SQL: &str = "UPDATE instances SET bounced_at = ?2, bounce = ?3 WHERE key = ?1";
    for (key, cause) in &changes.bounces {
        db.execute(SQL, (key, cause.as_ref().map(|_| now), cause))?;
    }
    Ok(())
}

fn write_state(db: &Db, changes: &Changes) -> Result<(), Fault> {
    const STATUS: &str = "INSERT INTO custom_statuses (instance_key, version, status) VALUES (?1, ?2, ?3) \
         ON CONFLICT (instance_key) DO UPDATE SET version = version + ?2, status = ?3";
    const SET: &str = "INSERT INTO kv (instance_key, key, last_updated_at_ms, value) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (instance_key, key) DO UPDATE SET last_updated_at_ms = ?3, value = ?4";
    for (key, times, status) in &changes.custom_statuses {
        db.execute(STATUS, (key, to_column(*times), status))?;
    }
    for key in &changes.kv.cleared {
        db.execute("DELETE FROM kv WHERE instance_key = ?1", [key])?;
    }
    for ((key, name), value) in &changes.kv.values {
        match value {
            Some((value, at)) => db.execute(SET, (key, name, to_column(*at), value))?,
            None => db.execute("DELETE FROM kv WHERE instance_key = ?1 AND key = ?2", (key, name))?,
        };
    }
    Ok(())
}

fn write_work(db: &Db, changes: &Changes, now: Ms, flushed: &mut Flushed) -> Result<(), Fault> {
    for (id, cause) in &changes.aside_work {
        const SQL: &str = "INSERT INTO set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
             SELECT instance_id, ?2, execution_id, activity_id, ?3, ?4, item FROM work_items WHERE id = ?1";
        db.execute(SQL, (id, ItemKind::Activity.code(), now, cause))?;
    }
    for (id, _) in &changes.deleted_work {
        db.execute("DELETE FROM work_items WHERE id = ?1", [id])?;
    }
    for (id, change) in &changes.work {
        change_work(db, *id, change, now)?;
    }
    for (id, details) in &changes.progress {
        db.execute("UPDATE work_items SET progress = ?2 WHERE id = ?1", (id, details))?;
    }
    for id in &changes.forgiven {
        let sql = "UPDATE work_items SET forgiven = min(forgiven, 4294967294) + 1 WHERE id = ?1";
        db.execute(sql, [id])?;
    }
    for work in &changes.new_work {
        let id = insert_work(db, work, now)?;
        flushed.work_ids.extend(work.lock.map(|lock| lock.nonce).zip(id));
    }
    for place in &changes.touched {
        sessions::queue_changed(db, place)?;
    }
    for used in &changes.session_uses {
        sessions::note_use(db, &used.session_id, now, used.item_locked_until)?;
    }
    Ok(())
}

fn change_work(db: &Db, id: i64, change: &WorkChange, now: Ms) -> Result<(), Fault> {
    // A renewal leaves the rest as it is, and the index by name, which holds what is not suspect.
    const SQL: &str = "UPDATE work_items SET lock_nonce = ?2, visible_at = ?3, ready_at = ?4, suspect = ?5, \
         suspect_before = ?6, attempts = ?7, delayed_at = iif(?8, ?10, delayed_at), \
         waiting_since = iif(?8, coalesce(waiting_since, visible_at), waiting_since), \
         bounced_at = iif(?9 IS NULL, bounced_at, ?10), bounce = coalesce(?9, bounce) WHERE id = ?1";
    let params = (
        id,
        change.nonce.unwrap_or(UNLOCKED),
        change.visible_at,
        change.ready_at,
        change.suspect,
        change.suspect_before,
        change.attempts,
        change.delayed,
        &change.cause,
        now,
    );
    db.execute(SQL, params)?;
    Ok(())
}

/// Queues an activity unless it is queued already; its id if it was not.
fn insert_work(db: &Db, work: &NewWork, now: Ms) -> Result<Option<i64>, Fault> {
    const SQL: &str = "INSERT INTO work_items (instance_id, execution_id, activity_id, name, tag, session_id, visible_at, \
         ready_at, lock_nonce, suspect, attempts, item) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11) \
         ON CONFLICT (instance_id, execution_id, activity_id) DO NOTHING";
    let params = (
        &work.instance,
        to_column(work.execution_id),
        to_column(work.activity_id),
        &work.place.name,
        &work.place.tag,
        &work.place.session_id,
        now,
        work.lock.map_or(now, |lock| lock.expires_at),
        work.lock.map_or(UNLOCKED, |lock| lock.nonce),
        i64::from(work.lock.is_some()),
        &work.json,
    );
    let inserted = db.execute(SQL, params)?;
    Ok((inserted > 0).then(|| db.last_key()))
}

fn write_early(db: &Db, changes: &Changes, now: Ms) -> Result<(), Fault> {
    const KEEP: &str = "INSERT INTO early_messages (instance_id, position, visible_at, kept_at, item) \
         VALUES (?1, ?2, ?3, ?4, ?5)";
    // Only events are kept, and none is admitted before the start. Those without a delay keep their order, whatever the
    // clock said when they came.
    const ADMIT: &str = "INSERT INTO inbox (instance_key, visible_at, position, kind, item) \
         SELECT ?2, CASE WHEN visible_at > kept_at THEN max(visible_at, ?3) ELSE ?3 END, \
           ?4 + row_number() OVER (ORDER BY position) - 1, ?5, item \
         FROM early_messages WHERE instance_id = ?1";
    for early in &changes.early {
        db.execute(KEEP, (&early.instance, early.position, early.visible_at, now, &early.json))?;
    }
    for admitted in &changes.admitted_early {
        let (key, start_at, first) = (admitted.key, admitted.start_at, admitted.first_position);
        db.execute(ADMIT, (&admitted.instance, key, start_at, first, ItemKind::Event.code()))?;
        db.execute("DELETE FROM early_messages WHERE instance_id = ?1", [&admitted.instance])?;
    }
    Ok(())
}

/// How the rows are from now on.
fn remember(rows: &Rows, indexed: &HashMap<i64, Indexed>, remembered: &mut Remembered) {
    let changes = rows.changes();
    remembered.nothing_early &= changes.early.is_empty();
    changes.deleted_work.iter().for_each(|(id, _)| remembered.forget_work(*id));
    for row in rows.instances() {
        let left = Indexed::left(row, indexed.get(&row.key));
        remembered.note_instance(row, left, rows.execution(row.key, row.current_execution_id));
    }
    for row in rows.work() {
        remembered.note_work(WorkRow { stored_nonce: row.nonce, ..row.clone() });
    }
}
