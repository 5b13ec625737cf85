//! Sessions: who may run the activities that belong together, and the first of them in each session.

use std::ops::ControlFlow;
use std::time::Duration;

use super::fault::Fault;
use super::fetch_work::{Candidate, accepted};
use super::tx::Tx;
use super::values::{Ms, after, to_column};
use super::work::Place;
use crate::clock::millis;
use crate::providers::{SessionFetchConfig, Suspects, WorkRequest};

/// The oldest ready item of the sessions that are free or owned by who asks.
///
/// Looks at the heads of sessions, oldest first, and passes those that somebody else owns. How many that can
/// be is bounded by what the other owners hold, not by what is queued.
pub(super) fn oldest(
    tx: &Tx<'_>,
    request: &WorkRequest,
    suspects: Suspects,
    next_due: &mut Ms,
) -> Result<Option<Candidate>, Fault> {
    const TAGS: &str = "WITH RECURSIVE tags (t) AS ( \
           SELECT min(tag) FROM session_heads INDEXED BY session_heads_ready \
           UNION ALL \
           SELECT (SELECT min(tag) FROM session_heads INDEXED BY session_heads_ready WHERE tag > t) \
           FROM tags WHERE t IS NOT NULL) \
         SELECT t FROM tags WHERE t IS NOT NULL";
    let Some(config) = &request.session else { return Ok(None) };
    let tags = match accepted(&request.tags) {
        Some(tags) => tags,
        None => tx.db.all(TAGS, [], |row| row.get(0))?,
    };
    let kinds: &[bool] = match suspects {
        Suspects::AdmitOne => &[false, true],
        Suspects::Refuse => &[false],
    };
    let mut oldest: Option<Candidate> = None;
    for tag in &tags {
        for suspect in kinds {
            let head = oldest_head(tx, config, tag, *suspect, next_due)?;
            oldest = oldest.into_iter().chain(head).min();
        }
    }
    Ok(oldest)
}

fn oldest_head(
    tx: &Tx<'_>,
    config: &SessionFetchConfig,
    tag: &str,
    suspect: bool,
    next_due: &mut Ms,
) -> Result<Option<Candidate>, Fault> {
    const HEADS: &str = "SELECT h.ready_at, h.work_id, s.owner, s.locked_until \
         FROM session_heads h INDEXED BY session_heads_ready LEFT JOIN sessions s ON s.session_id = h.session_id \
         WHERE h.tag = ?1 AND h.suspect = ?2 ORDER BY h.ready_at, h.work_id";
    let mut oldest = None;
    tx.db.each(HEADS, (tag, suspect), |row| {
        let ready_at: Ms = row.get(0)?;
        if ready_at > tx.now {
            *next_due = (*next_due).min(ready_at);
            return Ok(ControlFlow::Break(()));
        }
        let owner: Option<String> = row.get(2)?;
        let locked_until: Option<Ms> = row.get(3)?;
        let free_from = match (owner, locked_until) {
            (Some(owner), Some(locked_until)) if owner != config.owner_id => locked_until,
            (Some(_) | None, Some(_) | None) => Ms::MIN,
        };
        if free_from > tx.now {
            *next_due = (*next_due).min(free_from);
            return Ok(ControlFlow::Continue(()));
        }
        oldest = Some(Candidate { ready_at, id: row.get(1)?, suspect });
        Ok(ControlFlow::Break(()))
    })?;
    Ok(oldest)
}

/// Claims a session that is free for the owner of this fetch; a live claim of its own stays as it is.
pub(super) fn claim(tx: &mut Tx<'_>, session_id: &str, config: &SessionFetchConfig) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO sessions (session_id, owner, locked_until, last_activity_at) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session_id) DO UPDATE \
         SET owner = ?2, locked_until = ?3, last_activity_at = ?4 WHERE locked_until <= ?4";
    let locked_until = after(tx.now, config.lock_timeout);
    tx.db.execute(SQL, (session_id, &config.owner_id, locked_until, tx.now))?;
    tx.effects.work_ready(locked_until);
    Ok(())
}

/// Notes that a session is in use.
pub(super) fn note_activity(tx: &Tx<'_>, place: &Place) -> Result<(), Fault> {
    const SQL: &str = "UPDATE sessions SET last_activity_at = ?2 WHERE session_id = ?1";
    if let Some(session_id) = &place.session_id {
        tx.db.execute(SQL, (session_id, tx.now))?;
    }
    Ok(())
}

/// Must follow every change of a work item's readiness, and its deletion.
pub(super) fn queue_changed(tx: &Tx<'_>, place: &Place) -> Result<(), Fault> {
    match &place.session_id {
        Some(session_id) => refresh_head(tx, session_id, &place.tag),
        None => Ok(()),
    }
}

/// Finds the first work item of a session and tag anew.
pub(super) fn refresh_head(tx: &Tx<'_>, session_id: &str, tag: &str) -> Result<(), Fault> {
    const FIRST: &str = "SELECT ready_at, id FROM work_items INDEXED BY work_items_of_session \
         WHERE session_id = ?1 AND tag = ?2 AND suspect = ?3 ORDER BY ready_at, id LIMIT 1";
    const SET: &str = "INSERT INTO session_heads (session_id, tag, suspect, ready_at, work_id) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (session_id, tag, suspect) DO UPDATE \
         SET ready_at = ?4, work_id = ?5 WHERE ready_at <> ?4 OR work_id <> ?5";
    const CLEAR: &str = "DELETE FROM session_heads WHERE session_id = ?1 AND tag = ?2 AND suspect = ?3";
    for suspect in [false, true] {
        let first: Option<(Ms, i64)> =
            tx.db.first(FIRST, (session_id, tag, suspect), |row| Ok((row.get(0)?, row.get(1)?)))?;
        match first {
            Some((ready_at, id)) => tx.db.execute(SET, (session_id, tag, suspect, ready_at, id))?,
            None => tx.db.execute(CLEAR, (session_id, tag, suspect))?,
        };
    }
    Ok(())
}

/// Extends the live claims of these owners on sessions that were used within `idle_timeout`; how many.
pub(super) fn renew(
    tx: &mut Tx<'_>,
    owners: &[String],
    extend_for: Duration,
    idle_timeout: Duration,
) -> Result<usize, Fault> {
    const SQL: &str = "UPDATE sessions SET locked_until = ?2 \
         WHERE owner = ?1 AND locked_until > ?3 AND last_activity_at >= ?4";
    let locked_until = after(tx.now, extend_for);
    let used_since = tx.now.saturating_sub(to_column(millis(idle_timeout)));
    let mut renewed = 0;
    let mut owners: Vec<&String> = owners.iter().collect();
    owners.sort_unstable();
    owners.dedup();
    for owner in owners {
        renewed += tx.db.execute(SQL, (owner, locked_until, tx.now, used_since))?;
    }
    tx.effects.work_ready(locked_until);
    Ok(renewed)
}

/// Removes sessions whose claim has expired and for which nothing is queued; how many.
pub(super) fn cleanup(tx: &Tx<'_>) -> Result<usize, Fault> {
    const SQL: &str = "DELETE FROM sessions WHERE locked_until <= ?1 AND NOT EXISTS \
         (SELECT 1 FROM session_heads h WHERE h.session_id = sessions.session_id)";
    Ok(tx.db.execute(SQL, [tx.now])?)
}
