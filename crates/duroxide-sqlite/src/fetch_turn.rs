//! Locking ready instances for a turn.

use std::ops::ControlFlow;

use duroxide_core::{
    BounceCause, DispatcherCapabilityFilter, ItemKind, WhenUndecodable, WorkItem, can_replay, limits,
    unpack_version,
};
use duroxide_provider::rules::{AsideMessage, Call, InstanceRow, Token, TurnLock, expired_lock, nonce};
use duroxide_provider::support::{ByteRoom, HistoryRoom, HistorySize};
use duroxide_provider::{FilteredOut, Suspects, TurnRequest};
use rusqlite::types::{Type, ValueRef};

use super::bounces::kept_cause;
use super::clock_steps::pull_back;
use super::damaged;
use super::db::Db;
use super::fault::Fault;
use super::instance_row::{INSTANCE_COLUMNS, Indexed, StoredInstance, instance_columns, pinned, status};
use super::raw_turn::{Facts, Messages, RawTurn, is_held, raw_turn};
use super::release_turn::count_ended_attempt;
use super::route_turn::{self, Lane};
use super::tx::Tx;
use super::values::{Ms, NEVER, after, from_column, from_json, rows, text_bytes};

/// What a look at a queue found.
#[derive(Debug)]
pub(super) struct Look<T> {
    /// What was locked.
    pub(super) items: Vec<T>,
    /// When something more may be ready for the same question without any further call, besides the expiry of
    /// the locks just taken. [`AT_ONCE`] when it may be already.
    pub(super) next_due: Ms,
}

/// The next due time of a look that may have left something behind.
pub(super) const AT_ONCE: Ms = Ms::MIN;

/// What became of an item that was to be locked.
#[derive(Debug)]
pub(super) enum Taken<T> {
    /// It is locked.
    Item(T),
    /// There was nothing to lock.
    Nothing,
    /// It does not fit into this fetch, and is as it was.
    NoRoom,
}

/// An instance that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) ready_at: Ms,
    pub(super) key: i64,
}

/// Locks the instances that have been ready longest and match the filter.
pub(super) fn look(tx: &mut Tx<'_>, request: &TurnRequest) -> Result<Look<RawTurn>, Fault> {
    let max_items = request.max_items.max(1);
    let mut suspects = request.suspects;
    let mut items = Vec::new();
    let (mut histories, mut messages) = (HistoryRoom::default(), ByteRoom::for_messages());
    loop {
        let Found { candidates, next_due } = candidates(tx, request, suspects, max_items - items.len())?;
        let mut passed_over = false;
        for candidate in candidates {
            let Some((row, about)) = load_or_end(tx, candidate.key)? else {
                passed_over = true;
                break;
            };
            if !items.is_empty() {
                let fits = fits_before_it_is_counted(tx, &row, &messages)?;
                if !fits || !histories.take(about.history_to_read(&row, request)) {
                    return Ok(Look { items, next_due: AT_ONCE });
                }
            }
            match take_loaded(tx, candidate.key, row, about, request, &mut messages)? {
                Taken::Item(turn) => {
                    if turn.is_suspect() {
                        suspects = suspects.after_one();
                    }
                    items.push(turn);
                }
                Taken::NoRoom => return Ok(Look { items, next_due: AT_ONCE }),
                Taken::Nothing => {
                    // The next one, perhaps a suspect too, may be older than the candidates that are left.
                    passed_over = true;
                    break;
                }
            }
        }
        if items.len() >= max_items || !passed_over {
            // After a suspect the question was another than that of the next who asks.
            let next_due = if suspects == request.suspects { next_due } else { AT_ONCE };
            return Ok(Look { items, next_due });
        }
    }
}

/// The ready instances that the filter leaves out, by pinned version.
pub(super) fn filtered_out(
    db: &Db,
    now: Ms,
    filter: &DispatcherCapabilityFilter,
) -> Result<Vec<FilteredOut>, Fault> {
    const READY: &str = "SELECT count(*) FROM instances INDEXED BY instances_ready \
         WHERE pinned_key = ?1 AND suspect IN (0, 1) AND ready_at <= ?2 AND ready_at IS NOT NULL";
    db.snapshot(|db| {
        let mut counted = Vec::new();
        let left_out = |key: &i64| !can_replay(Some(filter), pinned(*key));
        for key in pinned_keys(db)?.into_iter().filter(left_out) {
            let ready: i64 = db.first(READY, (key, now), |row| row.get(0))?.unwrap_or(0);
            if ready > 0 {
                counted.push(FilteredOut {
                    pinned_version: pinned(key).map(unpack_version),
                    instances: usize::try_from(ready).unwrap_or(0),
                });
            }
        }
        Ok(counted)
    })
}

