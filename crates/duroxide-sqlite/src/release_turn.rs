//! Attempts at turns, counted with the messages.

use duroxide_provider::rules::{InstanceRow, TurnLock};

use super::db::Db;
use super::fault::Fault;

/// Adds the attempt that a lock stands for to the messages that it covers.
pub(super) fn count_ended_attempt(db: &Db, row: &InstanceRow, lock: TurnLock) -> Result<(), Fault> {
    const SQL: &str = "UPDATE inbox SET attempts = min(attempts + 1, 4294967295) \
         WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
    db.execute(SQL, (row.key, lock.visible_at, lock.position, lock.watermark))?;
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
