//! The end of an attempt at a turn without a commit: giving an instance back, or holding it longer.

use std::time::Duration;

use duroxide_provider::GiveBack;

use crate::connection::Conn;
use crate::fault::Fault;
use crate::instance_row::CANCELLED_WHILE_LOCKED;
use crate::token::Token;
use crate::values::{after, owned_text};
use crate::working_set::WorkingSet;

impl WorkingSet<'_> {
    /// Gives an instance back.
    pub(crate) async fn give_back_turn(&mut self, token: Token, give_back: &GiveBack) -> Result<(), Fault> {
        self.check_held(token)?;
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let (now, ignore_attempt) = (self.now, *ignore_attempt);
        let row = self.instance(token.key)?;
        // An attempt that did not take place leaves the expiry before it standing.
        row.suspect = ignore_attempt && row.suspect_before;
        row.suspect_before = false;
        row.not_before = match delay {
            Some(delay) if row.not_before != CANCELLED_WHILE_LOCKED => after(now, *delay),
            Some(_) | None => 0,
        };
        let lock = row.lock.take();
        row.bounced |= cause.is_some();
        if let Some(cause) = cause {
            self.writes.bounces.insert(token.key, Some(cause.clone().bounded().to_stored()));
        }
        if let Some(lock) = lock.filter(|_| !ignore_attempt) {
            self.writes.ended_attempts.push((token.key, lock));
        }
        self.recompute_ready_at(token.key).await
    }

    /// Lets the lock hold from now on for `extend_for`.
    pub(crate) fn renew_turn(&mut self, token: Token, extend_for: Duration) -> Result<(), Fault> {
        self.check_held(token)?;
        let locked_until = after(self.now, extend_for);
        let row = self.instance(token.key)?;
        row.ready_at = Some(locked_until);
        row.pending.queue = true;
        self.effects.turn_locked(locked_until);
        Ok(())
    }
}

/// The highest attempt count in an instance's inbox, the attempt under way included.
pub(crate) async fn max_attempts(conn: &Conn<'_>, instance: &str) -> Result<u32, Fault> {
    const SQL: &str = "SELECT coalesce(max(least(n.attempts, 4294967294) + (CASE WHEN q.lock_nonce IS NOT NULL \
           AND (n.visible_at, n.position) <= (q.lock_visible_at, q.lock_position) \
           AND n.position < q.lock_watermark THEN 1 ELSE 0 END)), 0) \
         FROM {s}.instances i JOIN {s}.queues q ON q.key = i.key JOIN {s}.inbox n ON n.instance_key = i.key \
         WHERE i.instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?;
    Ok(row.map_or(0, |row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX)))
}
