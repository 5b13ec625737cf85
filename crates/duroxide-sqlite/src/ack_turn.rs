//! The commit of a turn: everything it did, or nothing.

use duroxide_core::redrive::{KeptMessages, kept_after_failure};
use duroxide_core::{
    Event, ExecutionMetadata, ItemKind, Route, ScheduledActivityIdentifier, WorkItem, cancel_reaches,
    columns_of, pack_version, route_after_turn, state_changes,
};

use super::enqueue::{
    EncodedItem, FullInbox, Start, check_message, create_execution, deliver, put_message, start,
};
use super::execution_row::{ExecutionRow, execution_columns};
use super::fault::Fault;
use super::history::{Appended, EncodedEvents, append, drop_timers, rows};
use super::instance_row::{NOT_PINNED, QUEUE_COLUMNS, QueueRow, Status, queue_columns};
use super::redrive;
use super::token::Token;
use super::tx::Tx;
use super::values::{Ms, to_column};
use super::work;

/// What a turn commits, in its stored form.
#[derive(Debug)]
pub(super) struct TurnCommit {
    execution_id: u64,
    history_delta: EncodedEvents,
    worker_items: Vec<EncodedItem>,
    orchestrator_items: Vec<EncodedItem>,
    metadata: ExecutionMetadata,
    status: Option<Status>,
    kept: Option<KeptMessages>,
    cancelled_activities: Vec<ScheduledActivityIdentifier>,
    /// What the execution began as in this turn.
    began: Option<Route>,
}

