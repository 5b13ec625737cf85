//! The row of an instance: reading it, and what of it stands in indexes.

use duroxide_core::Route;
use duroxide_provider::rules::{InstanceRow, Ms, NOT_PINNED, Pending, TurnLock};
pub(super) use duroxide_provider::support::Status;
use rusqlite::{OptionalExtension as _, Row};

use super::db::Db;
use super::fault::Fault;
use super::values::from_column;

/// The packed version behind the column.
pub(super) fn pinned(pinned_key: i64) -> Option<i64> {
    (pinned_key != NOT_PINNED).then_some(pinned_key)
}

/// The columns of [`StoredInstance`], to be selected first.
macro_rules! instance_columns {
    () => {
        "i.key, i.status, i.current_execution_id, i.pinned_key, i.has_kv, i.inbox_count, i.next_position, \
         i.not_before, i.ready_at, i.suspect, i.suspect_before, i.lock_nonce, i.lock_visible_at, \
         i.lock_position, i.lock_watermark, i.cancels, i.last_arrival, i.instance_id, i.incarnation, i.name, \
         i.version, i.parent_instance, i.parent_execution_id, i.parent_event_id, i.created_at, i.updated_at, \
         i.route_name, i.route_version, i.bounced_at IS NOT NULL"
    };
}
pub(super) use instance_columns;

/// How many columns [`instance_columns`] names.
pub(super) const INSTANCE_COLUMNS: usize = 29;

/// The row of an instance as it is stored.
#[derive(Debug, Clone)]
pub(super) struct StoredInstance {
    pub(super) row: InstanceRow,
    pub(super) indexed: Indexed,
}

/// The columns that stand in indexes and change with messages and turns. They are written only when they change:
/// SQLite writes an index anew for every column of it that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) ready_at: Option<Ms>,
    pub(super) suspect: bool,
    pub(super) pinned_key: i64,
    pub(super) route: Route,
}

impl Indexed {
    /// As a group leaves them.
    pub(super) fn left(row: &InstanceRow, before: Option<&Self>) -> Self {
        let route = row.pending.route.as_ref().or(before.map(|before| &before.route));
        Self {
            ready_at: row.ready_at,
            suspect: row.suspect,
            pinned_key: row.pinned_key,
            route: route.cloned().unwrap_or_else(|| Route::new("", None)),
        }
    }
}

impl StoredInstance {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let lock = match row.get::<_, Option<i64>>(11)? {
            Some(nonce) => Some(TurnLock {
                nonce,
                visible_at: row.get(12)?,
                position: row.get(13)?,
                watermark: row.get(14)?,
                // Counted where it matters.
                count: 0,
            }),
            None => None,
        };
        let (route_name, route_version): (String, String) = (row.get(26)?, row.get(27)?);
        let row = InstanceRow {
            key: row.get(0)?,
            revision: 0,
            instance: row.get(17)?,
            incarnation: row.get::<_, i64>(18)?.cast_unsigned(),
            created_at: row.get(24)?,
            name: row.get(19)?,
            version: row.get(20)?,
            parent_instance: row.get(21)?,
            parent_execution_id: row.get(22)?,
            parent_event_id: row.get(23)?,
            status: status(row.get(1)?)?,
            updated_at: row.get(25)?,
            current_execution_id: from_column(row.get(2)?),
            pinned_key: row.get(3)?,
            has_kv: row.get(4)?,
            inbox_count: row.get(5)?,
            next_position: row.get(6)?,
            not_before: row.get(7)?,
            ready_at: row.get(8)?,
            suspect: row.get(9)?,
            suspect_before: row.get(10)?,
            lock,
            cancelled: row.get::<_, i64>(15)? > 0,
            bounced: row.get(28)?,
            last_arrival: row.get(16)?,
            pending: Pending::default(),
        };
        let route = Route::new(&route_name, Some(&route_version));
        let indexed = Indexed { route, ..Indexed::left(&row, None) };
        Ok(Self { row, indexed })
    }

    pub(super) fn by_id(db: &Db, instance: &str) -> rusqlite::Result<Option<Self>> {
        const SQL: &str =
            concat!("SELECT ", instance_columns!(), " FROM instances i WHERE i.instance_id = ?1");
        db.first(SQL, [instance], Self::from_row)
    }

    pub(super) fn by_key(db: &Db, key: i64) -> rusqlite::Result<Option<Self>> {
        const SQL: &str = concat!("SELECT ", instance_columns!(), " FROM instances i WHERE i.key = ?1");
        db.first(SQL, [key], Self::from_row)
    }

    /// Counts the messages that its lock covers.
    pub(super) fn count_locked(&mut self, db: &Db) -> rusqlite::Result<()> {
        const SQL: &str = "SELECT count(*) FROM inbox \
             WHERE instance_key = ?1 AND (visible_at, position) <= (?2, ?3) AND position < ?4";
        if let Some(lock) = &mut self.row.lock {
            let params = (self.row.key, lock.visible_at, lock.position, lock.watermark);
            lock.count = db.first(SQL, params, |row| row.get(0))?.unwrap_or(0);
        }
        Ok(())
    }
}

/// The key of an instance.
pub(super) fn key_of(db: &Db, instance: &str) -> rusqlite::Result<Option<i64>> {
    db.first("SELECT key FROM instances WHERE instance_id = ?1", [instance], |row| row.get(0))
        .optional()
        .map(Option::flatten)
}

/// The key of an instance that must exist.
pub(super) fn known(db: &Db, instance: &str) -> Result<i64, Fault> {
    key_of(db, instance)?.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))
}

/// The status behind a stored number.
pub(super) fn status(code: i64) -> rusqlite::Result<Status> {
    Status::from_code(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, code))
}
