//! The end of an attempt without a commit: giving an instance back, or holding it longer.

use std::time::Duration;

use duroxide_provider::GiveBack;

use super::db::Db;
use super::fault::Fault;
use super::instance_row::{CANCELLED_WHILE_LOCKED, QueueRow};
use super::token::Token;
use super::tx::Tx;
use super::values::after;

/// Gives an instance back.
pub(super) fn give_back(tx: &mut Tx<'_>, token: Token, give_back: GiveBack) -> Result<(), Fault> {
    const KEEP_CAUSE: &str = "UPDATE instances SET bounced_at = ?2, bounce = ?3 WHERE key = ?1";
    let GiveBack { delay, ignore_attempt, cause } = give_back;
    let mut row = QueueRow::held_by(tx, token)?;
    if !ignore_attempt {
        count_ended_attempt(tx.db, &row)?;
    }
    // An attempt that did not take place leaves the expiry before it standing.
    row.suspect = ignore_attempt && row.suspect_before;
    row.suspect_before = false;
    row.not_before = match delay {
        Some(delay) if row.not_before != CANCELLED_WHILE_LOCKED => after(tx.now, delay),
        Some(_) | None => 0,
    };
    row.lock = None;
    row.recompute_ready_at(tx)?;
    row.save(tx.db)?;
    if let Some(cause) = cause {
        tx.db.execute(KEEP_CAUSE, (row.key, tx.now, cause.bounded().to_stored()))?;
    }
    Ok(())
}

/// Lets the lock hold from now on for `extend_for`.
pub(super) fn renew(tx: &mut Tx<'_>, token: Token, extend_for: Duration) -> Result<(), Fault> {
    let row = QueueRow::held_by(tx, token)?;
    let locked_until = after(tx.now, extend_for);
    tx.db.execute("UPDATE instances SET ready_at = ?2 WHERE key = ?1", (row.key, locked_until))?;
    tx.effects.turn_ready(locked_until);
    Ok(())
}

/// Adds the attempt that the row's lock stands for to the messages that it covers.
pub(super) fn count_ended_attempt(db: &Db, row: &QueueRow) -> Result<(), Fault> {
    const SQL: &str = "UPDATE inbox SET attempts = min(attempts + 1, 4294967295) \
         WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
    if let Some(lock) = row.lock {
        db.execute(SQL, (row.key, lock.visible_at, lock.position, lock.watermark))?;
    }
    Ok(())
}

/// The highest attempt count in an instance's inbox, the attempt under way included.
pub(super) fn max_attempts(db: &Db, instance: &str) -> Result<u32, Fault> {
    const SQL: &str = "SELECT coalesce(max(n.attempts + (i.lock_nonce IS NOT NULL \
         AND (n.visible_at, n.position) <= (i.lock_visible_at, i.lock_position) \
         AND n.position < i.lock_watermark)), 0) \
         FROM instances i JOIN inbox n ON n.instance_key = i.key WHERE i.instance_id = ?1";
    let attempts: Option<i64> = db.first(SQL, [instance], |row| row.get(0))?;
    Ok(attempts.map_or(0, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX)))
}
