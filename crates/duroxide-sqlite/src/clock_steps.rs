//! What was stored while the clock was ahead, once it was set back.
//!
//! The order of an inbox does not depend on the clock: a message that is not delayed is stamped no earlier than the one
//! before it. What is not delayed is ready at once: when the clock shows less than it did before, and when a store is
//! opened, whatever is stamped with a later time and waits for nothing else becomes ready now. Locks, claims and delays
//! that were given out while the clock was ahead last longer by as much.

use duroxide_provider::rules::{InstanceRow, UNLOCKED};

use super::fault::Fault;
use super::sessions;
use super::tx::Tx;
use super::work::place;

/// Makes ready what is not delayed and is stamped with a time that is yet to come. Looks at everything that waits for a
/// time.
pub(super) fn make_ready(tx: &mut Tx<'_>) -> Result<(), Fault> {
    const TURNS: &str = "UPDATE instances SET ready_at = ?1, not_before = min(not_before, ?1) \
         WHERE ready_at > ?1 AND ready_at IS NOT NULL AND ready_at <= last_arrival AND lock_nonce IS NULL AND status = 1";
    const WORK: &str = "UPDATE work_items SET ready_at = ?1, visible_at = ?1 \
         WHERE ready_at > ?1 AND lock_nonce = ?2 AND delayed_at IS NULL RETURNING tag, session_id, name";
    if tx.db.execute(TURNS, [tx.now])? > 0 {
        tx.effects.turn_ready(tx.now);
    }
    let places = tx.db.all(WORK, (tx.now, UNLOCKED), place)?;
    if !places.is_empty() {
        tx.effects.work_ready(tx.now);
    }
    for place in &places {
        sessions::queue_changed(tx.db, place)?;
    }
    Ok(())
}

/// Makes messages of an inbox visible that came while the clock was ahead. The instance must not be locked: a lock covers
/// messages by their times.
pub(super) fn pull_back(tx: &Tx<'_>, row: &mut InstanceRow) -> rusqlite::Result<()> {
    const SQL: &str = "UPDATE inbox SET visible_at = ?2 \
         WHERE instance_key = ?1 AND visible_at > ?2 AND visible_at <= ?3 AND kind <> 5";
    if row.last_arrival > tx.now {
        tx.db.execute(SQL, (row.key, tx.now, row.last_arrival))?;
        row.last_arrival = tx.now;
    }
    Ok(())
}
