//! Work that no node can do: finding it.
//!
//! What waits is looked at by its distinct keys, one step of an index each. Rows are counted only under those keys
//! that no node can serve.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_core::{
    Need, NodeRecord, Route, RoutingKey, UnprocessableWork, missing_capability, sort_findings,
};
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::upkeep::nodes;
use crate::values::{Ms, NOT_PINNED, from_column, from_text, owned_text, to_column};

/// The instances that stand under each of the routing keys `d (k, n, v, o)`: one with a cancel needs no handler,
/// whatever its route says.
macro_rules! under_keys {
    ($columns:literal) => {
        concat!(
            "SELECT d.o, ",
            $columns,
            " FROM d JOIN {s}.queues q ON q.pinned_key = d.k AND q.route_name = d.n AND q.route_version = d.v \
                AND q.suspect::int = 0 AND q.ready_at IS NOT NULL WHERE d.n = '' OR NOT q.cancelled \
              UNION ALL SELECT d.o, ",
            $columns,
            " FROM d JOIN {s}.queues q ON q.pinned_key = d.k AND q.suspect::int = 0 AND q.ready_at IS NOT NULL \
                AND q.cancelled AND q.route_name <> '' WHERE d.n = '' \
              UNION ALL SELECT d.o, ",
            $columns,
            " FROM d JOIN {s}.queues q ON q.pinned_key = d.k AND q.suspect = TRUE AND q.ready_at IS NOT NULL \
                WHERE CASE WHEN d.n = '' THEN q.cancelled OR q.route_name = '' \
                      ELSE q.route_name = d.n AND q.route_version = d.v AND NOT q.cancelled END"
        )
    };
}
pub(crate) use under_keys;

/// The work items with each of the tags and names `d (t, n, o)`.
macro_rules! under_names {
    ($columns:literal) => {
        concat!(
            "SELECT d.o, ",
            $columns,
            " FROM d JOIN {s}.work_items w ON num_nulls(w.session_id) = 1 AND w.suspect::int = 0 \
                AND w.tag = d.t AND w.name = d.n \
              UNION ALL SELECT d.o, ",
            $columns,
            " FROM d JOIN {s}.work_items w ON w.session_id IS NULL AND w.tag = d.t AND w.suspect = TRUE \
                AND w.name = d.n \
              UNION ALL SELECT d.o, ",
            $columns,
            " FROM d JOIN (SELECT DISTINCT session_id, tag FROM {s}.session_heads) h ON h.tag = d.t \
              JOIN {s}.work_items w ON num_nulls(w.session_id) = 0 AND w.session_id = h.session_id AND w.tag = d.t AND w.name = d.n"
        )
    };
}
pub(crate) use under_names;

/// The routing keys that are asked about.
macro_rules! keys_asked {
    () => {
        "WITH d AS MATERIALIZED (SELECT u.k, u.n COLLATE \"C\" AS n, u.v COLLATE \"C\" AS v, u.o \
           FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY AS u (k, n, v, o))"
    };
}
pub(crate) use keys_asked;

/// The tags and names that are asked about.
macro_rules! names_asked {
    () => {
        "WITH d AS MATERIALIZED (SELECT u.t COLLATE \"C\" AS t, u.n, u.o \
           FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (t, n, o))"
    };
}
pub(crate) use names_asked;

