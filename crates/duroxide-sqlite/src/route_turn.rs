//! Finding ready instances for a node that routes by handler.
//!
//! In a healthy cluster most of what is ready suits most nodes. So the instances that have been ready longest are
//! looked at first, a bounded number of them. Only when others' work stands before ours does the fetch go through
//! the distinct routes, one step each, and takes the oldest of those that match. Either way the cost does not
//! depend on how much is ready: it is that of [`FRONT`] rows, or of the distinct routes.
//!
//! Suspects are in no index by route. They are what dead processes held, and few: all that are ready are looked at.

use std::ops::ControlFlow;

use duroxide_core::{HandlerSet, Route};

use super::damaged::{is_readable, lossy};
use super::db::Db;
use super::fault::Fault;
use super::fetch_turn::Candidate;
use super::tx::Tx;
use super::values::{Ms, rows};

/// Instances looked at, besides those wanted, before the fetch goes by route.
const FRONT: usize = 64;

/// Instances with one pinned version, either clean or suspects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) pinned_key: i64,
    pub(super) suspect: bool,
}

/// The ready instances of a lane that have been so longest and that the node has a handler for, at least `wanted`
/// of them if there are so many.
pub(super) fn oldest(
    tx: &Tx<'_>,
    lane: Lane,
    handlers: &HandlerSet,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    match front(tx, lane, handlers, wanted, next_due)? {
        Front::Seen(found) => Ok(found),
        Front::Blocked => by_route(tx, lane.pinned_key, handlers, wanted, next_due),
    }
}

/// What a look at the instances that have been ready longest gave.
enum Front {
    /// All that is wanted, or all that is ready.
    Seen(Vec<Candidate>),
    /// Too many that are for others.
    Blocked,
}

fn front(
    tx: &Tx<'_>,
    lane: Lane,
    handlers: &HandlerSet,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Front, Fault> {
    const SQL: &str = "SELECT ready_at, key, route_name, route_version, cancels > 0 FROM instances \
         INDEXED BY instances_ready WHERE ready_at IS NOT NULL AND pinned_key = ?1 AND suspect = ?2 \
         ORDER BY ready_at, key LIMIT ?3";
    let limit = if lane.suspect { usize::MAX } else { wanted.saturating_add(FRONT) };
    let mut found = Vec::new();
    let mut seen = 0;
    let mut due = *next_due;
    tx.db.each(SQL, (lane.pinned_key, lane.suspect, rows(limit)), |row| {
        let candidate = Candidate { ready_at: row.get(0)?, key: row.get(1)? };
        if candidate.ready_at > tx.now {
            due = due.min(candidate.ready_at);
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        // A damaged route needs no handler: the instance is ended when it is taken.
        let damaged = !is_readable(row, 2)? || !is_readable(row, 3)?;
        let (name, version) = (lossy(row, 2)?, lossy(row, 3)?);
        let cancelled: bool = row.get(4)?;
        if cancelled || damaged || handlers.has(&Route::new(&name, Some(&version))) {
            found.push(candidate);
        }
        Ok(if found.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if seen == limit && found.len() < wanted {
        return Ok(Front::Blocked);
    }
    *next_due = due;
    Ok(Front::Seen(found))
}

/// The same for clean instances, by route.
fn by_route(
    tx: &Tx<'_>,
    pinned_key: i64,
    handlers: &HandlerSet,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    const CANCELLED: &str = "SELECT ready_at, key FROM instances INDEXED BY instances_cancelled \
         WHERE ready_at IS NOT NULL AND cancels > 0 AND pinned_key = ?1 AND suspect = 0 \
         ORDER BY ready_at, key LIMIT ?2";
    const OLDEST: &str = "SELECT ready_at, key FROM instances INDEXED BY instances_routed \
         WHERE ready_at IS NOT NULL AND suspect = 0 AND pinned_key = ?1 AND route_name = ?2 \
         AND route_version = ?3 ORDER BY ready_at, key LIMIT ?4";
    let mut found = Vec::new();
    let mut due = *next_due;
    let mut visit = |row: &rusqlite::Row<'_>| {
        let candidate = Candidate { ready_at: row.get(0)?, key: row.get(1)? };
        Ok(if candidate.ready_at <= tx.now {
            found.push(candidate);
            ControlFlow::Continue(())
        } else {
            due = due.min(candidate.ready_at);
            ControlFlow::Break(())
        })
    };
    let limit = rows(wanted);
    tx.db.each(CANCELLED, (pinned_key, limit), &mut visit)?;
    for (name, version) in clean_routes(tx.db, pinned_key)? {
        if handlers.has(&Route::new(&name, Some(&version))) {
            tx.db.each(OLDEST, (pinned_key, &name, &version, limit), &mut visit)?;
        }
    }
    // One with a cancel stands under its route as well.
    found.sort_unstable();
    found.dedup();
    *next_due = due;
    Ok(found)
}

/// The distinct routes among the instances with a pinned version whose inbox is not empty.
pub(super) fn routes(db: &Db, pinned_key: i64) -> Result<Vec<(String, String)>, Fault> {
    const OF_SUSPECTS: &str = "SELECT DISTINCT route_name, route_version FROM instances INDEXED BY instances_ready \
         WHERE ready_at IS NOT NULL AND pinned_key = ?1 AND suspect = 1";
    let mut routes = clean_routes(db, pinned_key)?;
    routes.extend(db.all(OF_SUSPECTS, [pinned_key], |row| Ok((lossy(row, 0)?, lossy(row, 1)?)))?);
    Ok(routes)
}

/// Those of clean instances, in one statement with a step of the index for each. The route of every node is always
/// among them.
fn clean_routes(db: &Db, pinned_key: i64) -> Result<Vec<(String, String)>, Fault> {
    const SQL: &str = "WITH RECURSIVE routes (n, v) AS ( \
           SELECT '', '' \
           UNION ALL \
           SELECT i.route_name, i.route_version FROM routes CROSS JOIN instances i ON i.key = \
             (SELECT key FROM instances INDEXED BY instances_routed \
              WHERE ready_at IS NOT NULL AND suspect = 0 AND pinned_key = ?1 \
              AND (route_name, route_version) > (n, v) ORDER BY route_name, route_version LIMIT 1)) \
         SELECT n, v FROM routes";
    Ok(db.all(SQL, [pinned_key], |row| Ok((lossy(row, 0)?, lossy(row, 1)?)))?)
}
