//! Locking ready work items.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use duroxide_core::{BounceCause, WorkItem};
use duroxide_provider::rules::{Call, Place, Token, UNLOCKED, WorkRow, expired_lock, nonce};
use duroxide_provider::support::ByteRoom;
use duroxide_provider::{ExpiredLock, FetchedWork, OrchestrationRef, Suspects, TagFilter, WorkRequest};

use super::damaged::{self, lossy, optional_lossy};
use super::db::Db;
use super::fault::Fault;
use super::fetch_turn::{AT_ONCE, Look, Taken};
use super::route_work::{self, Lane};
use super::sessions;
use super::set_aside;
use super::tx::Tx;
use super::values::{Ms, NEVER, after, from_column, from_json, rows, text_bytes};

/// A work item that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) ready_at: Ms,
    pub(super) id: i64,
    pub(super) suspect: bool,
}

/// Locks the work items that have been ready longest and that the worker accepts.
pub(super) fn look(tx: &mut Tx<'_>, request: &WorkRequest) -> Result<Look<FetchedWork>, Fault> {
    let max_items = request.max_items.max(1);
    let mut suspects = request.suspects;
    let mut next_due = NEVER;
    let mut items: Vec<FetchedWork> = Vec::new();
    let mut room = ByteRoom::for_work();
    let mut plain = oldest_without_session(tx, request, suspects, max_items, &mut next_due)?;
    let mut in_session = sessions::oldest(tx, request, suspects, &mut next_due)?;
    // Sessions and suspects may have more behind what is taken of them, and so may a queue with enough in it.
    let mut takes_all =
        in_session.is_none() && plain.len() < max_items && !plain.iter().any(|candidate| candidate.suspect);
    while items.len() < max_items {
        if suspects == Suspects::Refuse {
            plain.retain(|candidate| !candidate.suspect);
        }
        let from_session = in_session.is_some_and(|head| plain.front().is_none_or(|first| head < *first));
        let candidate = if from_session { in_session } else { plain.pop_front() };
        let Some(candidate) = candidate else { break };
        match take(tx, candidate.id, candidate.ready_at, request, &mut room)? {
            Taken::Item(work) => items.push(work),
            Taken::NoRoom => {
                takes_all = false;
                break;
            }
            Taken::Nothing => {
                // It was set aside: the next one, perhaps a suspect too, may be older than all that was found.
                takes_all = false;
                let wanted = max_items - items.len();
                plain = oldest_without_session(tx, request, suspects, wanted, &mut next_due)?;
                in_session = sessions::oldest(tx, request, suspects, &mut next_due)?;
                continue;
            }
        }
        if candidate.suspect {
            suspects = suspects.after_one();
        }
        if from_session || candidate.suspect {
            // The session has another head now, or suspects are no longer wanted.
            in_session = sessions::oldest(tx, request, suspects, &mut next_due)?;
        }
    }
    if !items.is_empty() && !takes_all {
        next_due = AT_ONCE;
    }
    Ok(Look { items, next_due })
}