impl TurnCommit {
    /// Checks everything that can be wrong by itself, and encodes.
    pub(super) fn new(
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<Self, Fault> {
        worker_items.iter().try_for_each(work::check_work)?;
        orchestrator_items.iter().try_for_each(check_message)?;
        let status = match &metadata.status {
            Some(word) => {
                let status = Status::from_word(word);
                Some(status.ok_or_else(|| Fault::Invalid(format!("unknown status '{word}'")))?)
            }
            None => None,
        };
        let began = state_changes(&history_delta).began;
        let began = route_after_turn("", began, false, []);
        Ok(Self {
            execution_id,
            kept: kept_after_failure(&history_delta),
            began,
            history_delta: EncodedEvents::new(history_delta)?,
            worker_items: EncodedItem::all(worker_items)?,
            orchestrator_items: EncodedItem::all(orchestrator_items)?,
            metadata,
            status,
            cancelled_activities,
        })
    }

    /// What it weighs in a group.
    pub(super) fn bytes(&self) -> usize {
        let items = self.worker_items.iter().chain(&self.orchestrator_items);
        self.history_delta.bytes() + items.map(|item| item.json.len()).sum::<usize>()
    }
}

/// Commits a turn.
pub(super) fn ack(tx: &mut Tx<'_>, token: Token, commit: &mut TurnCommit) -> Result<(), Fault> {
    let (mut row, about, mut execution) = load_held(tx, token, commit.execution_id)?;
    if let Some(kept) = commit.kept.take() {
        redrive::keep_messages(tx, &row, kept)?;
    }
    delete_locked_messages(tx, &mut row)?;
    row.lock = None;
    row.suspect = false;
    row.suspect_before = false;
    row.not_before = 0;
    let route = route(&row, &about, commit);
    let delta = &mut commit.history_delta;
    let appended = append(tx, &mut row, &mut execution, commit.execution_id, delta)?;
    write_metadata(tx, &mut row, &mut execution, commit)?;
    execution.save(tx, row.key, commit.execution_id)?;
    rename(tx, &row, &about, &commit.metadata)?;
    for item in &commit.worker_items {
        work::put(tx, item)?;
    }
    for cancelled in &commit.cancelled_activities {
        work::cancel(tx, cancelled)?;
    }
    let mut own = Own { row, instance: &about.instance, front: None };
    for item in &commit.orchestrator_items {
        send(tx, &mut own, item)?;
    }
    let mut row = own.row;
    if row.status.ends_instance() {
        drop_inbox(tx, &mut row)?;
    }
    row.recompute_ready_at(tx)?;
    save(tx, &row, &route)?;
    if about.bounced {
        let sql = "UPDATE instances SET bounced_at = NULL, bounce = NULL WHERE key = ?1";
        tx.db.execute(sql, [row.key])?;
    }
    if row.status.ends_instance() {
        // Apart from the rest: most turns end nothing, and these columns are indexed.
        let sql = "UPDATE instances SET status = ?2, ended_at = ?3 WHERE key = ?1";
        tx.db.execute(sql, (row.key, row.status.code(), tx.now))?;
    }
    if appended == Appended::State || row.status.ends_instance() {
        tx.effects.changed.push(about.instance);
    }
    Ok(())
}

/// Refuses a call that is wrong in itself, unless its lock is lost, which is what the caller must know first.
pub(super) fn refuse(tx: &Tx<'_>, token: Token, fault: Fault) -> Result<(), Fault> {
    QueueRow::held_by(tx, token)?;
    Err(fault)
}

/// The handler that the instance needs after the turn.
fn route(row: &QueueRow, about: &Description, commit: &TurnCommit) -> Route {
    let of_current = commit.execution_id >= row.current_execution_id;
    let changed = if of_current {
        let continues = commit.status == Some(Status::ContinuedAsNew);
        let messages = commit.orchestrator_items.iter().map(|item| &item.item);
        route_after_turn(&about.instance, None, continues, messages).or_else(|| commit.began.clone())
    } else {
        None
    };
    changed.unwrap_or_else(|| Route::new(&about.route_name, Some(&about.route_version)))
}

/// The columns of an instance that a commit compares, so that indexes and texts are written only on change.
struct Description {
    instance: String,
    name: String,
    version: String,
    parent: Option<String>,
    route_name: String,
    route_version: String,
    /// Whether a cause is kept.
    bounced: bool,
}

/// The instance that the token holds, and the execution that the turn belongs to.
fn load_held(
    tx: &Tx<'_>,
    token: Token,
    execution_id: u64,
) -> Result<(QueueRow, Description, ExecutionRow), Fault> {
    const SQL: &str = concat!(
        "SELECT ",
        queue_columns!(),
        ", i.instance_id, i.name, i.version, i.parent_instance, i.route_name, i.route_version, \
         i.bounced_at IS NOT NULL, ",
        execution_columns!(),
        " FROM instances i LEFT JOIN executions e ON e.instance_key = i.key AND e.execution_id = ?2 \
         WHERE i.key = ?1"
    );
    const AT: usize = QUEUE_COLUMNS;
    let found = tx.db.first(SQL, (token.key, to_column(execution_id)), |row| {
        let about = Description {
            instance: row.get(AT)?,
            name: row.get(AT + 1)?,
            version: row.get(AT + 2)?,
            parent: row.get(AT + 3)?,
            route_name: row.get(AT + 4)?,
            route_version: row.get(AT + 5)?,
            bounced: row.get(AT + 6)?,
        };
        Ok((QueueRow::from_row(row)?, about, ExecutionRow::from_row(row, AT + 7)?))
    })?;
    match found {
        Some(held) if held.0.is_held_by(token, tx.now) => Ok(held),
        Some(_) | None => Err(Fault::LockLost),
    }
}

fn delete_locked_messages(tx: &Tx<'_>, row: &mut QueueRow) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM inbox \
         WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
    if let Some(lock) = row.lock {
        let deleted = tx.db.execute(SQL, (row.key, lock.visible_at, lock.position, lock.watermark))?;
        row.inbox_count -= rows(deleted);
        row.recount_cancels(tx.db)?;
    }
    Ok(())
}

/// Changes the rows as the metadata say; the caller saves them.
fn write_metadata(
    tx: &Tx<'_>,
    row: &mut QueueRow,
    execution: &mut ExecutionRow,
    commit: &mut TurnCommit,
) -> Result<(), Fault> {
    execution.new_output = commit.metadata.output.take();
    if let Some(pinned) = &commit.metadata.pinned_duroxide_version {
        execution.pinned = Some(pinned.into());
        if commit.execution_id == row.current_execution_id {
            row.pinned_key = pack_version(pinned);
        }
    }
    let Some(status) = commit.status else { return Ok(()) };
    execution.set_status(status, tx.now);
    match status {
        Status::Running => {}
        Status::Completed | Status::Failed => row.status = status,
        Status::ContinuedAsNew => {
            drop_timers(tx.db, row, to_column(commit.execution_id))?;
            let next = commit.execution_id.saturating_add(1);
            create_execution(tx, row.key, next)?;
            if next > row.current_execution_id {
                row.current_execution_id = next;
                row.pinned_key = NOT_PINNED;
            }
        }
    }
    Ok(())
}

/// Writes name, version and parent where the turn changed them.
fn rename(
    tx: &Tx<'_>,
    row: &QueueRow,
    about: &Description,
    metadata: &ExecutionMetadata,
) -> Result<(), Fault> {
    let name = metadata.orchestration_name.as_ref().unwrap_or(&about.name);
    let version = metadata.orchestration_version.as_ref().unwrap_or(&about.version);
    if *name != about.name || *version != about.version {
        tx.db.execute(
            "UPDATE instances SET name = ?2, version = ?3 WHERE key = ?1",
            (row.key, name, version),
        )?;
    }
    if metadata.parent_instance_id.is_some() && metadata.parent_instance_id != about.parent {
        let sql = "UPDATE instances SET parent_instance = ?2 WHERE key = ?1";
        tx.db.execute(sql, (row.key, &metadata.parent_instance_id))?;
    }
    Ok(())
}

/// The instance whose turn is committed. Its row is written once, at the end.
struct Own<'a> {
    row: QueueRow,
    instance: &'a str,
    /// Where messages that are put back go: before all that waited when the turn was committed.
    front: Option<Ms>,
}

