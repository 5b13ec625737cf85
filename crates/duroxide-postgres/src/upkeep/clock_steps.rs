//! What was stored while the server's clock was ahead, once it was set back.
//!
//! The order of an inbox does not depend on the clock: a message that is not delayed is stamped no earlier than the one
//! before it. What is not delayed is ready at once: when the clock shows less than it did before, and when a store is opened
//! that knows of a later time, whatever is stamped ahead of the clock and waits for nothing else becomes ready now. Locks,
//! claims and delays that were given out while the clock was ahead last longer by as much.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use duroxide_provider::rules::Effects;

use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::fetch::horizon::WrittenRows;
use crate::group::carrier::Carrier;
use crate::group::run_group::Failure;
use crate::rows::flush::refresh_heads;
use crate::rows::working_set::{RESERVE, reservations};
use crate::values::{Ms, from_text};

/// How far back a clock must go to be noticed. Answers of two connections may overtake each other, and what is stamped ahead
/// by less is ready soon enough.
const LEAST_STEP_MS: Ms = 1_000;

/// The pause before rows are looked at again that another transaction had locked.
const PAUSE: Duration = Duration::from_secs(1);

/// Inboxes of instances that nobody has locked. How many have something in them that is ahead of the clock, and how many were
/// made ready: another transaction may hold the others. What a turn gives back to its own inbox stands at a time below 0, and its
/// instance waits for the time of that turn.
const TURNS: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
     ahead AS MATERIALIZED (SELECT q.key FROM {s}.queues q WHERE q.ready_at > (SELECT now FROM c) AND q.lock_nonce IS NULL \
       AND NOT q.ended AND EXISTS (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND (n.visible_at < 0 \
         OR (n.visible_at > (SELECT now FROM c) AND n.kind <> 5 AND n.delayed IS NOT TRUE)))), \
     mine AS MATERIALIZED (SELECT q.key FROM ahead a JOIN {s}.queues q ON q.key = ANY (ARRAY[a.key]) \
       WHERE q.lock_nonce IS NULL AND NOT q.ended ORDER BY a.key FOR UPDATE OF q SKIP LOCKED), \
     moved AS (UPDATE {s}.inbox n SET visible_at = (SELECT now FROM c) FROM mine m \
       WHERE n.instance_key = ANY (ARRAY[m.key]) AND n.visible_at > (SELECT now FROM c) AND n.kind <> 5 \
         AND n.delayed IS NOT TRUE), \
     made AS (UPDATE {s}.queues q SET ready_at = (SELECT now FROM c), not_before = least(q.not_before, (SELECT now FROM c)), \
         revision = least(q.revision, 9223372036854775806) + 1 FROM mine m WHERE q.key = ANY (ARRAY[m.key])) \
     SELECT (SELECT now FROM c), (SELECT count(*) FROM ahead), (SELECT count(*) FROM mine)";

/// The same for work items: those that were never given back with a delay. A row for each that was made ready, and one besides
/// with the number of those that another transaction holds.
const WORK: &str = "WITH ahead AS MATERIALIZED (SELECT w.id FROM {s}.work_items w WHERE w.ready_at > $1::bigint \
       AND w.lock_nonce IS NULL AND w.waiting_since IS NULL), \
     mine AS MATERIALIZED (SELECT w.id FROM ahead a JOIN {s}.work_items w ON w.id = ANY (ARRAY[a.id]) \
       WHERE w.lock_nonce IS NULL AND w.waiting_since IS NULL ORDER BY a.id FOR UPDATE OF w SKIP LOCKED), \
     made AS (UPDATE {s}.work_items w SET ready_at = $1::bigint, visible_at = $1::bigint FROM mine m \
       WHERE w.id = ANY (ARRAY[m.id]) RETURNING w.session_id, w.tag) \
     SELECT NULL::bigint, made.session_id, made.tag FROM made UNION ALL \
     SELECT (SELECT count(*) FROM ahead) - (SELECT count(*) FROM mine), NULL, NULL";

/// The latest time that is quickly found: when the last instance began, or a node was last seen.
const LATEST: &str = "SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), \
     greatest((SELECT max(i.created_at) FROM {s}.instances i), (SELECT max(n.last_seen) FROM {s}.nodes n))";

/// Marks messages that are delayed.
pub(crate) const DELAYED: &str = "UPDATE {s}.inbox n SET delayed = TRUE \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (key, v, p) \
     WHERE n.instance_key = ANY (ARRAY[u.key]) AND n.visible_at = u.v AND n.position = u.p";

/// Watches the server's clock.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    latest: Option<Ms>,
    /// When the rows that are ahead of the clock are to be made ready, if it was set back.
    due: Option<Instant>,
}

