//! Sessions: who may run the activities that belong together, and the first of them in each session.

use std::ops::ControlFlow;
use std::time::Duration;

use duroxide_provider::clock::millis;
use duroxide_provider::rules::Place;
use duroxide_provider::{SessionFetchConfig, SessionOverlap, Suspects, WorkRequest};

use super::damaged::{lossy, optional_lossy};
use super::db::Db;
use super::fault::Fault;
use super::fetch_work::{Candidate, accepted};
use super::route_work::Lane;
use super::tx::Tx;
use super::values::{Ms, NEVER, after, to_column};

/// How many waiting sessions of a tag and an activity are looked at for claims to give up. What stands before them
/// is taken by owners with room; then those behind come up.
const LOOKED_AT_WITHOUT_ROOM: u32 = 64;

/// The oldest ready item of the sessions that are free or owned by who asks.
///
/// Looks at the heads of sessions, oldest first, and passes those that somebody else owns or that are busy. How
/// many that can be is bounded by what all owners hold, not by what is queued. An owner without room for another
/// session looks at those only that have something in progress, and gives up the idle ones that wait for it.
pub(super) fn oldest(
    tx: &mut Tx<'_>,
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
    const ANY: &str = "SELECT 1 FROM session_heads LIMIT 1";
    let Some(config) = &request.session else { return Ok(None) };
    // Most stores have no sessions: one question, not one for each tag.
    if tx.db.first(ANY, [], |_| Ok(()))?.is_none() {
        return Ok(None);
    }
    let room = room(tx, request, config, next_due)?;
    let tags = match accepted(&request.tags) {
        Some(tags) => tags,
        None => tx.db.all(TAGS, [], |row| lossy(row, 0))?,
    };
    let kinds: &[bool] = if suspects.are_admitted() { &[false, true] } else { &[false] };
    let mut oldest: Option<Candidate> = None;
    for tag in &tags {
        for suspect in kinds {
            let lane = Lane { tag, suspect: *suspect };
            if room == Room::Full {
                let head = oldest_head_in_progress(tx, request, config, lane, next_due)?;
                oldest = oldest.into_iter().chain(head).min();
            }
            for name in names(tx, lane)?.iter().filter(|name| is_known(request, name)) {
                match room {
                    Room::Full => give_up_claims(tx, config, lane, name, next_due)?,
                    Room::Free => {
                        let head = oldest_head(tx, request, config, lane, name, next_due)?;
                        oldest = oldest.into_iter().chain(head).min();
                    }
                }
            }
        }
    }
    Ok(oldest)
}

/// Drops what the heads of sessions say of a work item that is not as they say.
pub(super) fn drop_heads(tx: &Tx<'_>, work_id: i64) -> Result<(), Fault> {
    tx.db.execute("DELETE FROM session_heads WHERE work_id = ?1", [work_id])?;
    Ok(())
}

/// Whether the node can run the activity, as far as it says.
fn is_known(request: &WorkRequest, name: &str) -> bool {
    request.activities.as_ref().is_none_or(|activities| activities.contains(name))
}

/// The distinct activities among the heads of a lane. One step each.
fn names(tx: &Tx<'_>, lane: Lane<'_>) -> Result<Vec<String>, Fault> {
    const SQL: &str = "WITH RECURSIVE names (n) AS ( \
           SELECT min(name) FROM session_heads INDEXED BY session_heads_ready WHERE tag = ?1 AND suspect = ?2 \
           UNION ALL \
           SELECT (SELECT min(name) FROM session_heads INDEXED BY session_heads_ready \
                   WHERE tag = ?1 AND suspect = ?2 AND name > n) FROM names WHERE n IS NOT NULL) \
         SELECT n FROM names WHERE n IS NOT NULL";
    Ok(tx.db.all(SQL, (lane.tag, lane.suspect), |row| lossy(row, 0))?)
}

