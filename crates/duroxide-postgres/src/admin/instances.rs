//! The reading half of the management calls.

use duroxide_provider::support::Status;
use duroxide_provider::{ExecutionInfo, InstanceInfo, InstanceTree, OldestReady, QueueDepths, SystemMetrics};
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::rows::execution_row::stored_status;
use crate::values::{from_column, from_text, owned_text, to_column};

pub(crate) fn unknown(instance: &str) -> Fault {
    Fault::not_found(format!("instance '{instance}'"))
}

fn ids(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| from_text(row.get(0))).collect()
}

/// All instances, latest first.
pub(crate) async fn list_instances(conn: &Conn<'_>) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT instance_id FROM {s}.instances ORDER BY created_at DESC, key DESC";
    Ok(ids(&conn.query(SQL, &[]).await?))
}

/// All instances with a status, latest first.
pub(crate) async fn list_by_status(conn: &Conn<'_>, status: &str) -> Result<Vec<String>, Fault> {
    const SQL: &str =
        "SELECT instance_id FROM {s}.instances WHERE status = $1 ORDER BY created_at DESC, key DESC";
    let Some(status) = Status::from_word(status) else { return Ok(Vec::new()) };
    Ok(ids(&conn.query(SQL, &[&status.code()]).await?))
}

/// The executions of an instance, first to last.
pub(crate) async fn list_executions(conn: &Conn<'_>, instance: &str) -> Result<Vec<u64>, Fault> {
    const SQL: &str = "SELECT e.execution_id FROM {s}.instances i \
         LEFT JOIN LATERAL (SELECT e.execution_id FROM {s}.executions e WHERE e.instance_key = i.key OFFSET 0) e ON TRUE \
         WHERE i.instance_id = $1 ORDER BY e.execution_id";
    let rows = conn.query(SQL, &[&owned_text(instance)]).await?;
    if rows.is_empty() {
        return Err(unknown(instance));
    }
    Ok(rows.iter().filter_map(|row| row.get::<_, Option<i64>>(0)).map(from_column).collect())
}

/// The latest execution.
pub(crate) async fn latest_execution_id(conn: &Conn<'_>, instance: &str) -> Result<u64, Fault> {
    const SQL: &str = "SELECT q.current_execution_id FROM {s}.instances i JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) \
         WHERE i.instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?;
    row.map(|row| from_column(row.get(0))).ok_or_else(|| unknown(instance))
}

/// One instance.
pub(crate) async fn instance_info(conn: &Conn<'_>, instance: &str) -> Result<InstanceInfo, Fault> {
    const SQL: &str = "SELECT i.instance_id, i.name, i.version, q.current_execution_id, i.status, e.output, \
         i.created_at, q.updated_at, i.parent_instance FROM {s}.instances i JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) \
         LEFT JOIN LATERAL (SELECT e.output FROM {s}.executions e \
           WHERE e.instance_key = q.key AND e.execution_id = q.current_execution_id OFFSET 0) e ON TRUE \
         WHERE i.instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?.ok_or_else(|| unknown(instance))?;
    info_from_row(&row)
}

/// An instance from the columns id, name, version, execution, status, output, created, updated, parent.
pub(crate) fn info_from_row(row: &Row) -> Result<InstanceInfo, Fault> {
    Ok(InstanceInfo {
        instance_id: from_text(row.get(0)),
        orchestration_name: from_text(row.get(1)),
        orchestration_version: from_text(row.get(2)),
        current_execution_id: from_column(row.get(3)),
        status: stored_status(row.get(4))?.word().to_string(),
        output: row.get::<_, Option<String>>(5).map(from_text),
        created_at: from_column(row.get(6)),
        updated_at: from_column(row.get(7)),
        parent_instance_id: row.get::<_, Option<String>>(8).map(from_text),
    })
}

/// One execution.
pub(crate) async fn execution_info(
    conn: &Conn<'_>,
    instance: &str,
    execution_id: u64,
) -> Result<ExecutionInfo, Fault> {
    const SQL: &str = "SELECT e.execution_id, e.status, e.output, e.started_at, e.completed_at, e.event_count \
         FROM {s}.executions e JOIN {s}.instances i ON i.key = e.instance_key \
         WHERE i.instance_id = $1 AND e.execution_id = $2";
    let row = conn.first(SQL, &[&owned_text(instance), &to_column(execution_id)]).await?;
    let row =
        row.ok_or_else(|| Fault::not_found(format!("execution {execution_id} of instance '{instance}'")))?;
    Ok(ExecutionInfo {
        execution_id: from_column(row.get(0)),
        status: stored_status(row.get(1))?.word().to_string(),
        output: row.get::<_, Option<String>>(2).map(from_text),
        started_at: from_column(row.get(3)),
        completed_at: row.get::<_, Option<i64>>(4).map(from_column),
        event_count: usize::try_from(row.get::<_, i64>(5)).unwrap_or(0),
    })
}

/// Counts over the whole store.
pub(crate) async fn system_metrics(conn: &Conn<'_>) -> Result<SystemMetrics, Fault> {
    const SQL: &str = "SELECT count(*), count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), \
         count(*) FILTER (WHERE status = 3), (SELECT count(*) FROM {s}.executions), \
         (SELECT least(greatest(coalesce(sum(event_count), 0), 0), 9223372036854775807)::bigint FROM {s}.executions) FROM {s}.instances";
    let row = conn.first(SQL, &[]).await?;
    Ok(row.map_or_else(SystemMetrics::default, |row| SystemMetrics {
        total_instances: from_column(row.get(0)),
        running_instances: from_column(row.get(1)),
        completed_instances: from_column(row.get(2)),
        failed_instances: from_column(row.get(3)),
        total_executions: from_column(row.get(4)),
        total_events: from_column(row.get(5)),
    }))
}

