//! Rows that cannot be read, although SQLite returns them: a text that is not UTF-8, an unknown status, half a lock.
//!
//! A fetch that fails for such a row would fail for everybody, since it comes first again and again. The instance is
//! ended instead: it is failed with the cause, listed among what was set aside, and what cannot be read of its row is
//! replaced, so that it can be named, listed, and deleted. As at every end its parent is told and its children are
//! cancelled.

use duroxide_core::{ErrorDetails, Event, EventKind, ItemKind, ParentLink, WorkItem, columns_of};
use duroxide_provider::rules::{Call, EncodedItem};
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

use super::db::Db;
use super::fault::Fault;
use super::instance_row::Status;
use super::tx::Tx;
use super::values::{from_column, from_json, to_json};

/// The texts of an instance's row.
const TEXTS: [&str; 6] = ["instance_id", "name", "version", "parent_instance", "route_name", "route_version"];

/// A text that may be damaged: what is not UTF-8 is replaced.
pub(super) fn lossy(row: &Row<'_>, at: usize) -> rusqlite::Result<String> {
    optional_lossy(row, at).map(Option::unwrap_or_default)
}

/// The same for a column that may be NULL.
pub(super) fn optional_lossy(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(text) | ValueRef::Blob(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}

/// Whether a text can be read.
pub(super) fn is_readable(row: &Row<'_>, at: usize) -> rusqlite::Result<bool> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(text) => std::str::from_utf8(text).is_ok(),
        ValueRef::Null => true,
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => false,
    })
}

/// Whether a call failed because of what a row holds, not because of the store; then what is wrong with it. The text
/// quotes no value.
pub(super) fn cause(fault: &Fault) -> Option<String> {
    let Fault::Storage(error) = fault else { return None };
    cause_of(error)
}

/// The same for SQLite's own error.
pub(super) fn cause_of(error: &rusqlite::Error) -> Option<String> {
    if let rusqlite::Error::Utf8Error(column, _) = error {
        Some(format!("column {column} is not valid UTF-8"))
    } else if let rusqlite::Error::FromSqlConversionFailure(column, found, _) = error {
        let what = if *found == Type::Text { "text that is not valid UTF-8" } else { "an unknown value" };
        Some(format!("column {column} holds {what}"))
    } else if let rusqlite::Error::InvalidColumnType(_, column, found) = error {
        Some(format!("column {column} has the type {found}"))
    } else if let rusqlite::Error::IntegralValueOutOfRange(_, _) = error {
        Some("status or last_event_id is no possible value".to_string())
    } else {
        None
    }
}

/// Ends an instance whose row cannot be read, and lists it. Its messages stay until it is deleted.
pub(super) fn end_instance(tx: &mut Tx<'_>, key: i64, cause: &str) -> Result<(), Fault> {
    const ASIDE: &str =
        "INSERT INTO set_aside (instance_id, kind, set_aside_at, cause, item) VALUES (?1, ?2, ?3, ?4, ?5)";
    const END: &str = "UPDATE instances SET status = ?2, ended_at = ?3, updated_at = ?3, ready_at = NULL, suspect = 0, \
         suspect_before = 0, not_before = 0, lock_nonce = NULL, lock_visible_at = NULL, lock_position = NULL, \
         lock_watermark = NULL WHERE key = ?1";
    /// The row of the execution may be gone.
    const FAIL: &str = "INSERT INTO executions (instance_key, execution_id, status, started_at, completed_at, failure) \
         SELECT key, current_execution_id, ?2, created_at, ?3, ?4 FROM instances WHERE key = ?1 \
         ON CONFLICT (instance_key, execution_id) DO UPDATE SET status = excluded.status, \
         completed_at = excluded.completed_at, failure = excluded.failure, output = NULL";
    /// No kind of message or work item.
    const ROW: i64 = 0;
    tx.changes_rows();
    let (instance, damaged) = replace_texts(tx.db, key)?;
    let cause = if damaged.is_empty() {
        format!("the row of the instance cannot be read: {cause}")
    } else {
        format!("the row of the instance cannot be read: {} not valid UTF-8", damaged.join(", "))
    };
    let details = ErrorDetails::Infrastructure {
        operation: "fetch_orchestration_item".to_string(),
        message: cause.clone(),
        retryable: false,
    };
    tx.db.execute(FAIL, (key, Status::Failed.code(), tx.now, to_json(&details)?))?;
    tx.db.execute(END, (key, Status::Failed.code(), tx.now))?;
    tx.db.execute(ASIDE, (&instance, ROW, tx.now, &cause, ""))?;
    tracing::error!(target: "duroxide::runtime", instance_id = %instance, %cause, "an instance was ended because its row is damaged");
    tx.effects.set_aside += 1;
    tx.effects.changed.push(instance.clone());
    tell_parent(tx, key, details)?;
    cancel_children(tx, &instance)
}

