//! The row of an instance as the queue sees it: how full its inbox is, when it is ready, who holds it.

use duroxide_core::ItemKind;
use rusqlite::{OptionalExtension as _, Row};

use super::db::Db;
use super::fault::Fault;
use super::token::Token;
use super::tx::Tx;
use super::values::{Ms, from_column};
pub(super) use duroxide_provider::support::Status;

/// The packed version of an execution that is not pinned.
pub(super) const NOT_PINNED: i64 = -1;

/// The packed version behind the column.
pub(super) fn pinned(pinned_key: i64) -> Option<i64> {
    (pinned_key != NOT_PINNED).then_some(pinned_key)
}

/// The lock of an instance and the messages that it covers: those of the inbox up to
/// (`visible_at`, `position`) whose position is below `watermark`.
///
/// Which messages are locked, and that they were fetched once more, thus stands in one row, however many
/// they are. The attempt is added to the messages themselves only when it ends without deleting them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnLock {
    pub(super) nonce: i64,
    pub(super) visible_at: Ms,
    pub(super) position: i64,
    pub(super) watermark: i64,
}

/// The part of an instance's row that changes with every message and turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueRow {
    pub(super) key: i64,
    pub(super) status: Status,
    pub(super) current_execution_id: u64,
    pub(super) pinned_key: i64,
    pub(super) has_kv: bool,
    pub(super) inbox_count: i64,
    pub(super) next_position: i64,
    /// The end of the backoff. [`CANCELLED_WHILE_LOCKED`] when a cancel came while a turn was under way.
    pub(super) not_before: Ms,
    pub(super) ready_at: Option<Ms>,
    pub(super) suspect: bool,
    pub(super) suspect_before: bool,
    pub(super) lock: Option<TurnLock>,
    /// How many cancels are in the inbox.
    pub(super) cancels: i64,
    /// The latest visible time that a message without a delay was given.
    pub(super) last_arrival: Ms,
}

/// Stands in `not_before`: the backoff that the turn under way may ask for is over before it begins.
pub(super) const CANCELLED_WHILE_LOCKED: Ms = -1;

/// The columns of [`QueueRow`], to be selected first.
macro_rules! queue_columns {
    () => {
        "i.key, i.status, i.current_execution_id, i.pinned_key, i.has_kv, i.inbox_count, i.next_position, \
         i.not_before, i.ready_at, i.suspect, i.suspect_before, i.lock_nonce, i.lock_visible_at, \
         i.lock_position, i.lock_watermark, i.cancels, i.last_arrival"
    };
}
pub(super) use queue_columns;

/// How many columns [`queue_columns`] names.
pub(super) const QUEUE_COLUMNS: usize = 17;

impl QueueRow {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let lock = match row.get::<_, Option<i64>>(11)? {
            Some(nonce) => Some(TurnLock {
                nonce,
                visible_at: row.get(12)?,
                position: row.get(13)?,
                watermark: row.get(14)?,
            }),
            None => None,
        };
        Ok(Self {
            key: row.get(0)?,
            status: status(row.get(1)?)?,
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
            cancels: row.get(15)?,
            last_arrival: row.get(16)?,
        })
    }

    pub(super) fn by_id(db: &Db, instance: &str) -> rusqlite::Result<Option<Self>> {
        const SQL: &str = concat!("SELECT ", queue_columns!(), " FROM instances i WHERE i.instance_id = ?1");
        db.first(SQL, [instance], Self::from_row)
    }

    /// The row that this token holds at the transaction's time.
    pub(super) fn held_by(tx: &Tx<'_>, token: Token) -> Result<Self, Fault> {
        const SQL: &str = concat!("SELECT ", queue_columns!(), " FROM instances i WHERE i.key = ?1");
        let row = tx.db.first(SQL, [token.key], Self::from_row)?.ok_or(Fault::LockLost)?;
        if row.is_held_by(token, tx.now) { Ok(row) } else { Err(Fault::LockLost) }
    }

    pub(super) fn is_held_by(&self, token: Token, now: Ms) -> bool {
        let expires = self.ready_at.unwrap_or(Ms::MIN);
        self.lock.is_some_and(|lock| lock.nonce == token.nonce) && now < expires
    }

    /// Recomputes when an unlocked instance is ready, from the messages that are in its inbox.
    pub(super) fn recompute_ready_at(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        const SQL: &str = "SELECT visible_at FROM inbox WHERE instance_key = ?1 ORDER BY visible_at LIMIT 1";
        self.ready_at = None;
        // A number that is damaged says nothing: the inbox does.
        if self.inbox_count != 0 {
            self.pull_back(tx)?;
            let first: Option<Ms> = tx.db.first(SQL, [self.key], |row| row.get(0))?;
            self.ready_at = first.map(|visible_at| visible_at.max(self.not_before));
        }
        if let Some(ready_at) = self.ready_at {
            tx.effects.turn_ready(ready_at);
        }
        Ok(())
    }

    /// Writes what a message, a fetch or the end of an attempt changes.
    pub(super) fn save(&self, db: &Db) -> rusqlite::Result<()> {
        const SQL: &str = "UPDATE instances SET inbox_count = ?2, next_position = ?3, not_before = ?4, ready_at = ?5, \
             suspect = ?6, suspect_before = ?7, lock_nonce = ?8, lock_visible_at = ?9, lock_position = ?10, \
             lock_watermark = ?11, cancels = ?12, last_arrival = ?13 WHERE key = ?1";
        let params = (
            self.key,
            self.inbox_count,
            self.next_position,
            self.not_before,
            self.ready_at,
            self.suspect,
            self.suspect_before,
            self.lock.map(|lock| lock.nonce),
            self.lock.map(|lock| lock.visible_at),
            self.lock.map(|lock| lock.position),
            self.lock.map(|lock| lock.watermark),
            self.cancels,
            self.last_arrival,
        );
        db.execute(SQL, params).map(|_| ())
    }

    /// Counts the cancels anew after messages were taken out of the inbox.
    pub(super) fn recount_cancels(&mut self, db: &Db) -> rusqlite::Result<()> {
        const SQL: &str = "SELECT count(*) FROM inbox WHERE instance_key = ?1 AND kind = ?2";
        if self.cancels > 0 {
            let left = db.first(SQL, (self.key, ItemKind::Cancel.code()), |row| row.get(0))?;
            self.cancels = left.unwrap_or(0);
        }
        Ok(())
    }

    /// Writes what a further message, other than a cancel, changes when the instance is no sooner ready for it: the index of ready
    /// instances stays as it is.
    pub(super) fn save_inbox(&self, db: &Db) -> rusqlite::Result<()> {
        const SQL: &str = "UPDATE instances SET inbox_count = ?2, next_position = ?3, not_before = ?4, last_arrival = ?5 WHERE key = ?1";
        let params = (self.key, self.inbox_count, self.next_position, self.not_before, self.last_arrival);
        db.execute(SQL, params).map(|_| ())
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