/// Instances to be taken.
struct Found {
    candidates: Vec<Candidate>,
    /// When there may be more of them.
    next_due: Ms,
}

/// The ready instances that have been so longest, with as many suspects among them as are admitted, and the next due
/// time.
///
/// Looks at the few distinct versions among all ready instances, and in each at its oldest rows: the cost
/// does not depend on how many are behind those.
fn candidates(tx: &Tx<'_>, request: &TurnRequest, suspects: Suspects, wanted: usize) -> Result<Found, Fault> {
    let mut clean = Vec::new();
    let mut suspected = Vec::new();
    let admitted = suspects.limit().min(wanted);
    let mut next_due = NEVER;
    for pinned_key in pinned_keys(tx.db)?.into_iter().filter(|key| is_compatible(request, *key)) {
        let lane = Lane { pinned_key, suspect: false };
        clean.extend(oldest(tx, lane, request, wanted, &mut next_due)?);
        if admitted > 0 {
            let lane = Lane { pinned_key, suspect: true };
            suspected.extend(oldest(tx, lane, request, admitted, &mut next_due)?);
        }
    }
    if clean.len() >= wanted {
        next_due = AT_ONCE;
    }
    suspected.sort_unstable();
    suspected.truncate(admitted);
    clean.extend(suspected);
    clean.sort_unstable();
    clean.truncate(wanted);
    Ok(Found { candidates: clean, next_due })
}

/// The distinct packed versions among the instances whose inbox is not empty.
pub(super) fn pinned_keys(db: &Db) -> Result<Vec<i64>, Fault> {
    const SQL: &str = "WITH RECURSIVE keys (k) AS ( \
           SELECT min(pinned_key) FROM instances INDEXED BY instances_ready WHERE ready_at IS NOT NULL \
           UNION ALL \
           SELECT (SELECT min(pinned_key) FROM instances INDEXED BY instances_ready \
                   WHERE ready_at IS NOT NULL AND pinned_key > k) FROM keys WHERE k IS NOT NULL) \
         SELECT k FROM keys WHERE k IS NOT NULL";
    Ok(db.all(SQL, [], |row| row.get(0))?)
}

/// The ready instances of a lane that have been so longest and that the node can run.
fn oldest(
    tx: &Tx<'_>,
    lane: Lane,
    request: &TurnRequest,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    const SQL: &str = "SELECT ready_at, key FROM instances INDEXED BY instances_ready \
         WHERE ready_at IS NOT NULL AND pinned_key = ?1 AND suspect = ?2 ORDER BY ready_at, key LIMIT ?3";
    if let Some(handlers) = &request.handlers {
        return route_turn::oldest(tx, lane, handlers, wanted, next_due);
    }
    let mut found = Vec::new();
    tx.db.each(SQL, (lane.pinned_key, lane.suspect, rows(wanted)), |row| {
        let candidate = Candidate { ready_at: row.get(0)?, key: row.get(1)? };
        Ok(if candidate.ready_at <= tx.now {
            found.push(candidate);
            ControlFlow::Continue(())
        } else {
            *next_due = (*next_due).min(candidate.ready_at);
            ControlFlow::Break(())
        })
    })?;
    Ok(found)
}

pub(super) fn is_compatible(request: &TurnRequest, pinned_key: i64) -> bool {
    can_replay(request.filter.as_ref(), pinned(pinned_key))
}

/// What a turn is told besides the row of its instance.
struct Description {
    indexed: Indexed,
    last_event_id: u64,
    history_bytes: u64,
    last_cause: Option<BounceCause>,
}

impl Description {
    /// What a turn of it reads of its history.
    fn history_to_read(&self, row: &InstanceRow, request: &TurnRequest) -> HistorySize {
        if is_held(row, self.last_event_id, request) {
            return HistorySize::NOTHING;
        }
        HistorySize { events: self.last_event_id, bytes: self.history_bytes }
    }
}

/// Locks a ready instance. Nothing when nothing of its inbox could be admitted.
pub(super) fn take(
    tx: &mut Tx<'_>,
    key: i64,
    request: &TurnRequest,
    room: &mut ByteRoom,
) -> Result<Taken<RawTurn>, Fault> {
    match load_or_end(tx, key)? {
        Some((row, _)) if !fits_before_it_is_counted(tx, &row, room)? => Ok(Taken::NoRoom),
        Some((row, about)) => take_loaded(tx, key, row, about, request, room),
        None => Ok(Taken::Nothing),
    }
}