/// Tells the parent of an instance that was ended, if it has one. Its own row is in order by then.
fn tell_parent(tx: &mut Tx<'_>, key: i64, details: ErrorDetails) -> Result<(), Fault> {
    const SQL: &str =
        "SELECT parent_instance, parent_execution_id, parent_event_id FROM instances WHERE key = ?1";
    let link = tx.db.first(SQL, [key], |row| {
        let (execution_id, event_id): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let instance: Option<String> = row.get(0)?;
        Ok(ParentLink::from_fields(
            instance.as_deref(),
            execution_id.map(from_column),
            event_id.map(from_column),
        ))
    })?;
    let Some(parent) = link.flatten() else { return Ok(()) };
    let failed = WorkItem::SubOrchFailed {
        parent_instance: parent.instance,
        parent_execution_id: parent.execution_id,
        parent_id: parent.event_id,
        details,
    };
    tx.apply(&Call::Deliver { item: EncodedItem::new(failed)? }).map(drop)
}

/// Cancels the children of an instance that was ended.
fn cancel_children(tx: &mut Tx<'_>, instance: &str) -> Result<(), Fault> {
    const SQL: &str = "SELECT instance_id FROM instances WHERE parent_instance = ?1 AND status = ?2";
    for child in tx.db.all(SQL, (instance, Status::Running.code()), |row| lossy(row, 0))? {
        let reason = format!("the parent '{instance}' was ended because its row is damaged");
        let cancel = WorkItem::CancelInstance { instance: child, reason };
        tx.apply(&Call::Deliver { item: EncodedItem::new(cancel)? })?;
    }
    Ok(())
}

/// The parent of an instance as its history, or the start that has not been taken yet, names it.
fn recorded_parent(db: &Db, key: i64) -> Result<Option<String>, Fault> {
    const STARTED: &str = "SELECT h.event FROM history h JOIN instances i ON i.key = h.instance_key \
         WHERE h.instance_key = ?1 AND h.execution_id = i.current_execution_id AND h.event_id = 1";
    const START: &str = "SELECT item FROM inbox WHERE instance_key = ?1 AND kind = ?2";
    let started = db.first(STARTED, [key], |row| Ok(from_json::<Event>(row.get_ref(0)?)))?;
    if let Some(Ok(event)) = started
        && let EventKind::OrchestrationStarted { parent_instance, .. } = event.kind
    {
        return Ok(parent_instance);
    }
    let start =
        db.first(START, (key, ItemKind::Start.code()), |row| Ok(from_json::<WorkItem>(row.get_ref(0)?)))?;
    Ok(start.and_then(Result::ok).and_then(|item| columns_of(&item).parent.map(|link| link.instance)))
}

/// Replaces the texts of an instance that cannot be read; its id, and which those are.
fn replace_texts(db: &Db, key: i64) -> Result<(String, Vec<&'static str>), Fault> {
    const SQL: &str = "SELECT instance_id, name, version, parent_instance, route_name, route_version FROM instances \
         WHERE key = ?1";
    let found = db.first(SQL, [key], |row| {
        let mut texts = Vec::new();
        for (at, column) in TEXTS.iter().enumerate() {
            texts.push((*column, lossy(row, at)?, is_readable(row, at)?));
        }
        Ok(texts)
    })?;
    let mut instance = String::new();
    let mut damaged = Vec::new();
    for (column, text, readable) in found.unwrap_or_default() {
        // Another instance may have the same id once bytes are replaced.
        let text = if column == "instance_id" && !readable { format!("{text}-{key}") } else { text };
        if !readable {
            damaged.push(column);
            // A parent that cannot be named anywhere is none.
            let new =
                if column == "parent_instance" { recorded_parent(db, key)? } else { Some(text.clone()) };
            db.execute(&format!("UPDATE instances SET {column} = ?2 WHERE key = ?1"), (key, new))?;
        }
        if column == "instance_id" {
            instance = text;
        }
    }
    Ok((instance, damaged))
}
