//! Work that no node can do: finding it, and locking it so that it can be ended.
//!
//! What waits is looked at by its distinct keys, one step each. Rows are counted or locked only under those keys
//! that no node can serve.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_core::{
    EndingRule, Need, Route, RoutingKey, UnprocessableWork, missing_capability, sort_findings,
};
use duroxide_provider::clock::millis;
use duroxide_provider::support::{one_turn, one_work};
use duroxide_provider::{FetchedWork, SweepRequest, TagFilter};

use duroxide_provider::rules::UNLOCKED;

use super::db::Db;
use super::fault::Fault;
use super::fetch_turn::{self, Candidate, Taken, pinned_keys};
use super::fetch_work;
use super::instance_row::pinned;
use super::nodes;
use super::raw_turn::RawTurn;
use super::route_turn;
use super::route_work;
use super::tx::Tx;
use super::values::{Ms, from_column, rows, to_column};
use duroxide_provider::support::ByteRoom;

/// What waits and no live node can do.
pub(super) fn find(db: &Db, now: Ms) -> Result<Vec<UnprocessableWork>, Fault> {
    db.snapshot(|db| {
        let nodes = nodes::list(db, now)?;
        let mut found = Vec::new();
        for what in turn_needs(db)?.into_iter().chain(work_needs(db)?) {
            let Some(missing) = missing_capability(&nodes, from_column(now), &what) else { continue };
            let (count, since) = match &what {
                Need::Turn(key) => waiting_turns(db, now, key)?,
                Need::Activity { name, tag } => waiting_work(db, now, name, tag.as_deref())?,
            };
            if count > 0 {
                let oldest_age = Duration::from_millis(from_column(now.saturating_sub(since)));
                found.push(UnprocessableWork { what, count, oldest_age, missing });
            }
        }
        sort_findings(&mut found);
        Ok(found)
    })
}

/// The distinct routing keys of instances with messages.
fn turn_needs(db: &Db) -> Result<BTreeSet<Need>, Fault> {
    let mut needs = BTreeSet::new();
    for pinned_key in pinned_keys(db)? {
        for (name, version) in route_turn::routes(db, pinned_key)? {
            let route = Route::new(&name, Some(&version));
            needs.insert(Need::Turn(RoutingKey { pinned: pinned(pinned_key), route }));
        }
    }
    Ok(needs)
}