/// Whether the first message of an instance fits, if an attempt of it has to be counted before its messages are read.
fn fits_before_it_is_counted(tx: &Tx<'_>, row: &InstanceRow, room: &ByteRoom) -> Result<bool, Fault> {
    const SQL: &str = "SELECT octet_length(item) FROM inbox WHERE instance_key = ?1 AND visible_at <= ?2 \
         ORDER BY visible_at, position LIMIT 1";
    if row.lock.is_none() {
        return Ok(true);
    }
    let first: Option<i64> = tx.db.first(SQL, (row.key, tx.now), |found| found.get(0))?.flatten();
    Ok(room.fits(first.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0))))
}

/// Loads an instance; `None` when its row cannot be read and it was ended therefore.
fn load_or_end(tx: &mut Tx<'_>, key: i64) -> Result<Option<(InstanceRow, Description)>, Fault> {
    match load(tx, key) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(fault) => match damaged::cause(&fault) {
            Some(cause) => damaged::end_instance(tx, key, &cause).map(|()| None),
            None => Err(fault),
        },
    }
}

fn take_loaded(
    tx: &mut Tx<'_>,
    key: i64,
    mut row: InstanceRow,
    about: Description,
    request: &TurnRequest,
    room: &mut ByteRoom,
) -> Result<Taken<RawTurn>, Fault> {
    let expired = row.lock.filter(|_| row.suspect).zip(row.ready_at);
    let expired = expired.map(|(lock, expired_at)| expired_lock(lock.nonce, expired_at));
    if let Some(lock) = row.lock.take() {
        // The previous attempt ended by expiry.
        count_ended_attempt(tx.db, &row, lock)?;
    }
    pull_back(tx, &mut row)?;
    let admitted = read_messages(tx, key, room)?;
    if admitted.no_room {
        return Ok(Taken::NoRoom);
    }
    let suspect = row.suspect;
    let Some(token) = lock(tx, &mut row, &admitted, request)? else {
        return Ok(Taken::Nothing);
    };
    let left = admitted.count;
    if !admitted.aside.is_empty() {
        // They leave by the rules; if nothing is left, the instance is given back as it was.
        tx.apply(&Call::AsideMessages { token, aside: admitted.aside, left })?;
    } else {
        let indexed = Indexed::left(&row, Some(&about.indexed));
        tx.leaves_instance(StoredInstance { indexed, row: row.clone() });
    }
    if left == 0 {
        return Ok(Taken::Nothing);
    }
    let facts = Facts { suspect, expired, last_event_id: about.last_event_id, last_cause: about.last_cause };
    let messages = Messages { items: admitted.items, attempts: admitted.attempts, error: admitted.error };
    raw_turn(tx.db, tx.now, &row, token, messages, facts, request).map(Taken::Item)
}

/// Locks an instance with the messages that were read; `None`, and its queue is put in order, if there are none.
fn lock(
    tx: &mut Tx<'_>,
    row: &mut InstanceRow,
    admitted: &Admitted,
    request: &TurnRequest,
) -> Result<Option<Token>, Fault> {
    const LOCK: &str = "UPDATE instances SET not_before = 0, ready_at = ?2, suspect = 1, suspect_before = ?3, \
         lock_nonce = ?4, lock_visible_at = ?5, lock_position = ?6, lock_watermark = ?7, last_arrival = ?8 \
         WHERE key = ?1";
    const NOT_READY: &str = "UPDATE instances SET ready_at = \
         (SELECT max(n.visible_at, ?2) FROM inbox n WHERE n.instance_key = ?1 ORDER BY n.visible_at LIMIT 1), \
         lock_nonce = NULL, lock_visible_at = NULL, lock_position = NULL, lock_watermark = NULL, \
         last_arrival = ?3 WHERE key = ?1 RETURNING ready_at";
    let Some((visible_at, position)) = admitted.last else {
        tx.changes_rows();
        let params = (row.key, row.not_before, row.last_arrival);
        let ready_at: Option<Ms> = tx.db.first(NOT_READY, params, |row| row.get(0))?.flatten();
        ready_at.into_iter().for_each(|at| tx.effects.turn_ready(at));
        return Ok(None);
    };
    let token = Token { key: row.key, nonce: nonce(request.holder) };
    let locked_until = after(tx.now, request.lock_timeout);
    let covered = rows(admitted.count + admitted.aside.len());
    let (nonce, watermark) = (token.nonce, row.next_position);
    row.lock = Some(TurnLock { nonce, visible_at, position, watermark, count: covered });
    row.suspect_before = row.suspect;
    row.suspect = true;
    row.not_before = 0;
    row.ready_at = Some(locked_until);
    let params =
        (row.key, locked_until, row.suspect_before, nonce, visible_at, position, watermark, row.last_arrival);
    tx.db.execute(LOCK, params)?;
    tx.effects.turn_ready(locked_until);
    Ok(Some(token))
}

