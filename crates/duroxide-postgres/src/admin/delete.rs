//! Deleting instances with all that belongs to them.

use std::collections::BTreeSet;

use duroxide_core::limits::DEFAULT_BULK_INSTANCES;
use duroxide_provider::{DeleteInstanceResult, InstanceFilter};

use crate::admin::instances::{children_of, instance_tree, parent_id, trees};
use crate::connections::connection::Conn;
use crate::connections::pipeline::Pipeline;
use crate::fault::Fault;
use crate::rows::flush::refresh_heads;
use crate::rows::working_set::{RESERVE, reservations};
use crate::values::{NEVER, count, from_text, owned_text, to_column};

/// Deletes these instances, all or none.
pub(crate) async fn delete_atomic(
    conn: &Conn<'_>,
    instances: &[String],
    force: bool,
) -> Result<DeleteInstanceResult, Fault> {
    let unique: Vec<String> = instances.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let doomed = lock(conn, &unique, force).await?;
    let names: BTreeSet<&String> = doomed.iter().map(|(id, _)| id).collect();
    let parents: Vec<String> = names.iter().map(|id| (*id).clone()).collect();
    let children = children_of(conn, &parents).await?;
    if let Some((parent, child)) = children.iter().find(|(_, child)| !names.contains(child)) {
        let text = format!("child '{child}' of '{parent}' would be left without a parent");
        return Err(Fault::invalid(text));
    }
    delete_all(conn, &doomed).await
}

/// Deletes a root with its tree.
pub(crate) async fn delete_tree(
    conn: &Conn<'_>,
    instance: &str,
    force: bool,
) -> Result<DeleteInstanceResult, Fault> {
    if let Some(parent) = parent_id(conn, instance).await? {
        let text = format!("'{instance}' is a sub-orchestration of '{parent}': delete its root instead");
        return Err(Fault::invalid(text));
    }
    let tree = instance_tree(conn, instance).await?.all_ids;
    let doomed = lock(conn, &tree, force).await?;
    delete_all(conn, &doomed).await
}

/// Locks instances and refuses those that run, unless forced. Unknown ones are passed over.
async fn lock(conn: &Conn<'_>, instances: &[String], force: bool) -> Result<Vec<(String, i64)>, Fault> {
    const SQL: &str = "SELECT i.instance_id, q.key, q.ended FROM {s}.instances i JOIN {s}.queues q ON q.key = i.key \
         WHERE i.instance_id = ANY($1::text[]) ORDER BY q.key FOR UPDATE OF q";
    let ids: Vec<String> = instances.iter().map(|id| owned_text(id)).collect();
    let rows = conn.query(SQL, &[&ids]).await?;
    let mut found: Vec<(String, i64, bool)> =
        rows.iter().map(|row| (from_text(row.get(0)), row.get(1), row.get(2))).collect();
    // Refused in the order in which they were named.
    found.sort_by_key(|(id, _, _)| instances.iter().position(|other| other == id));
    if let Some((id, _, _)) = found.iter().find(|(_, _, ended)| !force && !ended) {
        return Err(Fault::invalid(format!("instance '{id}' is still running: cancel it or use force")));
    }
    Ok(found.into_iter().map(|(id, key, _)| (id, key)).collect())
}

/// Deletes finished roots with their trees, those that ended first to begin with. A root with a child that runs
/// is left alone.
pub(crate) async fn delete_bulk(
    conn: &Conn<'_>,
    filter: &InstanceFilter,
) -> Result<DeleteInstanceResult, Fault> {
    const SQL: &str = "SELECT i.instance_id FROM {s}.instances i WHERE i.ended_at IS NOT NULL AND i.parent_instance IS NULL \
         AND i.ended_at < $1::bigint AND ($2::text[] IS NULL OR i.instance_id = ANY($2::text[])) \
         AND NOT EXISTS (WITH RECURSIVE tree (id) AS (SELECT i.instance_id UNION \
           SELECT c.instance_id FROM tree JOIN {s}.instances c ON c.parent_instance = tree.id) \
           SELECT 1 FROM tree JOIN {s}.instances t ON t.instance_id = tree.id WHERE t.ended_at IS NULL) \
         ORDER BY i.ended_at, i.key LIMIT $3::bigint";
    let before = filter.completed_before.map_or(NEVER, to_column);
    let listed: Option<Vec<String>> =
        filter.instance_ids.as_ref().map(|ids| ids.iter().map(|id| owned_text(id)).collect());
    let rows = conn.query(SQL, &[&before, &listed, &count(bulk_limit(filter))]).await?;
    let roots: Vec<String> = rows.iter().map(|row| from_text(row.get(0))).collect();
    let all = trees(conn, roots).await?;
    let doomed = lock(conn, &all, false).await?;
    delete_all(conn, &doomed).await
}

/// How many instances a bulk call takes.
pub(crate) fn bulk_limit(filter: &InstanceFilter) -> usize {
    usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_INSTANCES)).unwrap_or(usize::MAX)
}

/// Deletes instances that are locked.
async fn delete_all(conn: &Conn<'_>, doomed: &[(String, i64)]) -> Result<DeleteInstanceResult, Fault> {
    const WORK: &str =
        "DELETE FROM {s}.work_items WHERE instance_id = ANY($1::text[]) RETURNING session_id, tag";
    let keys: Vec<i64> = doomed.iter().map(|(_, key)| *key).collect();
    let ids: Vec<String> = doomed.iter().map(|(id, _)| owned_text(id)).collect();
    let mut result = DeleteInstanceResult::default();
    if doomed.is_empty() {
        return Ok(result);
    }
    let by_key = async |sql: &'static str| conn.execute(sql, &[&keys]).await;
    result.executions_deleted =
        by_key("DELETE FROM {s}.executions WHERE instance_key = ANY($1::bigint[])").await?;
    result.events_deleted = by_key("DELETE FROM {s}.history WHERE instance_key = ANY($1::bigint[])").await?;
    result.queue_messages_deleted =
        by_key("DELETE FROM {s}.inbox WHERE instance_key = ANY($1::bigint[])").await?;
    by_key("DELETE FROM {s}.kv WHERE instance_key = ANY($1::bigint[])").await?;
    by_key("DELETE FROM {s}.kept_messages WHERE instance_key = ANY($1::bigint[])").await?;
    by_key("DELETE FROM {s}.custom_statuses WHERE instance_key = ANY($1::bigint[])").await?;
    conn.execute("DELETE FROM {s}.set_aside WHERE instance_id = ANY($1::text[])", &[&ids]).await?;
    let work = conn.query(WORK, &[&ids]).await?;
    result.queue_messages_deleted += u64::try_from(work.len()).unwrap_or(0);
    let touched: BTreeSet<(String, String)> = work
        .iter()
        .filter_map(|row| Some((from_text(row.get::<_, Option<String>>(0)?), from_text(row.get(1)))))
        .collect();
    if !touched.is_empty() {
        let sessions: BTreeSet<&String> = touched.iter().map(|(session, _)| session).collect();
        conn.query(RESERVE, &[&reservations(conn.schema(), "session", sessions)]).await?;
        let mut pipeline = Pipeline::default();
        refresh_heads(&mut pipeline, touched.iter());
        pipeline.run(conn).await?.all()?;
    }
    by_key("DELETE FROM {s}.queues WHERE key = ANY($1::bigint[])").await?;
    result.instances_deleted = by_key("DELETE FROM {s}.instances WHERE key = ANY($1::bigint[])").await?;
    Ok(result)
}
