//! Finding ready instances for a node that routes by handler.
//!
//! Each version and handler that the node has is looked up in an index by route, so that others' work, however
//! much there is, costs nothing. What has been ready longest is then locked: a row is locked only if it is wanted.
//!
//! Suspects are in no index by route. They are what dead processes held, and few: all that are ready are looked at.

use duroxide_core::{HandlerSet, Route};

use crate::connections::pipeline::{Pipeline, values};
use crate::fetch::fetch_turn::Start;
use crate::values::{Ms, count, owned_text};

/// Gives what the plain look gives, and leaves the keys in the same place.
const PICK: &str = "WITH RECURSIVE c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
     keys (k) AS ( \
       SELECT CASE WHEN $11::bigint[] IS NULL \
         THEN (SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL) END \
       UNION ALL \
       SELECT (SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL AND q.pinned_key > keys.k) \
       FROM keys WHERE keys.k IS NOT NULL), \
     all_keys AS MATERIALIZED (SELECT keys.k FROM keys WHERE keys.k IS NOT NULL \
       UNION ALL SELECT u.k FROM unnest($11::bigint[]) AS u (k)), \
     matching AS MATERIALIZED (SELECT keys.k FROM all_keys keys WHERE EXISTS \
       (SELECT 1 FROM unnest($2::bigint[], $3::bigint[]) AS r (low, high) \
        WHERE keys.k = -1 OR keys.k BETWEEN r.low AND r.high)), \
     handlers AS MATERIALIZED (SELECT h.n COLLATE \"C\" AS n, h.v COLLATE \"C\" AS v \
       FROM unnest($6::text[], $7::text[]) AS h (n, v)), \
     found AS MATERIALIZED ( \
       SELECT x.key, x.ready_at FROM matching m CROSS JOIN handlers h CROSS JOIN LATERAL ( \
         SELECT q.key, q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.route_name = h.n \
           AND q.route_version = h.v AND q.suspect::int = 0 \
           AND q.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) \
           ORDER BY q.ready_at, q.key LIMIT $8::bigint) x \
       UNION \
       SELECT x.key, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
         SELECT q.key, q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.suspect::int = 0 \
           AND q.cancelled AND q.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) \
           ORDER BY q.ready_at, q.key LIMIT $8::bigint) x), \
     clean AS MATERIALIZED (SELECT q.key, q.ready_at \
       FROM (SELECT f.key, f.ready_at FROM found f ORDER BY f.ready_at, f.key LIMIT $8::bigint) f \
       JOIN {s}.queues q ON q.key = ANY (ARRAY[f.key]) \
       WHERE NOT q.suspect AND q.ready_at <= (SELECT now FROM c) \
         AND EXISTS (SELECT 1 FROM matching m WHERE m.k = q.pinned_key) \
         AND (q.cancelled OR EXISTS (SELECT 1 FROM handlers h WHERE h.n = q.route_name AND h.v = q.route_version)) \
       ORDER BY f.ready_at, f.key LIMIT $4::bigint FOR UPDATE OF q SKIP LOCKED), \
     suspects AS MATERIALIZED (SELECT x.key, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
       SELECT q.key, q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.suspect = TRUE \
         AND q.ready_at BETWEEN $10::bigint AND (SELECT now FROM c) \
         AND (q.cancelled OR EXISTS (SELECT 1 FROM handlers h WHERE h.n = q.route_name AND h.v = q.route_version)) \
         ORDER BY q.ready_at, q.key LIMIT $5::bigint FOR UPDATE SKIP LOCKED) x \
       ORDER BY x.ready_at, x.key LIMIT $5::bigint), \
     picked AS MATERIALIZED (SELECT a.key, a.ready_at FROM \
       (SELECT * FROM clean UNION ALL SELECT * FROM suspects) a ORDER BY a.ready_at, a.key LIMIT $4::bigint), \
     due AS MATERIALIZED (SELECT d.suspect, min(d.ready_at) AS at FROM ( \
       SELECT FALSE AS suspect, x.ready_at FROM matching m CROSS JOIN handlers h CROSS JOIN LATERAL ( \
         SELECT q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.route_name = h.n \
           AND q.route_version = h.v AND q.suspect::int = 0 \
           AND q.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) + $12::bigint \
           AND q.key <> ALL (ARRAY(SELECT p.key FROM picked p)) ORDER BY q.ready_at, q.key LIMIT 1) x \
       UNION ALL \
       SELECT FALSE, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
         SELECT q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.suspect::int = 0 AND q.cancelled \
           AND q.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) + $12::bigint \
           AND q.key <> ALL (ARRAY(SELECT p.key FROM picked p)) ORDER BY q.ready_at, q.key LIMIT 1) x \
       UNION ALL \
       SELECT TRUE, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
         SELECT q.ready_at FROM {s}.queues q WHERE $5::bigint > 0 AND q.pinned_key = m.k AND q.suspect = TRUE \
           AND q.ready_at BETWEEN $10::bigint AND (SELECT now FROM c) + $12::bigint \
           AND (q.cancelled OR EXISTS (SELECT 1 FROM handlers h \
             WHERE h.n = q.route_name AND h.v = q.route_version)) \
           AND q.key <> ALL (ARRAY(SELECT p.key FROM picked p)) ORDER BY q.ready_at, q.key LIMIT 1) x) d \
       GROUP BY d.suspect) \
     SELECT (SELECT now FROM c), (SELECT at FROM due WHERE NOT suspect), (SELECT at FROM due WHERE suspect), \
       set_config('duroxide.picked', \
         coalesce((SELECT array_agg(p.key ORDER BY p.ready_at, p.key) FROM picked p), '{}')::text, TRUE), \
       set_config('duroxide.now', (SELECT now FROM c)::text, TRUE), \
       (SELECT array_agg(keys.k) FROM all_keys keys)";