/// How much waits in the queues.
pub(crate) async fn queue_depths(conn: &Conn<'_>) -> Result<QueueDepths, Fault> {
    // The counters of the instances that have messages, instead of all messages.
    const SQL: &str = "SELECT (SELECT least(greatest(coalesce(sum(inbox_count), 0), 0), 9223372036854775807)::bigint FROM {s}.queues \
         WHERE ready_at IS NOT NULL), (SELECT count(*) FROM {s}.inbox WHERE kind = 5), \
         (SELECT count(*) FROM {s}.work_items)";
    let row = conn.first(SQL, &[]).await?;
    Ok(row.map_or_else(QueueDepths::default, |row| {
        let size = |value: i64| usize::try_from(value).unwrap_or(0);
        let (messages, timers): (i64, i64) = (row.get(0), row.get(1));
        QueueDepths {
            orchestrator_queue: size(messages - timers),
            worker_queue: size(row.get(2)),
            timer_queue: size(timers),
        }
    }))
}

/// Since when the oldest things that are ready wait.
pub(crate) async fn oldest_ready(conn: &Conn<'_>) -> Result<OldestReady, Fault> {
    const SQL: &str = "SELECT (SELECT min(ready_at) FROM {s}.queues WHERE ready_at IS NOT NULL), \
         (SELECT min(ready_at) FROM {s}.work_items)";
    let row = conn.first(SQL, &[]).await?;
    Ok(row.map_or_else(OldestReady::default, |row| OldestReady {
        turn_ms: row.get::<_, Option<i64>>(0).map(from_column),
        work_ms: row.get::<_, Option<i64>>(1).map(from_column),
    }))
}

/// The direct children of an instance that exists, oldest first.
pub(crate) async fn list_children(conn: &Conn<'_>, instance: &str) -> Result<Vec<String>, Fault> {
    parent_id(conn, instance).await?;
    let found = children_of(conn, &[instance.to_string()]).await?;
    Ok(found.into_iter().map(|(_, child)| child).collect())
}

/// The direct children of instances, oldest first, each with its parent.
pub(crate) async fn children_of(conn: &Conn<'_>, parents: &[String]) -> Result<Vec<(String, String)>, Fault> {
    const SQL: &str = "SELECT parent_instance, instance_id FROM {s}.instances \
         WHERE parent_instance = ANY($1::text[]) ORDER BY created_at, key";
    let parents: Vec<String> = parents.iter().map(|id| owned_text(id)).collect();
    let rows = conn.query(SQL, &[&parents]).await?;
    Ok(rows.iter().map(|row| (from_text(row.get(0)), from_text(row.get(1)))).collect())
}

/// The instance that waits for this one's result.
pub(crate) async fn parent_id(conn: &Conn<'_>, instance: &str) -> Result<Option<String>, Fault> {
    const SQL: &str = "SELECT parent_instance FROM {s}.instances WHERE instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?.ok_or_else(|| unknown(instance))?;
    Ok(row.get::<_, Option<String>>(0).map(from_text))
}

/// An instance and all that descend from it, parents before their children.
pub(crate) async fn instance_tree(conn: &Conn<'_>, instance: &str) -> Result<InstanceTree, Fault> {
    parent_id(conn, instance).await?;
    let all_ids = trees(conn, vec![instance.to_string()]).await?;
    Ok(InstanceTree { root_id: instance.to_string(), all_ids })
}

/// Instances and all that descend from them, parents before their children: one read for each generation.
pub(crate) async fn trees(conn: &Conn<'_>, roots: Vec<String>) -> Result<Vec<String>, Fault> {
    // Links that lead back to an ancestor would never end.
    let mut seen: std::collections::BTreeSet<String> = roots.iter().cloned().collect();
    let mut all_ids = roots.clone();
    let mut generation = roots;
    while !generation.is_empty() {
        let mut found = children_of(conn, &generation).await?;
        // Families in the order of their parents.
        found.sort_by_key(|(parent, _)| generation.iter().position(|id| id == parent));
        generation =
            found.into_iter().map(|(_, child)| child).filter(|child| seen.insert(child.clone())).collect();
        all_ids.extend(generation.iter().cloned());
    }
    Ok(all_ids)
}

/// The store's time.
pub(crate) async fn now_ms(conn: &Conn<'_>, manual: Option<i64>) -> Result<u64, Fault> {
    const SQL: &str = "SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
    Ok(conn.first(SQL, &[&manual]).await?.map_or(0, |row| from_column(row.get(0))))
}

/// The highest attempt count in an instance's inbox, the attempt under way included.
pub(crate) async fn max_attempts(conn: &Conn<'_>, instance: &str) -> Result<u32, Fault> {
    const SQL: &str = "SELECT coalesce(max(least(n.attempts, 4294967294) + (CASE WHEN q.lock_nonce IS NOT NULL \
           AND (n.visible_at, n.position) <= (q.lock_visible_at, q.lock_position) \
           AND n.position < q.lock_watermark THEN 1 ELSE 0 END)), 0) \
         FROM {s}.instances i JOIN {s}.queues q ON q.key = i.key JOIN {s}.inbox n ON n.instance_key = i.key \
         WHERE i.instance_id = $1";
    let row = conn.first(SQL, &[&owned_text(instance)]).await?;
    Ok(row.map_or(0, |row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX)))
}
