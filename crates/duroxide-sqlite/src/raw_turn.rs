//! A turn on its way to whoever fetched it: what is read besides the messages.

use std::collections::HashMap;

use duroxide_core::{BounceCause, ParentLink, WorkItem};
use duroxide_provider::rules::{InboxRow, InstanceRow, ServedTurn, Token};
use duroxide_provider::{
    ExpiredLock, FetchedTurn, HeldHistory, HistoryPart, KvEntry, OrchestrationItem, TurnFacts, TurnRequest,
};
use rusqlite::types::ValueRef;

use super::damaged;
use super::db::Db;
use super::fault::Fault;
use super::history::{self, StoredEvent};
use super::values::{Ms, from_column, from_json};

/// A locked instance whose history is still encoded.
#[derive(Debug)]
pub(super) struct RawTurn {
    turn: FetchedTurn,
    history: Vec<StoredEvent>,
}

impl RawTurn {
    /// Whether its lock had expired before.
    pub(super) fn is_suspect(&self) -> bool {
        self.turn.facts.as_ref().is_some_and(|facts| facts.suspect)
    }

    pub(super) fn lock_token(&self) -> &str {
        &self.turn.lock_token
    }

    /// Decodes the history. Done by whoever asked, not by the thread that everybody waits for.
    pub(super) fn decode(self) -> FetchedTurn {
        let mut turn = self.turn;
        match history::decode(self.history) {
            Ok(events) => turn.item.history = events,
            Err(error) => {
                turn.item.history_error =
                    Some(format!("event at position {}: {}", error.event_id, error.cause));
            }
        }
        turn
    }
}

/// Whether whoever asks holds the execution as it is stored.
pub(super) fn is_held(row: &InstanceRow, last_event_id: u64, request: &TurnRequest) -> bool {
    let stored =
        HeldHistory { incarnation: row.incarnation, execution_id: row.current_execution_id, last_event_id };
    request.held.held(&row.instance) == Some(stored)
}

/// What a turn is told of the attempts before it.
pub(super) struct Facts {
    pub(super) suspect: bool,
    pub(super) expired: Option<ExpiredLock>,
    pub(super) last_event_id: u64,
    pub(super) last_cause: Option<BounceCause>,
}

/// The messages of a turn.
pub(super) struct Messages {
    pub(super) items: Vec<WorkItem>,
    pub(super) attempts: u32,
    pub(super) error: Option<String>,
}

/// Reads what else belongs to a turn that is locked.
pub(super) fn raw_turn(
    db: &Db,
    now: Ms,
    row: &InstanceRow,
    token: Token,
    messages: Messages,
    facts: Facts,
    request: &TurnRequest,
) -> Result<RawTurn, Fault> {
    let (part, events) = if messages.error.is_some() {
        (HistoryPart::Whole, Vec::new())
    } else if is_held(row, facts.last_event_id, request) {
        (HistoryPart::Held, Vec::new())
    } else if facts.last_event_id == 0 {
        // Before the first turn there is nothing to read.
        (HistoryPart::Whole, Vec::new())
    } else {
        (HistoryPart::Whole, history::read_stored(db, row.key, row.current_execution_id)?)
    };
    let (kv_snapshot, kv_error) = match part {
        HistoryPart::Held => (HashMap::new(), None),
        HistoryPart::Whole => kv_snapshot(db, row)?,
    };
    let parent = ParentLink::from_fields(
        row.parent_instance.as_deref(),
        row.parent_execution_id.map(from_column),
        row.parent_event_id.map(from_column),
    );
    let turn = FetchedTurn {
        item: OrchestrationItem {
            kv_snapshot,
            instance: row.instance.clone(),
            orchestration_name: row.name.clone(),
            execution_id: row.current_execution_id,
            version: row.version.clone(),
            history: Vec::new(),
            messages: messages.items,
            history_error: messages.error.or(kv_error),
        },
        lock_token: token.text(),
        attempts: messages.attempts,
        facts: Some(TurnFacts {
            now_ms: from_column(now),
            suspect: facts.suspect,
            expired: facts.expired,
            incarnation: row.incarnation,
            created_at_ms: from_column(row.created_at),
            last_event_id: facts.last_event_id,
            parent,
            history: part,
            last_cause: facts.last_cause,
        }),
    };
    Ok(RawTurn { turn, history: events })
}

/// The turn of an instance that was locked by the group that made it ready.
pub(super) fn served_turn(
    db: &Db,
    served: ServedTurn,
    now: Ms,
    request: &TurnRequest,
) -> Result<RawTurn, Fault> {
    let ServedTurn { token, row, execution, messages, .. } = served;
    let decode = |message: &InboxRow| from_json::<WorkItem>(ValueRef::Text(message.json.as_bytes()));
    let (items, error) = match messages.iter().map(decode).collect::<Result<Vec<WorkItem>, String>>() {
        Ok(items) => (items, None),
        Err(cause) => (Vec::new(), Some(format!("a message: {cause}"))),
    };
    let facts =
        Facts { suspect: false, expired: None, last_event_id: execution.last_event_id, last_cause: None };
    raw_turn(db, now, &row, token, Messages { items, attempts: 1, error }, facts, request)
}

/// The values of an instance, and what is wrong with them if they cannot be read.
fn kv_snapshot(db: &Db, row: &InstanceRow) -> Result<(HashMap<String, KvEntry>, Option<String>), Fault> {
    const SQL: &str = "SELECT key, value, last_updated_at_ms FROM kv WHERE instance_key = ?1";
    if !row.has_kv {
        return Ok((HashMap::new(), None));
    }
    let entries = db.all(SQL, [row.key], |found| {
        Ok((found.get(0)?, KvEntry { value: found.get(1)?, last_updated_at_ms: from_column(found.get(2)?) }))
    });
    match entries {
        Ok(entries) => Ok((entries.into_iter().collect(), None)),
        Err(error) => match damaged::cause_of(&error) {
            Some(cause) => Ok((HashMap::new(), Some(format!("the stored KV values: {cause}")))),
            None => Err(error.into()),
        },
    }
}