/// The ready work items without a session that have been so longest, oldest first, with as many suspects among them as
/// are admitted. Looks at each accepted tag and there at the oldest rows: the cost does not depend on how many are
/// behind those.
fn oldest_without_session(
    tx: &Tx<'_>,
    request: &WorkRequest,
    suspects: Suspects,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<VecDeque<Candidate>, Fault> {
    let mut ready = Vec::new();
    let mut oldest_suspects = Vec::new();
    let admitted = suspects.limit().min(wanted);
    let accepted = match accepted(&request.tags) {
        Some(accepted) => accepted,
        None => tags(tx.db)?,
    };
    for tag in &accepted {
        ready.extend(oldest(tx, Lane { tag, suspect: false }, request, wanted, next_due)?);
        if admitted > 0 {
            oldest_suspects.extend(oldest(tx, Lane { tag, suspect: true }, request, admitted, next_due)?);
        }
    }
    oldest_suspects.sort_unstable();
    oldest_suspects.truncate(admitted);
    ready.extend(oldest_suspects);
    ready.sort_unstable();
    ready.truncate(wanted);
    Ok(ready.into())
}

/// The ready work items of a lane that have been so longest and that the node can run.
fn oldest(
    tx: &Tx<'_>,
    lane: Lane<'_>,
    request: &WorkRequest,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    const SQL: &str = "SELECT ready_at, id FROM work_items INDEXED BY work_items_ready \
         WHERE session_id IS NULL AND tag = ?1 AND suspect = ?2 ORDER BY ready_at, id LIMIT ?3";
    if let Some(activities) = &request.activities {
        return route_work::oldest(tx, lane, activities, wanted, next_due);
    }
    let mut found = Vec::new();
    tx.db.each(SQL, (lane.tag, lane.suspect, rows(wanted)), |row| {
        let candidate = Candidate { ready_at: row.get(0)?, id: row.get(1)?, suspect: lane.suspect };
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

/// The distinct tags among the work items without a session.
pub(super) fn tags(db: &Db) -> Result<Vec<String>, Fault> {
    const SQL: &str = "WITH RECURSIVE tags (t) AS ( \
           SELECT min(tag) FROM work_items INDEXED BY work_items_ready WHERE session_id IS NULL \
           UNION ALL \
           SELECT (SELECT min(tag) FROM work_items INDEXED BY work_items_ready \
                   WHERE session_id IS NULL AND tag > t) FROM tags WHERE t IS NOT NULL) \
         SELECT t FROM tags WHERE t IS NOT NULL";
    Ok(db.all(SQL, [], |row| lossy(row, 0))?)
}

/// The tags that a filter accepts, as they stand in the column; `None` means every tag.
pub(super) fn accepted(filter: &TagFilter) -> Option<Vec<String>> {
    match filter {
        TagFilter::DefaultOnly => Some(vec![String::new()]),
        TagFilter::Tags(tags) => Some(tags.iter().cloned().collect()),
        TagFilter::DefaultAnd(tags) => Some(tags.iter().cloned().chain([String::new()]).collect()),
        TagFilter::Any => None,
        TagFilter::None => Some(Vec::new()),
    }
}

/// What a worker is told besides the item.
struct Told {
    orchestration: Option<OrchestrationRef>,
    progress: Option<String>,
    last_cause: Option<BounceCause>,
    forgiven: u32,
    expired: Option<ExpiredLock>,
}

impl Told {
    fn with(self, item: WorkItem, token: Token, attempts: u32, suspect: bool) -> FetchedWork {
        FetchedWork {
            item,
            lock_token: token.text(),
            attempts,
            forgiven: self.forgiven,
            suspect,
            expired: self.expired,
            orchestration: self.orchestration,
            progress: self.progress,
            last_cause: self.last_cause,
        }
    }
}

/// Locks a work item that is ready since `ready_at`. Nothing when it had to be set aside, or when the head of a session said
/// of it what is not so.
pub(super) fn take(
    tx: &mut Tx<'_>,
    id: i64,
    ready_at: Ms,
    request: &WorkRequest,
    room: &mut ByteRoom,
) -> Result<Taken<FetchedWork>, Fault> {
    const SELECT: &str = "SELECT w.instance_id, w.execution_id, w.activity_id, w.name, w.tag, w.session_id, \
         w.attempts, w.suspect, w.item, i.name, i.version, w.progress, w.bounce, w.forgiven, w.lock_nonce, \
         w.ready_at, w.visible_at FROM work_items w \
         LEFT JOIN instances i ON i.instance_id = w.instance_id WHERE w.id = ?1";
    let found = tx.db.first(SELECT, [id], |found| {
        let row = WorkRow {
            id,
            instance: found.get(0)?,
            execution_id: from_column(found.get(1)?),
            activity_id: from_column(found.get(2)?),
            place: Place { name: found.get(3)?, tag: found.get(4)?, session_id: found.get(5)? },
            attempts: found.get(6)?,
            suspect_before: found.get(7)?,
            nonce: None,
            stored_nonce: None,
            ready_at: found.get(15)?,
            visible_at: found.get(16)?,
        };
        let orchestration = match (optional_lossy(found, 9)?, optional_lossy(found, 10)?) {
            (Some(name), Some(version)) => Some(OrchestrationRef { name, version }),
            (None, _) | (_, None) => None,
        };
        let held: i64 = found.get(14)?;
        let told = Told {
            orchestration,
            progress: optional_lossy(found, 11)?,
            last_cause: optional_lossy(found, 12)?.as_deref().and_then(BounceCause::from_stored),
            forgiven: u32::try_from(found.get::<_, i64>(13)?).unwrap_or(u32::MAX),
            expired: (row.suspect_before && held != UNLOCKED).then(|| expired_lock(held, row.ready_at)),
        };
        let is_ready = row.ready_at == ready_at;
        let stored = found.get_ref(8)?;
        let bytes = text_bytes(stored);
        // What does not fit is not decoded.
        let decoded = room.fits(bytes).then(|| from_json::<WorkItem>(stored));
        Ok((row, told, decoded.map(|decoded| (decoded, bytes)), is_ready))
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let Some(cause) = damaged::cause_of(&error) else { return Err(error.into()) };
            set_aside::unreadable_work_item(tx, id, &cause)?;
            return Ok(Taken::Nothing);
        }
    };
    let (row, told, decoded) = match found {
        Some((row, told, decoded, true)) => (row, told, decoded),
        Some((row, _, _, false)) => {
            sessions::drop_heads(tx, id)?;
            sessions::queue_changed(tx.db, &row.place)?;
            return Ok(Taken::Nothing);
        }
        None => {
            sessions::drop_heads(tx, id)?;
            return Ok(Taken::Nothing);
        }
    };
    let (decoded, bytes) = match decoded {
        None => return Ok(Taken::NoRoom),
        Some((decoded, bytes)) => (decoded, bytes),
    };
    let (row, token) = lock(tx, row, request)?;
    let item = match decoded {
        Ok(item) => item,
        Err(cause) => {
            tx.apply(&Call::AsideWork { token, cause })?;
            return Ok(Taken::Nothing);
        }
    };
    room.take(bytes);
    if let (Some(session_id), Some(config)) = (&row.place.session_id, &request.session) {
        sessions::claim(tx, session_id, config, row.ready_at)?;
    }
    sessions::queue_changed(tx.db, &row.place)?;
    let (attempts, suspect) = (u32::try_from(row.attempts).unwrap_or(u32::MAX), row.suspect_before);
    tx.leaves_work(row);
    Ok(Taken::Item(told.with(item, token, attempts, suspect)))
}

fn lock(tx: &mut Tx<'_>, mut row: WorkRow, request: &WorkRequest) -> Result<(WorkRow, Token), Fault> {
    const LOCK: &str = "UPDATE work_items SET ready_at = ?2, suspect = 1, suspect_before = ?3, attempts = ?4, \
         lock_nonce = ?5 WHERE id = ?1";
    let token = Token { key: row.id, nonce: nonce(request.holder) };
    row.attempts = row.attempts.saturating_add(1).min(i64::from(u32::MAX));
    row.ready_at = after(tx.now, request.lock_timeout);
    row.nonce = Some(token.nonce);
    row.stored_nonce = row.nonce;
    tx.db.execute(LOCK, (row.id, row.ready_at, row.suspect_before, row.attempts, token.nonce))?;
    tx.effects.work_ready(row.ready_at);
    Ok((row, token))
}