/// What waits and no live node can do, in a transaction that the caller began.
pub(crate) async fn find(conn: &Conn<'_>, manual: Option<Ms>) -> Result<Vec<UnprocessableWork>, Fault> {
    const TURNS: &str = concat!(
        keys_asked!(),
        " SELECT x.o, count(*), min(greatest(x.first, x.updated_at)) FROM (SELECT y.o, y.updated_at, \
            (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = y.key ORDER BY n.visible_at LIMIT 1) \
              AS first FROM (",
        under_keys!("q.key, q.updated_at, q.lock_nonce, q.ready_at"),
        ") y WHERE y.lock_nonce IS NULL OR y.ready_at <= $4::bigint) x WHERE x.first <= $4::bigint GROUP BY x.o"
    );
    const WORK: &str = concat!(
        names_asked!(),
        " SELECT x.o, count(*), min(coalesce(x.waiting_since, x.visible_at)) FROM (",
        under_names!("w.visible_at, w.waiting_since, w.lock_nonce, w.ready_at"),
        ") x WHERE x.lock_nonce IS NULL OR x.ready_at <= $3::bigint GROUP BY x.o"
    );
    // All of it at one moment.
    conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", &[]).await?;
    let now = crate::admin::instances::now_ms(conn, manual).await?;
    let nodes = nodes::list(conn, now).await?;
    let mut found = Vec::new();
    let at = to_column(now);
    let turns = Keys::among(turn_needs(conn).await?, |need| is_missing(&nodes, now, need));
    if !turns.needs.is_empty() {
        let rows = conn.query(TURNS, &[&turns.pinned, &turns.names, &turns.versions, &at]).await?;
        found.extend(rows.iter().filter_map(|row| finding(&nodes, now, &turns.needs, row)));
    }
    let work = Names::among(work_needs(conn).await?, |need| is_missing(&nodes, now, need));
    if !work.needs.is_empty() {
        let rows = conn.query(WORK, &[&work.tags, &work.names, &at]).await?;
        found.extend(rows.iter().filter_map(|row| finding(&nodes, now, &work.needs, row)));
    }
    sort_findings(&mut found);
    Ok(found)
}

fn is_missing(nodes: &[NodeRecord], now: u64, need: &Need) -> bool {
    missing_capability(nodes, now, need).is_some()
}

/// What a row of the columns place, count, oldest tells about the needs that were asked about.
fn finding(nodes: &[NodeRecord], now: u64, needs: &[Need], row: &Row) -> Option<UnprocessableWork> {
    let what = place(needs, row.get(0))?.clone();
    let missing = missing_capability(nodes, now, &what)?;
    let since: Ms = row.get(2);
    let oldest_age = Duration::from_millis(now.saturating_sub(from_column(since)));
    Some(UnprocessableWork { what, count: from_column(row.get(1)), oldest_age, missing })
}

/// The need at a place, which SQL counts from 1.
pub(crate) fn place(needs: &[Need], ordinality: i64) -> Option<&Need> {
    usize::try_from(ordinality).ok().and_then(|place| needs.get(place.checked_sub(1)?))
}

/// Routing keys, each in its columns.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) needs: Vec<Need>,
    pub(crate) pinned: Vec<i64>,
    pub(crate) names: Vec<String>,
    pub(crate) versions: Vec<String>,
}

impl Keys {
    /// Those that are wanted.
    pub(crate) fn among(needs: BTreeSet<Need>, mut wanted: impl FnMut(&Need) -> bool) -> Self {
        let mut keys = Self::default();
        for need in needs {
            let Need::Turn(key) = &need else { continue };
            if wanted(&need) {
                let (name, version) = key.route.columns();
                keys.pinned.push(key.pinned.unwrap_or(NOT_PINNED));
                keys.names.push(owned_text(name));
                keys.versions.push(owned_text(version));
                keys.needs.push(need);
            }
        }
        keys
    }
}

/// Activities by tag and name, each in its columns.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) needs: Vec<Need>,
    pub(crate) tags: Vec<String>,
    pub(crate) names: Vec<String>,
}

impl Names {
    /// Those that are wanted.
    pub(crate) fn among(needs: BTreeSet<Need>, mut wanted: impl FnMut(&Need) -> bool) -> Self {
        let mut names = Self::default();
        for need in needs {
            let Need::Activity { name, tag } = &need else { continue };
            if wanted(&need) {
                names.tags.push(owned_text(tag.as_deref().unwrap_or_default()));
                names.names.push(owned_text(name));
                names.needs.push(need);
            }
        }
        names
    }
}

