//! What of an instance was given back, and when it is tried again.

use duroxide_core::BounceCause;
use duroxide_provider::{ActivityBounce, Bounce, Bounces};

use duroxide_provider::rules::UNLOCKED;

use super::db::Db;
use super::fault::Fault;
use super::release_turn::max_attempts;
use super::values::{Ms, from_column};

/// The cause that is kept with an instance, to be selected from `instances i`. A build that does not know these columns
/// leaves a cause behind when it commits a turn, which is why an older one is none.
macro_rules! kept_cause {
    () => {
        "CASE WHEN i.bounced_at >= i.updated_at THEN i.bounce END"
    };
}
pub(super) use kept_cause;

pub(super) fn of_instance(db: &Db, now: Ms, instance: &str) -> Result<Bounces, Fault> {
    const TURN: &str = concat!(
        "SELECT ",
        kept_cause!(),
        ", i.bounced_at, CASE WHEN i.lock_nonce IS NULL OR i.ready_at <= ?2 THEN i.ready_at END, i.status = 1 \
         FROM instances i WHERE i.instance_id = ?1"
    );
    const WORK: &str = "SELECT bounce, bounced_at, CASE WHEN lock_nonce = ?3 OR ready_at <= ?2 THEN ready_at END, \
         execution_id, activity_id, name, attempts FROM work_items \
         WHERE instance_id = ?1 AND bounce IS NOT NULL ORDER BY execution_id, activity_id";
    db.snapshot(|db| {
        let found =
            db.first(TURN, (instance, now), |row| Ok((Kept::from_row(row)?, row.get::<_, bool>(3)?)))?;
        let (turn, running) = found.ok_or_else(|| Fault::NotFound(format!("instance '{instance}'")))?;
        if !running {
            return Ok(Bounces::default());
        }
        let attempts = max_attempts(db, instance)?;
        let activities = db.all(WORK, (instance, now, UNLOCKED), |row| {
            let attempts = u32::try_from(row.get::<_, i64>(6)?).unwrap_or(u32::MAX);
            let Some(bounce) = Kept::from_row(row)?.bounce(attempts) else { return Ok(None) };
            Ok(Some(ActivityBounce {
                execution_id: from_column(row.get(3)?),
                activity_id: from_column(row.get(4)?),
                name: row.get(5)?,
                bounce,
            }))
        })?;
        Ok(Bounces { turn: turn.bounce(attempts), activities: activities.into_iter().flatten().collect() })
    })
}

/// A cause, when it was kept, and when the next attempt may begin.
struct Kept {
    cause: Option<String>,
    at: Option<Ms>,
    next: Option<Ms>,
}

impl Kept {
    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { cause: row.get(0)?, at: row.get(1)?, next: row.get(2)? })
    }

    fn bounce(self, attempts: u32) -> Option<Bounce> {
        Some(Bounce {
            cause: BounceCause::from_stored(&self.cause?)?,
            at_ms: from_column(self.at?),
            attempts,
            next_try_ms: self.next.map(from_column),
        })
    }
}