/// Rows found, besides those wanted: another transaction may hold some of them.
pub(crate) const SPARE: usize = 64;

/// What a look asks for besides its handlers.
pub(crate) struct Asked {
    pub(crate) manual: Option<Ms>,
    /// The packed versions that are replayed.
    pub(crate) ranges: (Vec<i64>, Vec<i64>),
    pub(crate) wanted: usize,
    /// How many suspects may be among them.
    pub(crate) suspects: i64,
    pub(crate) start: Start,
}

/// Adds the statement that picks and locks what is ready and has a handler.
pub(crate) fn pick(pipeline: &mut Pipeline, asked: Asked, handlers: &HandlerSet) -> usize {
    let (names, versions) = columns(handlers);
    let (low, high) = asked.ranges;
    let found = count(asked.wanted.saturating_add(SPARE));
    let wanted = count(asked.wanted);
    let Start { bounds, ahead, versions: known } = asked.start;
    pipeline.add(
        PICK,
        values![
            asked.manual,
            low,
            high,
            wanted,
            asked.suspects,
            names,
            versions,
            found,
            bounds.clean,
            bounds.suspect,
            known,
            ahead,
        ],
    )
}

/// The longest text of a version by which instances are routed: an index takes no row of more than 2,704 bytes.
const LONGEST_VERSION_BYTES: usize = 1024;

/// A route as it stands in its two columns. One with an endless version is not told from one that is not known: it
/// suits every node, and those without the handler give it back.
pub(crate) fn stored(route: &Route) -> (String, String) {
    let (name, version) = route.columns();
    if version.len() > LONGEST_VERSION_BYTES {
        return (String::new(), String::new());
    }
    (owned_text(name), owned_text(version))
}

/// Every route that the handlers serve, as it stands in its two columns. The text of a version tells it exactly: no
/// two texts stand for the same version.
fn columns(handlers: &HandlerSet) -> (Vec<String>, Vec<String>) {
    // What needs no handler.
    let mut routes = vec![(String::new(), String::new())];
    for (name, versions) in &handlers.orchestrations {
        let name = owned_text(name);
        if versions.unversioned.is_some() {
            routes.push((name.clone(), String::new()));
        }
        routes.extend(versions.versions.iter().map(|version| (name.clone(), version.to_string())));
    }
    routes.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use duroxide_core::HandlerVersions;
    use semver::Version;

    use super::*;

    #[test]
    fn the_routes_are_those_that_the_handlers_have() {
        let version = |text: &str| Version::parse(text).expect("a version");
        let versions = ["1.0.0", "1.0.0-beta.1", "1.0.0+1", "1.0.0+01"].map(version);
        let mine = HandlerVersions { versions: versions.into(), unversioned: None };
        let other =
            HandlerVersions { versions: [version("2.0.0")].into(), unversioned: Some(version("2.0.0")) };
        let orchestrations = [("Mine".to_string(), mine), ("Oth\0er".to_string(), other)].into();
        let handlers = HandlerSet { orchestrations };
        let (names, versions) = columns(&handlers);
        let served: Vec<Route> = names
            .into_iter()
            .zip(versions)
            .map(|(name, version)| Route::new(&crate::values::from_text(name), Some(&version)))
            .collect();
        assert!(served.iter().all(|route| handlers.has(route)));
        for text in ["1.0.0", "1.0.0-beta.1", "1.0.0+1", "1.0.0+01", "1.0.1", "v1.0.0", "1.0", "01.0.0", ""] {
            for name in ["Mine", "Oth\0er", "Nobody's", ""] {
                let route = Route::new(name, Some(text));
                assert_eq!(served.contains(&route), handlers.has(&route), "{route:?}");
            }
        }
    }
}
