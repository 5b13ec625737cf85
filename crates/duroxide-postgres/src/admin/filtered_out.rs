//! How much is ready that a filter leaves out, by pinned version.

use duroxide_core::{DispatcherCapabilityFilter, pack_version, unpack_version};
use duroxide_provider::FilteredOut;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{Ms, NOT_PINNED};

/// The ready instances that the filter leaves out. Looks at the few distinct versions, and counts in those alone
/// that it leaves out.
pub(crate) async fn filtered_out(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    filter: &DispatcherCapabilityFilter,
) -> Result<Vec<FilteredOut>, Fault> {
    const SQL: &str = "WITH RECURSIVE c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
         keys (k) AS ( \
           SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL \
           UNION ALL \
           SELECT (SELECT min(q.pinned_key) FROM {s}.queues q \
                   WHERE q.ready_at IS NOT NULL AND q.pinned_key > keys.k) \
           FROM keys WHERE keys.k IS NOT NULL), \
         left_out AS MATERIALIZED (SELECT keys.k FROM keys WHERE keys.k IS NOT NULL AND NOT EXISTS \
           (SELECT 1 FROM unnest($2::bigint[], $3::bigint[]) AS r (low, high) \
            WHERE keys.k = -1 OR keys.k BETWEEN r.low AND r.high)) \
         SELECT l.k, x.ready FROM left_out l CROSS JOIN LATERAL (SELECT count(*) AS ready FROM {s}.queues q \
           WHERE q.pinned_key = l.k AND q.ready_at <= (SELECT now FROM c)) x WHERE x.ready > 0 ORDER BY l.k";
    let ranges = &filter.supported_duroxide_versions;
    let low: Vec<i64> = ranges.iter().map(|range| pack_version(&range.min)).collect();
    let high: Vec<i64> = ranges.iter().map(|range| pack_version(&range.max)).collect();
    let rows = conn.query(SQL, &[&manual, &low, &high]).await?;
    let counted = rows.iter().map(|row| {
        let key: i64 = row.get(0);
        FilteredOut {
            pinned_version: (key != NOT_PINNED).then(|| unpack_version(key)),
            instances: usize::try_from(row.get::<_, i64>(1)).unwrap_or(0),
        }
    });
    Ok(counted.collect())
}
