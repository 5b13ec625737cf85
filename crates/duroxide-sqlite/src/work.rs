//! Work items: queueing activities, and the ways in which an attempt at one ends.

use std::time::Duration;

use duroxide_core::{ItemKind, ScheduledActivityIdentifier, WorkItem, columns_of};
use duroxide_provider::{GiveBack, WaitingByTag};

use super::damaged::{lossy, optional_lossy};
use super::db::Db;
use super::enqueue::{EncodedItem, FullInbox, check_instance, check_message, deliver};
use super::fault::Fault;
use super::sessions;
use super::token::{Token, UNLOCKED};
use super::tx::Tx;
use super::values::{Ms, after, from_column, to_column};

/// A work item as the queue sees it.
#[derive(Debug)]
pub(super) struct WorkRow {
    pub(super) id: i64,
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) activity_id: u64,
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) suspect: bool,
}

/// Where a work item stands: its tag, its session and its activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Empty for none.
    pub(super) tag: String,
    pub(super) session_id: Option<String>,
    pub(super) name: String,
}

impl Place {
    /// From the columns `tag`, `session_id`, `name`.
    pub(super) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { tag: lossy(row, 0)?, session_id: optional_lossy(row, 1)?, name: lossy(row, 2)? })
    }
}

impl WorkRow {
    pub(super) fn delete(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        tx.db.execute("DELETE FROM work_items WHERE id = ?1", [self.id])?;
        sessions::queue_changed(tx, &self.place)
    }
}

/// Checks that an item belongs into the worker queue.
pub(super) fn check_work(item: &WorkItem) -> Result<(), Fault> {
    check_instance(item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => {
            Err(Fault::Invalid("only an activity belongs into the worker queue".to_string()))
        }
    }
}

/// Checks that an item is the completion of a work item.
pub(super) fn check_completion(item: &WorkItem) -> Result<(), Fault> {
    check_message(item)?;
    match columns_of(item).kind {
        ItemKind::Completion => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Err(Fault::Invalid("the item is not a completion".to_string())),
    }
}

/// Queues a checked activity, unless it is queued already; whether it was not.
pub(super) fn put(tx: &mut Tx<'_>, item: &EncodedItem) -> Result<bool, Fault> {
    const SQL: &str = "INSERT INTO work_items \
         (instance_id, execution_id, activity_id, name, tag, session_id, visible_at, ready_at, lock_nonce, item) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9) \
         ON CONFLICT (instance_id, execution_id, activity_id) DO NOTHING";
    let columns = columns_of(&item.item);
    let inserted = tx.db.execute(
        SQL,
        (
            columns.instance,
            to_column(columns.execution_id.unwrap_or(0)),
            to_column(columns.event_id.unwrap_or(0)),
            columns.name.unwrap_or_default(),
            columns.tag.unwrap_or_default(),
            columns.session_id,
            tx.now,
            UNLOCKED,
            &item.json,
        ),
    )?;
    if inserted > 0 {
        if let Some(session_id) = columns.session_id {
            let (tag, name) = (columns.tag.unwrap_or_default(), columns.name.unwrap_or_default());
            sessions::refresh_head(tx, session_id, tag, name)?;
        }
        tx.effects.work_ready(tx.now);
    }
    Ok(inserted > 0)
}

/// Deletes the work item of an activity that nobody waits for any more, locked or not.
pub(super) fn cancel(tx: &mut Tx<'_>, activity: &ScheduledActivityIdentifier) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM work_items WHERE instance_id = ?1 AND execution_id = ?2 AND activity_id = ?3 \
         RETURNING tag, session_id, name";
    let id = (&activity.instance, to_column(activity.execution_id), to_column(activity.activity_id));
    let place = tx.db.first(SQL, id, Place::from_row)?;
    place.map_or(Ok(()), |place| sessions::item_let_go(tx, &place))
}

/// Deletes a work item and enqueues its completion.
///
/// `checked` is whether the completion is one; a lost lock is reported before that.
pub(super) fn ack(
    tx: &mut Tx<'_>,
    token: Token,
    checked: Result<(), Fault>,
    completion: Option<&EncodedItem>,
) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM work_items WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3 \
         RETURNING tag, session_id, name";
    let place = tx.db.first(SQL, (token.key, token.nonce, tx.now), Place::from_row)?;
    let place = place.ok_or(Fault::LockLost)?;
    checked?;
    sessions::item_let_go(tx, &place)?;
    sessions::note_activity(tx, &place, tx.now)?;
    match completion {
        Some(completion) => deliver(tx, completion, None, FullInbox::Admit).map(drop),
        None => Ok(()),
    }
}