fn load(tx: &Tx<'_>, key: i64) -> Result<(InstanceRow, Description), Fault> {
    const SQL: &str = concat!(
        "SELECT ",
        instance_columns!(),
        ", e.last_event_id, ",
        kept_cause!(),
        ", e.status, e.status IS NULL AND EXISTS (SELECT 1 FROM history h \
         WHERE h.instance_key = i.key AND h.execution_id = i.current_execution_id), e.history_bytes \
         FROM instances i LEFT JOIN executions e \
         ON e.instance_key = i.key AND e.execution_id = i.current_execution_id WHERE i.key = ?1"
    );
    const AT: usize = INSTANCE_COLUMNS;
    let found = tx.db.first(SQL, [key], |row| {
        check_execution(row, AT)?;
        let stored = StoredInstance::from_row(row)?;
        let about = Description {
            indexed: stored.indexed,
            last_event_id: row.get::<_, Option<i64>>(AT)?.map_or(0, from_column),
            history_bytes: history_bytes(row.get_ref(AT + 4)?),
            last_cause: damaged::optional_lossy(row, AT + 1)?.as_deref().and_then(BounceCause::from_stored),
        };
        Ok((stored.row, about))
    })?;
    found.ok_or_else(|| {
        Fault::Corrupt("the index of ready instances names an instance that is not there".to_string())
    })
}

/// Fails if no turn of the execution could be committed: its row is gone although it has a history, or is damaged.
fn check_execution(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<()> {
    if let Some(code) = row.get::<_, Option<i64>>(at + 2)? {
        status(code)?;
    }
    let last_event_id: Option<i64> = row.get(at)?;
    match last_event_id.filter(|id| *id < 0) {
        Some(id) => Err(rusqlite::Error::IntegralValueOutOfRange(at, id)),
        None if row.get(at + 3)? => {
            Err(rusqlite::Error::InvalidColumnType(at + 2, "executions.status".to_string(), Type::Null))
        }
        None => Ok(()),
    }
}

/// The bytes of a history. They only decide how many histories come at a time, so a damaged number does no harm.
fn history_bytes(stored: ValueRef<'_>) -> u64 {
    match stored {
        ValueRef::Integer(bytes) => from_column(bytes),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => 0,
    }
}

/// The messages of a fetch, once the undecodable ones are dealt with.
struct Admitted {
    items: Vec<WorkItem>,
    attempts: u32,
    error: Option<String>,
    /// Those that do not decode and that the instance can do without.
    aside: Vec<AsideMessage>,
    /// How many stay in the turn.
    count: usize,
    /// Visible time and position of the last one, set aside or not.
    last: Option<(Ms, i64)>,
    /// Whether the first one does not fit into the fetch, and nothing was changed.
    no_room: bool,
}

/// The visible messages of an instance.
fn read_messages(tx: &Tx<'_>, key: i64, room: &mut ByteRoom) -> Result<Admitted, Fault> {
    const SQL: &str = "SELECT visible_at, position, kind, attempts, item FROM inbox \
         WHERE instance_key = ?1 AND visible_at <= ?2 ORDER BY visible_at, position LIMIT ?3";
    let mut admitted = Admitted {
        items: Vec::new(),
        attempts: 0,
        error: None,
        aside: Vec::new(),
        count: 0,
        last: None,
        no_room: false,
    };
    tx.db.each(SQL, (key, tx.now, rows(limits::MAX_MESSAGES_PER_FETCH)), |found| {
        let (visible_at, position): (Ms, i64) = (found.get(0)?, found.get(1)?);
        let stored = found.get_ref(4)?;
        let bytes = text_bytes(stored);
        if !room.fits(bytes) {
            admitted.no_room = admitted.last.is_none();
            return Ok(ControlFlow::Break(()));
        }
        admitted.last = Some((visible_at, position));
        let decoded: Result<WorkItem, String> = from_json(stored);
        if let Err(cause) = &decoded {
            match ItemKind::from_code(found.get(2)?).map(ItemKind::when_undecodable) {
                Some(WhenUndecodable::SetAside) => {
                    let cause = cause.clone();
                    admitted.aside.push(AsideMessage { key, visible_at, position, cause });
                    return Ok(ControlFlow::Continue(()));
                }
                Some(WhenUndecodable::Poison) | None => {}
            }
        }
        room.take(bytes);
        admitted.count += 1;
        match decoded {
            Ok(item) => admitted.items.push(item),
            Err(cause) => {
                let place = admitted.count;
                admitted.error.get_or_insert_with(|| format!("message at position {place}: {cause}"));
            }
        }
        let attempts: i64 = found.get(3)?;
        admitted.attempts =
            admitted.attempts.max(u32::try_from(attempts.saturating_add(1)).unwrap_or(u32::MAX));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(admitted)
}
