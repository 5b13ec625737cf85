//! Finding ready work items for a node that routes by handler: the same as for turns, by the activity's name.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::damaged::{is_readable, lossy};
use super::db::Db;
use super::fault::Fault;
use super::fetch_work::Candidate;
use super::tx::Tx;
use super::values::{Ms, rows};

/// Work items looked at, besides those wanted, before the fetch goes by name.
const FRONT: usize = 64;

/// Work items without a session with one tag, either clean or suspects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane<'a> {
    pub(super) tag: &'a str,
    pub(super) suspect: bool,
}

/// The ready work items of a lane that have been so longest and that the node has a handler for, at least `wanted`
/// of them if there are so many.
pub(super) fn oldest(
    tx: &Tx<'_>,
    lane: Lane<'_>,
    activities: &BTreeSet<String>,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    const FRONT_ROWS: &str = "SELECT ready_at, id, name FROM work_items INDEXED BY work_items_ready \
         WHERE session_id IS NULL AND tag = ?1 AND suspect = ?2 ORDER BY ready_at, id LIMIT ?3";
    // Suspects are in no index by name: they are what dead processes held, and few.
    let limit = if lane.suspect { usize::MAX } else { wanted.saturating_add(FRONT) };
    let mut found = Vec::new();
    let mut seen = 0;
    let mut due = *next_due;
    tx.db.each(FRONT_ROWS, (lane.tag, lane.suspect, rows(limit)), |row| {
        let candidate = Candidate { ready_at: row.get(0)?, id: row.get(1)?, suspect: lane.suspect };
        if candidate.ready_at > tx.now {
            due = due.min(candidate.ready_at);
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        // A damaged name needs no handler: the work item is set aside when it is taken.
        if !is_readable(row, 2)? || activities.contains(&lossy(row, 2)?) {
            found.push(candidate);
        }
        Ok(if found.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if seen == limit && found.len() < wanted {
        // Others' work stands before ours.
        return by_name(tx, lane.tag, activities, wanted, next_due);
    }
    *next_due = due;
    Ok(found)
}

/// The same for clean work items, by name.
fn by_name(
    tx: &Tx<'_>,
    tag: &str,
    activities: &BTreeSet<String>,
    wanted: usize,
    next_due: &mut Ms,
) -> Result<Vec<Candidate>, Fault> {
    const OLDEST: &str = "SELECT ready_at, id FROM work_items INDEXED BY work_items_routed \
         WHERE session_id IS NULL AND suspect = 0 AND tag = ?1 AND name = ?2 ORDER BY ready_at, id LIMIT ?3";
    let mut found = Vec::new();
    for name in clean_names(tx.db, tag)?.iter().filter(|name| activities.contains(*name)) {
        tx.db.each(OLDEST, (tag, name, rows(wanted)), |row| {
            let candidate = Candidate { ready_at: row.get(0)?, id: row.get(1)?, suspect: false };
            Ok(if candidate.ready_at <= tx.now {
                found.push(candidate);
                ControlFlow::Continue(())
            } else {
                *next_due = (*next_due).min(candidate.ready_at);
                ControlFlow::Break(())
            })
        })?;
    }
    found.sort_unstable();
    Ok(found)
}

/// The distinct names among the work items with a tag and without a session.
pub(super) fn names(db: &Db, tag: &str) -> Result<Vec<String>, Fault> {
    const OF_SUSPECTS: &str = "SELECT DISTINCT name FROM work_items INDEXED BY work_items_ready \
         WHERE session_id IS NULL AND tag = ?1 AND suspect = 1";
    let mut names = clean_names(db, tag)?;
    names.extend(db.all(OF_SUSPECTS, [tag], |row| lossy(row, 0))?);
    Ok(names)
}

/// Those of clean work items. One step each.
fn clean_names(db: &Db, tag: &str) -> Result<Vec<String>, Fault> {
    const SQL: &str = "WITH RECURSIVE names (n) AS ( \
           SELECT min(name) FROM work_items INDEXED BY work_items_routed \
           WHERE session_id IS NULL AND suspect = 0 AND tag = ?1 \
           UNION ALL \
           SELECT (SELECT min(name) FROM work_items INDEXED BY work_items_routed \
                   WHERE session_id IS NULL AND suspect = 0 AND tag = ?1 AND name > n) \
           FROM names WHERE n IS NOT NULL) \
         SELECT n FROM names WHERE n IS NOT NULL";
    Ok(db.all(SQL, [tag], |row| lossy(row, 0))?)
}