/// Gives a work item back.
pub(super) fn give_back(tx: &mut Tx<'_>, token: Token, give_back: GiveBack) -> Result<(), Fault> {
    // With the attempt ignored, an expiry before it still counts.
    const SQL: &str = "UPDATE work_items SET lock_nonce = ?4, visible_at = coalesce(?5, visible_at), \
         ready_at = coalesce(?5, min(visible_at, ?3)), suspect = (?6 AND suspect_before), suspect_before = 0, \
         attempts = max(attempts - ?6, 0), delayed_at = iif(?5 IS NULL, delayed_at, ?3), \
         waiting_since = CASE WHEN ?5 IS NULL THEN waiting_since ELSE coalesce(waiting_since, visible_at) END, \
         bounced_at = CASE WHEN ?7 IS NULL THEN bounced_at ELSE ?3 END, bounce = coalesce(?7, bounce) \
         WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3 RETURNING tag, session_id, name, ready_at";
    let GiveBack { delay, ignore_attempt, cause } = give_back;
    let visible_at: Option<Ms> = delay.map(|delay| after(tx.now, delay));
    let cause = cause.map(|cause| cause.bounded().to_stored());
    let params = (token.key, token.nonce, tx.now, UNLOCKED, visible_at, ignore_attempt, cause);
    let released = tx.db.first(SQL, params, |row| Ok((Place::from_row(row)?, row.get::<_, Ms>(3)?)))?;
    let (place, ready_at) = released.ok_or(Fault::LockLost)?;
    tx.effects.work_ready(ready_at);
    sessions::item_let_go(tx, &place)
}

/// Lets the lock hold from now on for `extend_for`.
pub(super) fn renew(tx: &mut Tx<'_>, token: Token, extend_for: Duration) -> Result<(), Fault> {
    const SQL: &str = "UPDATE work_items SET ready_at = ?4 WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3 \
         RETURNING tag, session_id, name";
    let locked_until = after(tx.now, extend_for);
    let place = tx.db.first(SQL, (token.key, token.nonce, tx.now, locked_until), Place::from_row)?;
    let place = place.ok_or(Fault::LockLost)?;
    tx.effects.work_ready(locked_until);
    sessions::queue_changed(tx, &place)?;
    sessions::note_activity(tx, &place, locked_until)
}

/// Keeps the progress of an activity for its next attempt.
pub(super) fn record_progress(tx: &Tx<'_>, token: Token, details: &str) -> Result<(), Fault> {
    const SQL: &str =
        "UPDATE work_items SET progress = ?4 WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3";
    let recorded = tx.db.execute(SQL, (token.key, token.nonce, tx.now, details))?;
    if recorded == 0 { Err(Fault::LockLost) } else { Ok(()) }
}

/// Counts the attempt of the present lock as forgiven.
pub(super) fn forgive_attempt(tx: &Tx<'_>, token: Token) -> Result<(), Fault> {
    const SQL: &str = "UPDATE work_items SET attempts = max(attempts - 1, 0), forgiven = min(forgiven, 4294967294) + 1 \
         WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3";
    let forgiven = tx.db.execute(SQL, (token.key, token.nonce, tx.now))?;
    if forgiven == 0 { Err(Fault::LockLost) } else { Ok(()) }
}

/// What waits for a worker, by tag.
pub(super) fn waiting_by_tag(db: &Db, now: Ms) -> Result<Vec<WaitingByTag>, Fault> {
    const SQL: &str = "SELECT tag, count(*), min(coalesce(waiting_since, visible_at)) FROM work_items \
         WHERE lock_nonce = ?1 OR ready_at <= ?2 GROUP BY tag ORDER BY tag";
    let waiting = db.all(SQL, (UNLOCKED, now), |row| {
        let (tag, waiting, oldest): (String, i64, Ms) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(WaitingByTag {
            tag: (!tag.is_empty()).then_some(tag),
            waiting: usize::try_from(waiting).unwrap_or(0),
            oldest_age: Duration::from_millis(from_column(now.saturating_sub(oldest))),
        })
    })?;
    Ok(waiting)
}

/// Which of these tokens hold no work item any more.
pub(super) fn lost(db: &Db, now: Ms, tokens: Vec<String>) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT 1 FROM work_items WHERE id = ?1 AND lock_nonce = ?2 AND ready_at > ?3";
    db.snapshot(|db| {
        let mut lost = Vec::new();
        for text in tokens {
            let held = match Token::parse(&text) {
                Ok(token) => db.first(SQL, (token.key, token.nonce, now), |_| Ok(()))?.is_some(),
                Err(_) => false,
            };
            if !held {
                lost.push(text);
            }
        }
        Ok(lost)
    })
}
