//! Messages for an instance that has not started: dropped when its start does not come.

use duroxide_core::limits;
use duroxide_provider::rules::Ms;

use super::db::Db;
use super::values::to_column;

/// Drops what was kept too long; how much.
pub(super) fn drop_expired(db: &Db, now: Ms) -> rusqlite::Result<u64> {
    const SQL: &str = "DELETE FROM early_messages WHERE kept_at < ?1";
    let oldest = now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS));
    let expired = db.execute(SQL, [oldest])?;
    Ok(u64::try_from(expired).unwrap_or(u64::MAX))
}