impl ClockWatch {
    /// The server said that this is the time.
    pub(crate) fn saw(&mut self, now: Ms) {
        let latest = self.latest.unwrap_or(now);
        if now < latest.saturating_sub(LEAST_STEP_MS) {
            self.latest = Some(now);
            self.due = Some(Instant::now());
        } else {
            self.latest = Some(latest.max(now));
        }
    }

    /// When something is to be done.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.due
    }
}

/// What became of the rows that are ahead of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeReady {
    All,
    /// Another transaction holds some of them.
    Some,
}

impl Carrier {
    /// The server said that this is the time. Where the fetches wait, it is watched.
    pub(crate) fn saw_clock(&mut self, now: Ms) {
        if self.fetches_wait_at.is_none() {
            self.clock.saw(now);
        }
    }

    /// The same for a clock that a test moves, which no answer tells of.
    pub(crate) fn look_at_manual_clock(&mut self) {
        if let Some(now) = self.manual() {
            self.saw_clock(now);
        }
    }

    /// Makes ready what is stamped ahead of the clock, if the clock was set back.
    pub(crate) async fn after_clock_step(&mut self) {
        if self.clock.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        let manual = self.manual();
        let Some(conn) = &self.conn else {
            self.clock.due = Some(Instant::now() + PAUSE);
            return;
        };
        match make_ready(conn, manual).await {
            Ok((now, made)) => {
                self.clock.due = (made == MadeReady::Some).then(|| Instant::now() + PAUSE);
                self.memory.lock().forget();
                self.turns.forget();
                self.work.forget();
                self.versions.forget();
                self.turns.wake();
                self.work.wake();
                self.announce_anew(now).await;
            }
            Err(fault) => {
                self.clock.due = Some(Instant::now() + PAUSE);
                let failure = Failure::Storage(fault);
                self.roll_back(&failure, &[]).await;
                if let Failure::Storage(fault) = failure {
                    let error = fault.into_error("clock_step");
                    tracing::warn!(
                        target: "duroxide::runtime", %error,
                        "failed to make ready what was stored while the server's clock was ahead; tries again after a pause"
                    );
                }
            }
        }
    }

    /// Tells other processes that rows may be ready, however far back.
    async fn announce_anew(&mut self, now: Ms) {
        let mut written = WrittenRows::default();
        written.turns.include(false, Ms::MIN);
        written.work.include(false, Ms::MIN);
        self.announce(&Effects::at(now), &written, true, true).await;
    }
}

/// Makes ready what waits for nothing but a time that the clock showed before it was set back. Looks at everything that waits
/// for a time.
pub(crate) async fn make_ready(conn: &Conn<'_>, manual: Option<Ms>) -> Result<(Ms, MadeReady), Fault> {
    conn.begin().await?;
    let made = make_ready_in_transaction(conn, manual).await;
    crate::store::end(conn, made).await
}

async fn make_ready_in_transaction(conn: &Conn<'_>, manual: Option<Ms>) -> Result<(Ms, MadeReady), Fault> {
    let row = conn.first(TURNS, &[&manual]).await?;
    let (now, ahead, made): (Ms, i64, i64) =
        row.map_or((0, 0, 0), |row| (row.get(0), row.get(1), row.get(2)));
    let work = conn.query(WORK, &[&now]).await?;
    let held: i64 = work.iter().filter_map(|row| row.get::<_, Option<i64>>(0)).sum();
    let places = work.iter().filter_map(|row| Some((row.get::<_, Option<String>>(1)?, row.get(2))));
    let touched: BTreeSet<(String, String)> =
        places.map(|(session, tag)| (from_text(session), from_text(tag))).collect();
    if !touched.is_empty() {
        let mut pipeline = Pipeline::default();
        let sessions: BTreeSet<&String> = touched.iter().map(|(session, _)| session).collect();
        pipeline.add(RESERVE, values![reservations(conn.schema(), "session", sessions)]);
        refresh_heads(&mut pipeline, touched.iter());
        pipeline.run(conn).await?.all()?;
    }
    Ok((now, if made < ahead || held > 0 { MadeReady::Some } else { MadeReady::All }))
}

/// Whether the store knows of a time that is yet to come.
pub(crate) async fn is_ahead(conn: &Conn<'_>, manual: Option<Ms>) -> Result<bool, Fault> {
    let Some(row) = conn.first(LATEST, &[&manual]).await? else { return Ok(false) };
    let (now, latest): (Ms, Option<Ms>) = (row.get(0), row.get(1));
    Ok(latest.is_some_and(|latest| latest > now.saturating_add(LEAST_STEP_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_is_noticed_once_and_small_differences_are_not() {
        let mut clock = ClockWatch::default();
        for now in [10_000, 20_000, 19_500, 20_001, 19_001] {
            clock.saw(now);
            assert_eq!(clock.due, None, "{now}");
        }
        clock.saw(19_000);
        assert!(clock.due.take().is_some());
        clock.saw(19_000);
        clock.saw(18_500);
        assert_eq!(clock.due, None);
    }
}
