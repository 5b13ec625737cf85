//! Reading histories.

use duroxide_core::Event;
use rusqlite::types::ValueRef;

use super::db::Db;
use super::fault::Fault;
use super::values::{from_column, from_json, to_column};

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