/// The distinct routing keys of instances with messages. That of every node is always among them.
pub(crate) async fn turn_needs(conn: &Conn<'_>) -> Result<BTreeSet<Need>, Fault> {
    const SQL: &str = "WITH RECURSIVE keys (k) AS ( \
           SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL \
           UNION ALL \
           SELECT (SELECT min(q.pinned_key) FROM {s}.queues q \
                   WHERE q.ready_at IS NOT NULL AND q.pinned_key > keys.k) \
           FROM keys WHERE keys.k IS NOT NULL), \
         routes (k, n, v) AS ( \
           SELECT keys.k, ''::text COLLATE \"C\", ''::text COLLATE \"C\" FROM keys WHERE keys.k IS NOT NULL \
           UNION ALL \
           SELECT r.k, x.route_name, x.route_version FROM routes r CROSS JOIN LATERAL ( \
             SELECT q.route_name, q.route_version FROM {s}.queues q WHERE q.pinned_key = r.k AND q.suspect::int = 0 \
               AND q.ready_at IS NOT NULL AND (q.route_name, q.route_version) > (r.n, r.v) \
               ORDER BY q.route_name, q.route_version LIMIT 1) x) \
         SELECT r.k, r.n, r.v FROM routes r UNION \
         SELECT q.pinned_key, q.route_name, q.route_version FROM keys JOIN {s}.queues q \
           ON q.pinned_key = keys.k AND q.suspect = TRUE AND q.ready_at IS NOT NULL";
    let rows = conn.query(SQL, &[]).await?;
    let need = |row: &Row| {
        let pinned: i64 = row.get(0);
        let (name, version) = (from_text(row.get(1)), from_text(row.get(2)));
        let route = Route::new(&name, Some(&version));
        Need::Turn(RoutingKey { pinned: (pinned != NOT_PINNED).then_some(pinned), route })
    };
    Ok(rows.iter().map(need).collect())
}

/// The distinct names and tags of work items.
pub(crate) async fn work_needs(conn: &Conn<'_>) -> Result<BTreeSet<Need>, Fault> {
    const SQL: &str = "WITH RECURSIVE tags (t) AS ( \
           SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL \
           UNION ALL \
           SELECT (SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag > tags.t) \
           FROM tags WHERE tags.t IS NOT NULL), \
         clean (t, n) AS ( \
           SELECT tags.t, (SELECT min(w.name) FROM {s}.work_items w WHERE num_nulls(w.session_id) = 1 \
             AND w.suspect::int = 0 AND w.tag = tags.t) FROM tags WHERE tags.t IS NOT NULL \
           UNION ALL \
           SELECT c.t, (SELECT min(w.name) FROM {s}.work_items w WHERE num_nulls(w.session_id) = 1 \
             AND w.suspect::int = 0 AND w.tag = c.t AND w.name > c.n) FROM clean c WHERE c.n IS NOT NULL), \
         of_sessions (s, t, n) AS ( \
           SELECT h.session_id, h.tag, (SELECT min(w.name) FROM {s}.work_items w \
             WHERE num_nulls(w.session_id) = 0 AND w.session_id = h.session_id AND w.tag = h.tag) \
           FROM (SELECT DISTINCT session_id, tag FROM {s}.session_heads) h \
           UNION ALL \
           SELECT o.s, o.t, (SELECT min(w.name) FROM {s}.work_items w \
             WHERE num_nulls(w.session_id) = 0 AND w.session_id = o.s AND w.tag = o.t AND w.name > o.n) FROM of_sessions o WHERE o.n IS NOT NULL) \
         SELECT c.t, c.n FROM clean c WHERE c.n IS NOT NULL \
         UNION SELECT o.t, o.n FROM of_sessions o WHERE o.n IS NOT NULL \
         UNION SELECT w.tag, w.name FROM tags JOIN {s}.work_items w \
           ON w.session_id IS NULL AND w.tag = tags.t AND w.suspect = TRUE";
    let rows = conn.query(SQL, &[]).await?;
    let need = |row: &Row| {
        let tag = from_text(row.get(0));
        Need::Activity { name: from_text(row.get(1)), tag: (!tag.is_empty()).then_some(tag) }
    };
    Ok(rows.iter().map(need).collect())
}
