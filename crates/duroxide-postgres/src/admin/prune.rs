//! Deleting old executions, never the current one.

use duroxide_provider::{InstanceFilter, PruneOptions, PruneResult};

use crate::admin::delete::bulk_limit;
use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{count, from_column, from_text, owned_text, to_column};

/// Deletes old executions of an instance.
pub(crate) async fn prune(
    conn: &Conn<'_>,
    instance: &str,
    options: &PruneOptions,
) -> Result<PruneResult, Fault> {
    const SQL: &str = "SELECT key FROM {s}.instances WHERE instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?;
    let row = row.ok_or_else(|| Fault::not_found(format!("instance '{instance}'")))?;
    prune_keys(conn, &[row.get(0)], options).await
}

/// Deletes old executions of many instances.
pub(crate) async fn prune_bulk(
    conn: &Conn<'_>,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, Fault> {
    const SQL: &str = "SELECT i.key FROM {s}.instances i WHERE ($1::bigint IS NULL OR i.ended_at < $1) \
         AND ($2::text[] IS NULL OR i.instance_id = ANY($2::text[])) ORDER BY i.key LIMIT $3::bigint";
    let before = filter.completed_before.map(to_column);
    let listed: Option<Vec<String>> =
        filter.instance_ids.as_ref().map(|ids| ids.iter().map(|id| owned_text(id)).collect());
    let rows = conn.query(SQL, &[&before, &listed, &count(bulk_limit(filter))]).await?;
    let keys: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    prune_keys(conn, &keys, options).await
}

/// The instances that continued as new at least this often without being pruned since, oldest first.
pub(crate) async fn to_prune(conn: &Conn<'_>, keep_last: u32, limit: u32) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT i.instance_id FROM (SELECT e.instance_key FROM {s}.executions e WHERE e.status = 4 \
         GROUP BY e.instance_key HAVING count(*) >= $1::bigint ORDER BY e.instance_key LIMIT $2::bigint) x \
         JOIN {s}.instances i ON i.key = x.instance_key ORDER BY i.key";
    let rows = conn.query(SQL, &[&i64::from(keep_last.max(1)), &i64::from(limit)]).await?;
    Ok(rows.iter().map(|row| from_text(row.get(0))).collect())
}

async fn prune_keys(conn: &Conn<'_>, keys: &[i64], options: &PruneOptions) -> Result<PruneResult, Fault> {
    const SQL: &str = "WITH old AS MATERIALIZED (SELECT x.instance_key, x.execution_id FROM ( \
           SELECT e.instance_key, e.execution_id, e.completed_at, q.current_execution_id, \
             row_number() OVER (PARTITION BY e.instance_key ORDER BY e.execution_id DESC) AS n \
           FROM {s}.executions e JOIN {s}.queues q ON q.key = e.instance_key \
           WHERE e.instance_key = ANY($1::bigint[])) x \
         WHERE x.execution_id <> x.current_execution_id AND x.n > $2::bigint \
           AND ($3::bigint IS NULL OR x.completed_at < $3)), \
         h AS (DELETE FROM {s}.history h USING old \
           WHERE h.instance_key = old.instance_key AND h.execution_id = old.execution_id RETURNING 1), \
         e AS (DELETE FROM {s}.executions e USING old \
           WHERE e.instance_key = old.instance_key AND e.execution_id = old.execution_id RETURNING 1) \
         SELECT (SELECT count(*) FROM h), (SELECT count(*) FROM e)";
    let keep = i64::from(options.keep_last.unwrap_or(1).max(1));
    let before = options.completed_before.map(to_column);
    let row = conn.first(SQL, &[&keys, &keep, &before]).await?;
    let (events, executions): (i64, i64) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
    Ok(PruneResult {
        instances_processed: u64::try_from(keys.len()).unwrap_or(u64::MAX),
        executions_deleted: from_column(executions),
        events_deleted: from_column(events),
    })
}
