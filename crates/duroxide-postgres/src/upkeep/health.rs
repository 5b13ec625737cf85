//! What the queues hold for an instance, and what is overdue.

use std::collections::BTreeSet;

use duroxide_core::ItemKind;
use duroxide_core::health::{QueuedFor, QueuedMessage};
use duroxide_provider::{HealthFacts, Overdue};

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{Ms, from_column, owned_text};

/// What the queues hold for an instance, read at one moment; `None` if it is unknown or has ended.
pub(crate) async fn queued_for(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    instance: &str,
) -> Result<Option<QueuedFor>, Fault> {
    const SQL: &str = "SELECT q.current_execution_id, coalesce(e.last_event_id, 0), \
         q.lock_nonce IS NOT NULL AND q.ready_at > coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint), \
         w.executions, w.activities, n.kinds, n.executions, n.events \
         FROM {s}.instances i JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) \
         LEFT JOIN {s}.executions e ON e.instance_key = ANY (ARRAY[q.key]) AND e.execution_id = q.current_execution_id \
         CROSS JOIN LATERAL (SELECT array_agg(w.execution_id) AS executions, array_agg(w.activity_id) AS activities \
           FROM {s}.work_items w WHERE w.instance_id = i.instance_id) w \
         CROSS JOIN LATERAL (SELECT array_agg(n.kind) AS kinds, array_agg(n.execution_id) AS executions, \
           array_agg(n.event_id) AS events FROM {s}.inbox n WHERE n.instance_key = q.key) n \
         WHERE i.instance_id = $2 AND NOT q.ended";
    let Some(row) = conn.first(SQL, &[&manual, &owned_text(instance)]).await? else { return Ok(None) };
    let list = |column: usize| row.get::<_, Option<Vec<i64>>>(column).unwrap_or_default();
    let optional = |column: usize| row.get::<_, Option<Vec<Option<i64>>>>(column).unwrap_or_default();
    let work: BTreeSet<(u64, u64)> = list(3)
        .into_iter()
        .zip(list(4))
        .map(|(execution, activity)| (from_column(execution), from_column(activity)))
        .collect();
    let messages = list(5).into_iter().zip(optional(6)).zip(optional(7));
    let messages = messages.filter_map(|((code, execution_id), event_id)| {
        Some(QueuedMessage {
            kind: ItemKind::from_code(code)?,
            execution_id: execution_id.map(from_column),
            event_id: event_id.map(from_column),
        })
    });
    Ok(Some(QueuedFor {
        execution_id: from_column(row.get(0)),
        last_event_id: from_column(row.get(1)),
        is_locked: row.get::<_, Option<bool>>(2).unwrap_or(false),
        work,
        messages: messages.collect(),
    }))
}

/// What has been ready for at least this long, counted at one moment; and what is not ready for at least as long
/// although it waits for no timer, no backoff and no delay of its own.
pub(crate) async fn health_facts(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    overdue: Ms,
) -> Result<HealthFacts, Fault> {
    const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
         b AS MATERIALIZED (SELECT c.now - $2::bigint AS before, c.now + $2::bigint AS ahead FROM c) \
         SELECT t.free, t.first_free, t.held, t.first_held, m.n, m.first, w.free, w.first_free, w.held, \
           w.first_held, o.n, o.first, e.n, e.first, a.n, a.first FROM b AS c \
         CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE q.lock_nonce IS NULL) AS free, \
             min(q.ready_at) FILTER (WHERE q.lock_nonce IS NULL) AS first_free, \
             count(*) FILTER (WHERE q.lock_nonce IS NOT NULL) AS held, \
             min(q.ready_at) FILTER (WHERE q.lock_nonce IS NOT NULL) AS first_held \
           FROM {s}.queues q WHERE q.ready_at IS NOT NULL AND q.ready_at <= c.before AND NOT q.ended) t \
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(n.visible_at) AS first FROM {s}.inbox n \
           WHERE n.kind = 5 AND n.visible_at <= c.before) m \
         CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE w.lock_nonce IS NULL) AS free, \
             min(w.ready_at) FILTER (WHERE w.lock_nonce IS NULL) AS first_free, \
             count(*) FILTER (WHERE w.lock_nonce IS NOT NULL) AS held, \
             min(w.ready_at) FILTER (WHERE w.lock_nonce IS NOT NULL) AS first_held \
           FROM {s}.work_items w WHERE w.ready_at <= c.before) w \
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(w.ready_at) AS first FROM {s}.work_items w \
           WHERE NOT EXISTS (SELECT 1 FROM {s}.instances i WHERE i.instance_id = w.instance_id \
             AND i.status = 1)) o \
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(m.kept_at) AS first FROM {s}.early_messages m \
           WHERE m.kept_at <= c.before) e \
         CROSS JOIN LATERAL (SELECT count(*) AS n, min(x.ready_at) AS first FROM ( \
           SELECT q.ready_at FROM {s}.queues q WHERE q.ready_at > c.ahead AND q.lock_nonce IS NULL AND NOT q.ended \
             AND EXISTS (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind <> 5 \
               AND n.visible_at <= q.ready_at AND n.visible_at > q.not_before) \
           UNION ALL SELECT w.ready_at FROM {s}.work_items w \
             WHERE w.ready_at > c.ahead AND w.lock_nonce IS NULL AND w.waiting_since IS NULL) x) a";
    let Some(row) = conn.first(SQL, &[&manual, &overdue]).await? else { return Ok(HealthFacts::default()) };
    let overdue = |column: usize| Overdue {
        count: from_column(row.get(column)),
        oldest_ms: row.get::<_, Option<Ms>>(column + 1).map(from_column),
    };
    Ok(HealthFacts {
        ahead_of_clock: overdue(14),
        overdue_turns: overdue(0),
        expired_turn_locks: overdue(2),
        overdue_timers: overdue(4),
        overdue_work: overdue(6),
        expired_work_locks: overdue(8),
        orphan_work: overdue(10),
        early_messages: overdue(12),
    })
}
