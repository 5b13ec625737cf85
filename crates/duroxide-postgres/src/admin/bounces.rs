//! What of an instance was given back, and when it is tried again.

use duroxide_core::BounceCause;
use duroxide_provider::{ActivityBounce, Bounce, Bounces};
use tokio_postgres::Row;

use crate::admin::instances::unknown;
use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{Ms, from_column, from_text, owned_text};

/// The turn's row first, then the activities, all of it as it is at one moment. A build that does not know these columns
/// leaves a cause behind when it commits a turn, which is why one that is older than the last turn is none.
const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) \
     SELECT NOT q.ended, CASE WHEN q.bounced_at >= q.updated_at THEN q.bounce END, q.bounced_at, \
       CASE WHEN q.lock_nonce IS NULL OR q.ready_at <= c.now THEN q.ready_at END, \
       coalesce((SELECT max(n.attempts + (CASE WHEN q.lock_nonce IS NOT NULL \
           AND (n.visible_at, n.position) <= (q.lock_visible_at, q.lock_position) \
           AND n.position < q.lock_watermark THEN 1 ELSE 0 END)) \
         FROM {s}.inbox n WHERE n.instance_key = q.key), 0), NULL::bigint AS e, NULL::bigint AS a, NULL::text \
     FROM c CROSS JOIN {s}.instances i JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) WHERE i.instance_id = $2 \
     UNION ALL \
     SELECT NULL, w.bounce, w.bounced_at, CASE WHEN w.lock_nonce IS NULL OR w.ready_at <= c.now THEN w.ready_at END, \
       w.attempts, w.execution_id, w.activity_id, w.name \
     FROM c CROSS JOIN {s}.work_items w WHERE w.instance_id = $2 AND w.bounce IS NOT NULL \
     ORDER BY e NULLS FIRST, a";

pub(crate) async fn of_instance(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    instance: &str,
) -> Result<Bounces, Fault> {
    let rows = conn.query(SQL, &[&manual, &owned_text(instance)]).await?;
    let is_turn = |row: &&Row| row.get::<_, Option<bool>>(0).is_some();
    let turn = rows.iter().find(is_turn).ok_or_else(|| unknown(instance))?;
    if turn.get::<_, Option<bool>>(0) != Some(true) {
        return Ok(Bounces::default());
    }
    let activities = rows.iter().filter(|row| !is_turn(row)).filter_map(|row| {
        Some(ActivityBounce {
            execution_id: from_column(row.get::<_, Option<i64>>(5)?),
            activity_id: from_column(row.get::<_, Option<i64>>(6)?),
            name: from_text(row.get::<_, Option<String>>(7)?),
            bounce: bounce(row)?,
        })
    });
    Ok(Bounces { turn: bounce(turn), activities: activities.collect() })
}

/// From the columns cause, when, next attempt and attempts.
fn bounce(row: &Row) -> Option<Bounce> {
    Some(Bounce {
        cause: BounceCause::from_stored(&row.get::<_, Option<String>>(1)?)?,
        at_ms: from_column(row.get::<_, Option<Ms>>(2)?),
        attempts: u32::try_from(row.get::<_, i64>(4)).unwrap_or(u32::MAX),
        next_try_ms: row.get::<_, Option<Ms>>(3).map(from_column),
    })
}
