//! Histories: appending to them and reading them.

use duroxide_core::{Event, KvChange, StateChanges, route_after_turn, state_changes};
use rusqlite::ErrorCode;
use rusqlite::types::ValueRef;

use super::db::Db;
use super::execution_row::ExecutionRow;
use super::fault::Fault;
use super::instance_row::{NOT_PINNED, QueueRow};
use super::tx::Tx;
use super::values::{from_column, from_json, to_column, to_json};

/// An event with its stored form, which is made before the writer is asked where the id is known by then.
#[derive(Debug)]
pub(super) struct EncodedEvents {
    events: Vec<Event>,
    json: Vec<String>,
}

impl EncodedEvents {
    pub(super) fn new(events: Vec<Event>) -> Result<Self, Fault> {
        let unnumbered = events.iter().any(|event| event.event_id == 0);
        let json =
            if unnumbered { Vec::new() } else { events.iter().map(to_json).collect::<Result<_, _>>()? };
        Ok(Self { events, json })
    }

    pub(super) fn bytes(&self) -> usize {
        self.json.iter().map(String::len).sum()
    }

    /// Gives events without an id the next one.
    fn number(&mut self, last_event_id: u64) -> Result<(), Fault> {
        if self.json.len() == self.events.len() {
            return Ok(());
        }
        let mut last = last_event_id;
        for event in &mut self.events {
            if event.event_id == 0 {
                event.event_id = last + 1;
            }
            last = last.max(event.event_id);
        }
        self.json = self.events.iter().map(to_json).collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// Appends events and makes the changes that they stand for. `row` and `execution` are changed accordingly;
/// the caller saves them.
pub(super) fn append(
    tx: &mut Tx<'_>,
    row: &mut QueueRow,
    execution: &mut ExecutionRow,
    execution_id: u64,
    delta: &mut EncodedEvents,
) -> Result<Appended, Fault> {
    let id = (row.key, to_column(execution_id));
    if execution_id > row.current_execution_id {
        row.current_execution_id = execution_id;
        row.pinned_key = NOT_PINNED;
    }
    delta.number(execution.last_event_id)?;
    insert_events(tx.db, id, delta, execution)?;
    let changes = state_changes(&delta.events);
    if let Some(failure) = changes.failure {
        execution.new_failure = Some(to_json(failure)?);
    }
    apply_changes(tx, row, id, &changes)
}

/// What appended events changed for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// The custom status or the KV store.
    State,
    /// The history alone.
    HistoryOnly,
}

pub(super) fn insert_events(
    db: &Db,
    id: (i64, i64),
    delta: &EncodedEvents,
    execution: &mut ExecutionRow,
) -> Result<(), Fault> {
    const SQL: &str =
        "INSERT INTO history (instance_key, execution_id, event_id, event) VALUES (?1, ?2, ?3, ?4)";
    for (event, json) in delta.events.iter().zip(&delta.json) {
        match db.execute(SQL, (id.0, id.1, to_column(event.event_id), json)) {
            Ok(_) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                return Err(Fault::Invalid(format!("event {} is already stored", event.event_id)));
            }
            Err(error) => return Err(error.into()),
        }
        execution.event_count = execution.event_count.saturating_add(1);
        execution.last_event_id = execution.last_event_id.max(event.event_id);
        execution.history_bytes = execution.history_bytes.saturating_add(rows(json.len()));
    }
    Ok(())
}

fn apply_changes(
    tx: &mut Tx<'_>,
    row: &mut QueueRow,
    id: (i64, i64),
    changes: &StateChanges<'_>,
) -> Result<Appended, Fault> {
    const STATUS: &str = "INSERT INTO custom_statuses (instance_key, version, status) VALUES (?1, ?2, ?3) \
         ON CONFLICT (instance_key) DO UPDATE SET version = version + ?2, status = ?3";
    if let Some(change) = &changes.custom_status {
        tx.db.execute(STATUS, (row.key, to_column(change.times), change.status))?;
    }
    apply_kv(tx.db, row, &changes.kv)?;
    for event_id in &changes.cancelled_timers {
        const ONE: &str = "DELETE FROM inbox INDEXED BY inbox_timers \
             WHERE kind = 5 AND instance_key = ?1 AND execution_id = ?2 AND event_id = ?3";
        row.inbox_count -= rows(tx.db.execute(ONE, (id.0, id.1, to_column(*event_id)))?);
    }
    if changes.drops_all_timers {
        drop_timers(tx.db, row, id.1)?;
    }
    let visible = changes.custom_status.is_some() || !changes.kv.is_empty();
    Ok(if visible { Appended::State } else { Appended::HistoryOnly })
}

/// Deletes all timers of an execution.
pub(super) fn drop_timers(db: &Db, row: &mut QueueRow, execution_id: i64) -> Result<(), Fault> {
    const ALL: &str = "DELETE FROM inbox INDEXED BY inbox_timers \
         WHERE kind = 5 AND instance_key = ?1 AND execution_id = ?2";
    if row.inbox_count != 0 {
        row.inbox_count -= rows(db.execute(ALL, (row.key, execution_id))?);
    }
    Ok(())
}

