//! What became of an item that was enqueued, told by the transaction that did it.

use std::time::Duration;

use duroxide_core::{Event, FirstInput, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, ItemKind, WorkItem};
use duroxide_provider::support::Placed;
use duroxide_provider::{Enqueued, StartOutcome};

use super::enqueue::{self, EncodedItem};
use super::fault::Fault;
use super::tx::Tx;
use super::values::{from_json, to_column};

/// Puts a client's message where it belongs, and tells where that was.
pub(super) fn enqueue_checked(
    tx: &mut Tx<'_>,
    item: &EncodedItem,
    delay: Option<Duration>,
) -> Result<Enqueued, Fault> {
    Ok(match enqueue::enqueue_for_orchestrator(tx, item, delay)? {
        Placed::Started => Enqueued::Start(StartOutcome::Started),
        Placed::IdTaken => Enqueued::Start(existing(tx, &item.item)?),
        Placed::Message(outcome) => Enqueued::Message(outcome),
    })
}

/// The instance that has the id of a start.
fn existing(tx: &Tx<'_>, start: &WorkItem) -> Result<StartOutcome, Fault> {
    const SQL: &str = "SELECT key, name, first_input FROM instances WHERE instance_id = ?1";
    let found = tx.db.first(SQL, [start.instance()], |row| {
        let fingerprint: Option<i64> = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, fingerprint.map(i64::cast_unsigned)))
    })?;
    let (key, orchestration, fingerprint): (i64, String, Option<u64>) =
        found.ok_or_else(|| Fault::Corrupt("an instance whose id is taken is not there".to_string()))?;
    let same_input = match fingerprint {
        Some(_) => FirstInput { fingerprint, ..FirstInput::default() }.is_of(start),
        None => is_stored_input(tx, key, start)?,
    };
    Ok(StartOutcome::AlreadyExists { orchestration, same_input })
}

/// Compares with the input itself, for rows of builds that wrote no fingerprint.
fn is_stored_input(tx: &Tx<'_>, key: i64, start: &WorkItem) -> Result<bool, Fault> {
    const EVENT: &str =
        "SELECT event FROM history WHERE instance_key = ?1 AND execution_id = ?2 AND event_id = ?3";
    const START: &str = "SELECT item FROM inbox WHERE instance_key = ?1 AND kind = ?2 \
         ORDER BY visible_at, position LIMIT 1";
    let first = (key, to_column(INITIAL_EXECUTION_ID), to_column(INITIAL_EVENT_ID));
    // What does not decode is not known.
    let started = tx.db.first(EVENT, first, |row| Ok(from_json::<Event>(row.get_ref(0)?).ok()))?;
    let waiting = tx
        .db
        .first(START, (key, ItemKind::Start.code()), |row| Ok(from_json::<WorkItem>(row.get_ref(0)?).ok()))?;
    let (started, waiting) = (started.flatten(), waiting.flatten());
    Ok(FirstInput { fingerprint: None, started: started.as_ref(), start: waiting.as_ref() }.is_of(start))
}