/// The distinct names and tags of work items.
fn work_needs(db: &Db) -> Result<BTreeSet<Need>, Fault> {
    const OF_SESSIONS: &str = "SELECT DISTINCT tag, name FROM session_heads";
    let need = |tag: &str, name: String| {
        let tag = (!tag.is_empty()).then(|| tag.to_string());
        Need::Activity { name, tag }
    };
    let mut needs = BTreeSet::new();
    for tag in fetch_work::tags(db)? {
        needs.extend(route_work::names(db, &tag)?.into_iter().map(|name| need(&tag, name)));
    }
    let of_sessions: Vec<(String, String)> = db.all(OF_SESSIONS, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    needs.extend(of_sessions.into_iter().map(|(tag, name)| need(&tag, name)));
    Ok(needs)
}

/// Which rows stand under a routing key: one with a cancel needs no handler, whatever its route says.
macro_rules! under_key {
    () => {
        "ready_at IS NOT NULL AND pinned_key = ?1 AND suspect IN (0, 1) AND \
         CASE WHEN ?2 = '' THEN cancels > 0 OR route_name = '' \
              ELSE route_name = ?2 AND route_version = ?3 AND cancels = 0 END"
    };
}

/// When the first message of an instance is visible.
macro_rules! first_visible {
    () => {
        "(SELECT n.visible_at FROM inbox n WHERE n.instance_key = instances.key ORDER BY n.visible_at LIMIT 1)"
    };
}

fn key_columns(key: &RoutingKey) -> (i64, &str, &str) {
    let (name, version) = key.route.columns();
    (key.pinned.unwrap_or(duroxide_provider::rules::NOT_PINNED), name, version)
}

/// How many instances wait under a key, and since when.
fn waiting_turns(db: &Db, now: Ms, key: &RoutingKey) -> Result<(u64, Ms), Fault> {
    const SQL: &str = concat!(
        "SELECT count(*), coalesce(min(max(first, updated_at)), 0) FROM (SELECT updated_at, ",
        first_visible!(),
        " AS first FROM instances WHERE ",
        under_key!(),
        " AND (lock_nonce IS NULL OR ready_at <= ?4)) WHERE first <= ?4"
    );
    let (pinned_key, name, version) = key_columns(key);
    let found: Option<(i64, Ms)> =
        db.first(SQL, (pinned_key, name, version, now), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.map_or((0, 0), |(count, since)| (from_column(count), since)))
}

/// How many activities wait, and since when.
fn waiting_work(db: &Db, now: Ms, name: &str, tag: Option<&str>) -> Result<(u64, Ms), Fault> {
    const SQL: &str = "SELECT count(*), coalesce(min(coalesce(waiting_since, visible_at)), 0) FROM work_items \
         WHERE tag = ?1 AND name = ?2 AND (lock_nonce = ?4 OR ready_at <= ?3)";
    let found: Option<(i64, Ms)> =
        db.first(SQL, (tag.unwrap_or_default(), name, now, UNLOCKED), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.map_or((0, 0), |(count, since)| (from_column(count), since)))
}

/// Locks instances whose next turn no node can run, if they may be ended.
pub(super) fn fetch_turns(tx: &mut Tx<'_>, request: SweepRequest) -> Result<Vec<RawTurn>, Fault> {
    const SQL: &str = concat!(
        "SELECT ready_at, key FROM instances WHERE ",
        under_key!(),
        " AND ready_at <= ?4 AND updated_at <= ?5 AND ",
        first_visible!(),
        " <= ?5 ORDER BY ready_at, key LIMIT ?6"
    );
    let nodes = nodes::list(tx.db, tx.now)?;
    let Some(rule) = EndingRule::new(&nodes, from_column(tx.now), millis(request.end_after)) else {
        return Ok(Vec::new());
    };
    let max_items = request.max_items.max(1);
    let since = to_column(rule.waiting_since_ms());
    let mut doomed: Vec<Candidate> = Vec::new();
    for what in turn_needs(tx.db)?.iter().filter(|what| rule.is_out_of_reach(what)) {
        let Need::Turn(key) = what else { continue };
        let (pinned_key, name, version) = key_columns(key);
        let params = (pinned_key, name, version, tx.now, since, rows(max_items));
        let found = |row: &rusqlite::Row<'_>| Ok(Candidate { ready_at: row.get(0)?, key: row.get(1)? });
        doomed.extend(tx.db.all(SQL, params, found)?);
    }
    doomed.sort_unstable();
    doomed.truncate(max_items);
    let like = one_turn(request.lock_timeout, Duration::ZERO, None);
    let (mut turns, mut room) = (Vec::new(), ByteRoom::for_messages());
    for candidate in doomed {
        match fetch_turn::take(tx, candidate.key, &like, &mut room)? {
            Taken::Item(turn) => turns.push(turn),
            Taken::Nothing => {}
            Taken::NoRoom => break,
        }
    }
    Ok(turns)
}

/// Locks activities that no node can run, if they may be ended.
pub(super) fn fetch_work(tx: &mut Tx<'_>, request: SweepRequest) -> Result<Vec<FetchedWork>, Fault> {
    const SQL: &str = "SELECT ready_at, id FROM work_items \
         WHERE tag = ?1 AND name = ?2 AND ready_at <= ?3 AND visible_at <= ?4 ORDER BY ready_at, id LIMIT ?5";
    let nodes = nodes::list(tx.db, tx.now)?;
    let Some(rule) = EndingRule::new(&nodes, from_column(tx.now), millis(request.end_after)) else {
        return Ok(Vec::new());
    };
    let max_items = request.max_items.max(1);
    let since = to_column(rule.waiting_since_ms());
    let mut doomed: Vec<(Ms, i64)> = Vec::new();
    for what in work_needs(tx.db)?.iter().filter(|what| rule.is_out_of_reach(what)) {
        let Need::Activity { name, tag } = what else { continue };
        let params = (tag.as_deref().unwrap_or_default(), name, tx.now, since, rows(max_items));
        doomed.extend(tx.db.all(SQL, params, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    doomed.sort_unstable();
    doomed.truncate(max_items);
    let like = one_work(request.lock_timeout, Duration::ZERO, None, &TagFilter::Any);
    let (mut work, mut room) = (Vec::new(), ByteRoom::for_work());
    for (ready_at, id) in doomed {
        match fetch_work::take(tx, id, ready_at, &like, &mut room)? {
            Taken::Item(item) => work.push(item),
            Taken::Nothing => {}
            Taken::NoRoom => break,
        }
    }
    Ok(work)
}
