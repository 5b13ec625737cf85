//! Finding ready work items for a node that routes by handler: the same as for turns, by the activity's name.

use std::collections::BTreeSet;

use crate::connections::pipeline::{Pipeline, Value};
use crate::fetch::route_turn::SPARE;
use crate::values::{count, owned_text};

/// Gives what the plain look gives.
const TAKE: &str = "WITH RECURSIVE c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
     open AS MATERIALIZED (SELECT NOT ($7::boolean AND EXISTS (SELECT 1 FROM {s}.session_heads)) AS ok), \
     all_tags (t) AS ( \
       SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL \
       UNION ALL \
       SELECT (SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag > all_tags.t) \
       FROM all_tags WHERE all_tags.t IS NOT NULL), \
     accepted AS MATERIALIZED (SELECT u.t FROM unnest($2::text[]) AS u (t) UNION ALL \
       SELECT a.t FROM all_tags a WHERE $2::text[] IS NULL AND a.t IS NOT NULL), \
     names AS MATERIALIZED (SELECT u.n FROM unnest($11::text[]) AS u (n)), \
     found AS MATERIALIZED (SELECT x.id, x.ready_at FROM accepted a CROSS JOIN names n CROSS JOIN LATERAL ( \
       SELECT w.id, w.ready_at FROM {s}.work_items w WHERE num_nulls(w.session_id) = 1 \
         AND w.suspect::int = 0 AND w.tag = a.t AND w.name = n.n AND w.ready_at BETWEEN $8::bigint AND (SELECT now FROM c) AND (SELECT ok FROM open) \
         ORDER BY w.ready_at, w.id LIMIT $12::bigint) x), \
     clean AS MATERIALIZED (SELECT w.id, w.ready_at, NULL::bigint AS held, octet_length(w.item) AS bytes \
       FROM (SELECT f.id, f.ready_at FROM found f ORDER BY f.ready_at, f.id LIMIT $12::bigint) f \
       JOIN {s}.work_items w ON w.id = ANY (ARRAY[f.id]) WHERE NOT w.suspect AND w.ready_at <= (SELECT now FROM c) \
       ORDER BY f.ready_at, f.id LIMIT $3::bigint FOR UPDATE OF w SKIP LOCKED), \
     suspects AS MATERIALIZED (SELECT x.id, x.ready_at, x.held, x.bytes FROM accepted a CROSS JOIN LATERAL ( \
       SELECT w.id, w.ready_at, w.lock_nonce AS held, octet_length(w.item) AS bytes FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag = a.t \
         AND w.suspect = TRUE AND w.name = ANY($11::text[]) AND w.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) \
         AND (SELECT ok FROM open) ORDER BY w.ready_at, w.id LIMIT $4::bigint FOR UPDATE SKIP LOCKED) x \
       ORDER BY x.ready_at, x.id LIMIT $4::bigint), \
     picked AS MATERIALIZED (SELECT b.id, b.ready_at, b.held, b.n FROM ( \
         SELECT a.id, a.ready_at, a.held, a.bytes, row_number() OVER w AS n, sum(a.bytes) OVER w AS sum FROM \
           (SELECT * FROM clean UNION ALL SELECT * FROM suspects) a \
         WINDOW w AS (ORDER BY a.ready_at, a.id ROWS UNBOUNDED PRECEDING)) b \
       WHERE b.n <= $3::bigint AND (b.n = 1 OR b.sum <= $13::bigint)), \
     taken AS (UPDATE {s}.work_items w SET ready_at = (SELECT now FROM c) + $5::bigint, suspect = TRUE, \
         suspect_before = w.suspect, attempts = least(w.attempts, 4294967294) + 1, \
         lock_nonce = ($6::bigint[])[p.n] FROM picked p WHERE w.id = ANY (ARRAY[p.id]) \
       RETURNING p.n, w.id, w.lock_nonce, w.attempts, w.suspect_before, w.progress, w.item, w.instance_id, \
         p.ready_at, w.ready_at AS expires_at, w.tag, w.execution_id, w.activity_id, w.visible_at, w.bounce, \
         p.held, w.forgiven), \
     due AS MATERIALIZED (SELECT d.suspect, min(d.ready_at) AS at FROM ( \
       SELECT FALSE AS suspect, x.ready_at FROM accepted a CROSS JOIN names n CROSS JOIN LATERAL ( \
         SELECT w.ready_at FROM {s}.work_items w WHERE num_nulls(w.session_id) = 1 AND w.suspect::int = 0 \
           AND w.tag = a.t AND w.name = n.n \
           AND w.ready_at BETWEEN $8::bigint AND (SELECT now FROM c) + $10::bigint AND w.id <> ALL (ARRAY(SELECT p.id FROM picked p)) \
           ORDER BY w.ready_at, w.id LIMIT 1) x \
       UNION ALL \
       SELECT TRUE, x.ready_at FROM accepted a CROSS JOIN LATERAL ( \
         SELECT w.ready_at FROM {s}.work_items w WHERE $4::bigint > 0 AND w.session_id IS NULL AND w.tag = a.t \
           AND w.suspect = TRUE AND w.name = ANY($11::text[]) AND w.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) + $10::bigint \
           AND w.id <> ALL (ARRAY(SELECT p.id FROM picked p)) ORDER BY w.ready_at, w.id LIMIT 1) x) d GROUP BY d.suspect) \
     SELECT c.now, (SELECT at FROM due WHERE NOT suspect), (SELECT at FROM due WHERE suspect), open.ok, t.id, t.lock_nonce, t.attempts, t.suspect_before, t.progress, t.item, \
       i.name, i.version, t.ready_at, t.bounce, t.held, t.forgiven, t.id, t.lock_nonce, t.expires_at, t.tag, NULL::text, \
       t.instance_id, t.execution_id, t.activity_id, t.visible_at, t.suspect_before, t.attempts \
     FROM c CROSS JOIN open LEFT JOIN taken t ON TRUE \
     LEFT JOIN {s}.instances i ON i.instance_id = ANY (ARRAY[t.instance_id]) ORDER BY t.n";

/// Adds the statement that locks what is ready and has a handler. `plain` is what the plain look is given.
pub(crate) fn take(
    pipeline: &mut Pipeline,
    mut plain: Vec<Value>,
    wanted: usize,
    activities: &BTreeSet<String>,
    bytes: i64,
) -> usize {
    plain.push(Box::new(names(activities)));
    plain.push(Box::new(count(wanted.saturating_add(SPARE))));
    plain.push(Box::new(bytes));
    pipeline.add(TAKE, plain)
}

/// The names of activities as they stand in the column.
pub(crate) fn names(activities: &BTreeSet<String>) -> Vec<String> {
    activities.iter().map(|name| owned_text(name)).collect()
}