fn apply_kv(db: &Db, row: &mut QueueRow, changes: &[KvChange<'_>]) -> rusqlite::Result<()> {
    const SET: &str = "INSERT INTO kv (instance_key, key, last_updated_at_ms, value) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (instance_key, key) DO UPDATE SET last_updated_at_ms = ?3, value = ?4";
    for change in changes {
        match change {
            KvChange::Set { key, value, last_updated_at_ms } => {
                db.execute(SET, (row.key, key, to_column(*last_updated_at_ms), value))?;
                row.has_kv = true;
            }
            KvChange::Clear { key } => {
                db.execute("DELETE FROM kv WHERE instance_key = ?1 AND key = ?2", (row.key, key))?;
            }
            KvChange::ClearAll => {
                db.execute("DELETE FROM kv WHERE instance_key = ?1", [row.key])?;
                row.has_kv = false;
            }
        }
    }
    Ok(())
}

/// A count of rows, as a column counts.
pub(super) fn rows(changed: usize) -> i64 {
    i64::try_from(changed).unwrap_or(i64::MAX)
}

/// One event as it is stored.
#[derive(Debug)]
pub(super) struct StoredEvent {
    event_id: u64,
    /// `Err` when it is not even text.
    json: Result<String, String>,
}

/// The events of one execution, still encoded: whoever asked decodes them, not the thread that reads.
pub(super) fn read_stored(db: &Db, key: i64, execution_id: u64) -> rusqlite::Result<Vec<StoredEvent>> {
    const SQL: &str = "SELECT event_id, event FROM history WHERE instance_key = ?1 AND execution_id = ?2 \
         ORDER BY event_id";
    db.all(SQL, (key, to_column(execution_id)), stored_event)
}

/// The last events of one execution, in their order.
fn read_last(db: &Db, key: i64, execution_id: u64, count: u32) -> rusqlite::Result<Vec<StoredEvent>> {
    const SQL: &str = "SELECT event_id, event FROM history WHERE instance_key = ?1 AND execution_id = ?2 \
         ORDER BY event_id DESC LIMIT ?3";
    let mut last = db.all(SQL, (key, to_column(execution_id), count), stored_event)?;
    last.reverse();
    Ok(last)
}

fn stored_event(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    let json = match row.get_ref(1)? {
        ValueRef::Text(text) => {
            std::str::from_utf8(text).map(str::to_string).map_err(|_| "not valid UTF-8".to_string())
        }
        other @ (ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_)) => {
            Err(format!("{:?} where text belongs", other.data_type()))
        }
    };
    Ok(StoredEvent { event_id: from_column(row.get(0)?), json })
}

/// An event that does not decode.
#[derive(Debug)]
pub(super) struct Undecodable {
    pub(super) event_id: u64,
    pub(super) cause: String,
}

/// The events behind their stored form, or the first that does not decode.
pub(super) fn decode(stored: Vec<StoredEvent>) -> Result<Vec<Event>, Undecodable> {
    let decode_one = |event: StoredEvent| {
        let decoded = event.json.and_then(|json| from_json(ValueRef::Text(json.as_bytes())));
        decoded.map_err(|cause| Undecodable { event_id: event.event_id, cause })
    };
    stored.into_iter().map(decode_one).collect()
}

/// Appends without a lock, for tools and tests.
pub(super) fn append_with_execution(
    tx: &mut Tx<'_>,
    instance: &str,
    execution_id: u64,
    delta: &mut EncodedEvents,
) -> Result<(), Fault> {
    const SQL: &str =
        "UPDATE instances SET current_execution_id = ?2, pinned_key = ?3, has_kv = ?4 WHERE key = ?1";
    const ROUTE: &str = "UPDATE instances SET route_name = ?2, route_version = ?3 WHERE key = ?1";
    let mut row =
        QueueRow::by_id(tx.db, instance)?.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
    let mut execution = ExecutionRow::load(tx, row.key, execution_id)?;
    if execution_id >= row.current_execution_id
        && let Some(route) = route_after_turn(instance, state_changes(&delta.events).began, false, [])
    {
        let (name, version) = route.columns();
        tx.db.execute(ROUTE, (row.key, name, version))?;
    }
    append(tx, &mut row, &mut execution, execution_id, delta)?;
    execution.save(tx, row.key, execution_id)?;
    if row.lock.is_none() {
        row.recompute_ready_at(tx)?;
    }
    row.save(tx.db)?;
    tx.db.execute(SQL, (row.key, to_column(row.current_execution_id), row.pinned_key, row.has_kv))?;
    tx.effects.changed.push(instance.to_string());
    Ok(())
}

/// The events of an execution, of the latest without an id, and which execution that is; empty for an
/// unknown one. `last` limits them to so many at the end.
pub(super) fn read(
    db: &Db,
    instance: &str,
    execution_id: Option<u64>,
    last: Option<u32>,
) -> Result<(u64, Vec<StoredEvent>), Fault> {
    const SQL: &str = "SELECT key, current_execution_id FROM instances WHERE instance_id = ?1";
    db.snapshot(|db| {
        let found: Option<(i64, i64)> = db.first(SQL, [instance], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((key, current)) = found else { return Ok((execution_id.unwrap_or(0), Vec::new())) };
        let execution_id = execution_id.unwrap_or(from_column(current));
        Ok(match last {
            None => (execution_id, read_stored(db, key, execution_id)?),
            Some(count) => (execution_id, read_last(db, key, execution_id, count)?),
        })
    })
}