/// Whether an owner may begin with a session that has nothing in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// As many of its sessions as it allows have something in progress.
    Full,
}

/// Whether the owner has room for another session. If not, the end of a lock is the next chance.
fn room(
    tx: &Tx<'_>,
    request: &WorkRequest,
    config: &SessionFetchConfig,
    next_due: &mut Ms,
) -> Result<Room, Fault> {
    const RUNNING: &str = "SELECT count(*), min(until) FROM ( \
           SELECT max(w.ready_at) AS until FROM work_items w INDEXED BY work_items_locked_of_session \
           CROSS JOIN sessions s ON s.session_id = w.session_id \
           WHERE w.session_id IS NOT NULL AND w.lock_nonce <> -9223372036854775808 AND w.ready_at > ?2 \
             AND s.owner = ?1 AND s.locked_until > ?2 GROUP BY w.session_id)";
    let max_running = request.session_limits.max_running;
    if max_running == usize::MAX {
        return Ok(Room::Free);
    }
    let running: Option<(i64, Option<Ms>)> =
        tx.db.first(RUNNING, (&config.owner_id, tx.now), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (running, first_end) = running.unwrap_or((0, None));
    if usize::try_from(running).is_ok_and(|running| running < max_running) {
        return Ok(Room::Free);
    }
    *next_due = (*next_due).min(first_end.unwrap_or(NEVER));
    Ok(Room::Full)
}

/// Until when an activity of the session is in progress, if that keeps others of it waiting.
fn busy_until(tx: &Tx<'_>, request: &WorkRequest, session_id: &str) -> rusqlite::Result<Option<Ms>> {
    match request.session_limits.overlap {
        SessionOverlap::Parallel => Ok(None),
        SessionOverlap::OneAtATime => running_until(tx, session_id),
    }
}

/// Until when an activity of the session is in progress, unless its lock is renewed.
fn running_until(tx: &Tx<'_>, session_id: &str) -> rusqlite::Result<Option<Ms>> {
    const SQL: &str = "SELECT max(ready_at) FROM work_items INDEXED BY work_items_locked_of_session \
         WHERE session_id = ?1 AND lock_nonce <> -9223372036854775808 AND ready_at > ?2";
    Ok(tx.db.first(SQL, (session_id, tx.now), |row| row.get(0))?.flatten())
}

/// The oldest ready item of the owner's sessions that have something in progress.
fn oldest_head_in_progress(
    tx: &Tx<'_>,
    request: &WorkRequest,
    config: &SessionFetchConfig,
    lane: Lane<'_>,
    next_due: &mut Ms,
) -> Result<Option<Candidate>, Fault> {
    const HEADS: &str = "SELECT h.ready_at, h.work_id, h.name FROM ( \
           SELECT DISTINCT w.session_id FROM work_items w INDEXED BY work_items_locked_of_session \
           WHERE w.session_id IS NOT NULL AND w.lock_nonce <> -9223372036854775808 AND w.ready_at > ?4) r \
         CROSS JOIN sessions s ON s.session_id = r.session_id AND s.owner = ?1 AND s.locked_until > ?4 \
         CROSS JOIN session_heads h ON h.session_id = r.session_id AND h.tag = ?2 AND h.suspect = ?3";
    match request.session_limits.overlap {
        // The next one may begin when a lock ends, which is known to be waited for.
        SessionOverlap::OneAtATime => return Ok(None),
        SessionOverlap::Parallel => {}
    }
    let mut oldest: Option<Candidate> = None;
    tx.db.each(HEADS, (&config.owner_id, lane.tag, lane.suspect, tx.now), |row| {
        let head = Candidate { ready_at: row.get(0)?, id: row.get(1)?, suspect: lane.suspect };
        if !is_known(request, &lossy(row, 2)?) {
            return Ok(ControlFlow::Continue(()));
        }
        if head.ready_at > tx.now {
            *next_due = (*next_due).min(head.ready_at);
        } else {
            oldest = Some(oldest.map_or(head, |other| other.min(head)));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(oldest)
}

/// Gives up the claims of an owner without room on idle sessions that wait for it with this activity.
fn give_up_claims(
    tx: &mut Tx<'_>,
    config: &SessionFetchConfig,
    lane: Lane<'_>,
    name: &str,
    next_due: &mut Ms,
) -> Result<(), Fault> {
    const HEADS: &str = "SELECT h.ready_at, h.session_id, s.owner = ?4 AND s.locked_until > ?5 \
         FROM session_heads h INDEXED BY session_heads_ready LEFT JOIN sessions s ON s.session_id = h.session_id \
         WHERE h.tag = ?1 AND h.suspect = ?2 AND h.name = ?3 ORDER BY h.ready_at, h.work_id LIMIT ?6";
    const GIVE_UP: &str = "UPDATE sessions SET locked_until = ?2 WHERE session_id = ?1";
    let mut given_up: Vec<String> = Vec::new();
    let params = (lane.tag, lane.suspect, name, &config.owner_id, tx.now, LOOKED_AT_WITHOUT_ROOM);
    tx.db.each(HEADS, params, |row| {
        let ready_at: Ms = row.get(0)?;
        if ready_at > tx.now {
            *next_due = (*next_due).min(ready_at);
            return Ok(ControlFlow::Break(()));
        }
        let (session_id, is_owned): (String, Option<bool>) = (lossy(row, 1)?, row.get(2)?);
        if is_owned == Some(true) && running_until(tx, &session_id)?.is_none() {
            given_up.push(session_id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for session_id in &given_up {
        tx.db.execute(GIVE_UP, (session_id, tx.now))?;
    }
    if !given_up.is_empty() {
        tx.effects.work_ready(tx.now);
    }
    Ok(())
}

fn oldest_head(
    tx: &Tx<'_>,
    request: &WorkRequest,
    config: &SessionFetchConfig,
    lane: Lane<'_>,
    name: &str,
    next_due: &mut Ms,
) -> Result<Option<Candidate>, Fault> {
    const HEADS: &str = "SELECT h.ready_at, h.work_id, s.owner, s.locked_until, h.session_id \
         FROM session_heads h INDEXED BY session_heads_ready LEFT JOIN sessions s ON s.session_id = h.session_id \
         WHERE h.tag = ?1 AND h.suspect = ?2 AND h.name = ?3 ORDER BY h.ready_at, h.work_id";
    let mut oldest = None;
    tx.db.each(HEADS, (lane.tag, lane.suspect, name), |row| {
        let ready_at: Ms = row.get(0)?;
        if ready_at > tx.now {
            *next_due = (*next_due).min(ready_at);
            return Ok(ControlFlow::Break(()));
        }
        let owner: Option<String> = optional_lossy(row, 2)?;
        let locked_until: Option<Ms> = row.get(3)?;
        let open_from = match (owner, locked_until) {
            (Some(owner), Some(locked_until)) if owner != config.owner_id => Some(locked_until),
            (Some(_), Some(locked_until)) if locked_until > tx.now => {
                busy_until(tx, request, &lossy(row, 4)?)?
            }
            // Free: what is locked without a claim is not run, but ended by a sweep.
            (_, _) => None,
        };
        if let Some(open_from) = open_from.filter(|open_from| *open_from > tx.now) {
            *next_due = (*next_due).min(open_from);
            return Ok(ControlFlow::Continue(()));
        }
        oldest = Some(Candidate { ready_at, id: row.get(1)?, suspect: lane.suspect });
        Ok(ControlFlow::Break(()))
    })?;
    Ok(oldest)
}

/// Claims a session that is free for the owner of this fetch. A live claim of its own stays as it is, but lasts
/// at least as long as the lock of the item that was fetched.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    session_id: &str,
    config: &SessionFetchConfig,
    item_locked_until: Ms,
) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO sessions (session_id, owner, locked_until, last_activity_at) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session_id) DO UPDATE SET owner = ?2, last_activity_at = ?4, \
         locked_until = CASE WHEN locked_until <= ?4 THEN ?3 ELSE max(locked_until, ?5) END";
    let locked_until = after(tx.now, config.lock_timeout).max(item_locked_until);
    tx.db.execute(SQL, (session_id, &config.owner_id, locked_until, tx.now, item_locked_until))?;
    tx.effects.work_ready(locked_until);
    Ok(())
}

/// Notes that a session is in use, at least until the lock of one of its items ends.
pub(super) fn note_use(db: &Db, session_id: &str, now: Ms, item_locked_until: Ms) -> Result<(), Fault> {
    const SQL: &str = "UPDATE sessions SET last_activity_at = ?2, locked_until = max(locked_until, ?3) \
         WHERE session_id = ?1";
    db.execute(SQL, (session_id, now, item_locked_until))?;
    Ok(())
}

/// Must follow when a work item is no longer in progress: another of its session may begin.
pub(super) fn item_let_go(tx: &mut Tx<'_>, place: &Place) -> Result<(), Fault> {
    if place.session_id.is_some() {
        tx.effects.work_ready(tx.now);
    }
    queue_changed(tx.db, place)
}

/// Must follow every change of a work item's readiness, and its deletion.
pub(super) fn queue_changed(db: &Db, place: &Place) -> Result<(), Fault> {
    match &place.session_id {
        Some(session_id) => refresh_head(db, session_id, &place.tag, &place.name),
        None => Ok(()),
    }
}

/// Finds the first work item of a session, tag and activity anew.
fn refresh_head(db: &Db, session_id: &str, tag: &str, name: &str) -> Result<(), Fault> {
    const FIRST: &str = "SELECT ready_at, id FROM work_items INDEXED BY work_items_of_session \
         WHERE session_id = ?1 AND tag = ?2 AND name = ?3 AND suspect = ?4 ORDER BY ready_at, id LIMIT 1";
    const SET: &str = "INSERT INTO session_heads (session_id, tag, name, suspect, ready_at, work_id) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session_id, tag, name, suspect) DO UPDATE \
         SET ready_at = ?5, work_id = ?6 WHERE ready_at <> ?5 OR work_id <> ?6";
    const CLEAR: &str =
        "DELETE FROM session_heads WHERE session_id = ?1 AND tag = ?2 AND name = ?3 AND suspect = ?4";
    for suspect in [false, true] {
        let first: Option<(Ms, i64)> =
            db.first(FIRST, (session_id, tag, name, suspect), |row| Ok((row.get(0)?, row.get(1)?)))?;
        match first {
            Some((ready_at, id)) => db.execute(SET, (session_id, tag, name, suspect, ready_at, id))?,
            None => db.execute(CLEAR, (session_id, tag, name, suspect))?,
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
    const SQL: &str = "UPDATE sessions SET locked_until = max(?2, coalesce( \
           (SELECT max(w.ready_at) FROM work_items w INDEXED BY work_items_locked_of_session \
            WHERE w.session_id = sessions.session_id AND w.lock_nonce <> -9223372036854775808), ?2)) \
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
    tx.leaves_rows();
    tx.effects.work_ready(locked_until);
    Ok(renewed)
}

/// Removes sessions whose claim has expired and for which nothing is queued; how many.
pub(super) fn cleanup(tx: &mut Tx<'_>) -> Result<usize, Fault> {
    const SQL: &str = "DELETE FROM sessions WHERE locked_until <= ?1 AND NOT EXISTS \
         (SELECT 1 FROM session_heads h WHERE h.session_id = sessions.session_id)";
    tx.leaves_rows();
    Ok(tx.db.execute(SQL, [tx.now])?)
}