/// Sends what the turn sends.
fn send(tx: &mut Tx<'_>, own: &mut Own<'_>, item: &EncodedItem) -> Result<(), Fault> {
    let columns = columns_of(&item.item);
    if columns.kind == ItemKind::Start {
        // The answer to a start whose id is taken may come back to this very inbox.
        return match start(tx, item, None)? {
            Start::IdTaken { reply: Some(reply) } => send(tx, own, &reply),
            Start::IdTaken { reply: None } | Start::Created => Ok(()),
        };
    }
    if columns.instance != own.instance {
        if columns.kind == ItemKind::Cancel && !is_own_child(tx, own.instance, columns.instance)? {
            tx.effects.dropped_unknown += 1;
            return Ok(());
        }
        return deliver(tx, item, None, FullInbox::Admit).map(drop);
    }
    if own.row.status.ends_instance() {
        tx.effects.dropped_finished += 1;
        return Ok(());
    }
    let visible_at = if columns.kind.goes_before_inbox() {
        // First in its own inbox, but not before the other instances.
        own.row.not_before = tx.now;
        own.row.next_arrival(tx.now);
        front(tx, own)?
    } else {
        columns.due_ms.map_or(tx.now, to_column)
    };
    put_message(tx, &mut own.row, &columns, &item.json, visible_at)
}

/// Whether a turn of `sender` may cancel `target`.
fn is_own_child(tx: &Tx<'_>, sender: &str, target: &str) -> Result<bool, Fault> {
    const SQL: &str = "SELECT parent_instance FROM instances WHERE instance_id = ?1";
    let parent: Option<Option<String>> = tx.db.first(SQL, [target], |row| row.get(0))?;
    Ok(cancel_reaches(sender, target, parent.flatten().as_deref()))
}

fn front(tx: &Tx<'_>, own: &mut Own<'_>) -> Result<Ms, Fault> {
    const SQL: &str = "SELECT visible_at FROM inbox WHERE instance_key = ?1 ORDER BY visible_at LIMIT 1";
    if let Some(front) = own.front {
        return Ok(front);
    }
    let first: Option<Ms> = tx.db.first(SQL, [own.row.key], |row| row.get(0))?;
    let front = first.unwrap_or(0).min(0).saturating_sub(1);
    own.front = Some(front);
    Ok(front)
}

/// Nobody will admit what is left.
fn drop_inbox(tx: &mut Tx<'_>, row: &mut QueueRow) -> Result<(), Fault> {
    if row.inbox_count != 0 {
        let dropped = tx.db.execute("DELETE FROM inbox WHERE instance_key = ?1", [row.key])?;
        tx.effects.dropped_finished += u64::try_from(dropped).unwrap_or(u64::MAX);
    }
    row.inbox_count = 0;
    row.cancels = 0;
    Ok(())
}

fn save(tx: &Tx<'_>, row: &QueueRow, route: &Route) -> Result<(), Fault> {
    const SQL: &str = "UPDATE instances SET updated_at = ?2, current_execution_id = ?3, pinned_key = ?4, \
         has_kv = ?5, inbox_count = ?6, next_position = ?7, ready_at = ?8, not_before = ?9, suspect = 0, \
         suspect_before = 0, lock_nonce = NULL, lock_visible_at = NULL, lock_position = NULL, \
         lock_watermark = NULL, cancels = ?10, route_name = ?11, route_version = ?12, last_arrival = ?13 WHERE key = ?1";
    let (route_name, route_version) = route.columns();
    let params = (
        row.key,
        tx.now,
        to_column(row.current_execution_id),
        row.pinned_key,
        row.has_kv,
        row.inbox_count,
        row.next_position,
        row.ready_at,
        row.not_before,
        row.cancels,
        route_name,
        route_version,
        row.last_arrival,
    );
    tx.db.execute(SQL, params)?;
    Ok(())
}
