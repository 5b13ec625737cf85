//! Deleting instances with all that belongs to them.

use std::collections::BTreeSet;

use super::admin::{children_of, instance_tree};
use super::fault::Fault;
use super::history::rows;
use super::instance_row::{Status, key_of, known};
use super::sessions;
use super::tx::Tx;
use super::values::{from_column, to_column};
use super::work::Place;
use crate::providers::{DeleteInstanceResult, InstanceFilter};

/// How many instances a bulk call takes when the filter does not say.
pub(super) const DEFAULT_BULK_LIMIT: u32 = 1000;

/// Deletes these instances, all or none.
pub(super) fn delete_atomic(
    tx: &mut Tx<'_>,
    instances: &[String],
    force: bool,
) -> Result<DeleteInstanceResult, Fault> {
    let mut doomed: BTreeSet<&String> = BTreeSet::new();
    for id in instances {
        if key_of(tx.db, id)?.is_some() {
            doomed.insert(id);
        }
    }
    for id in &doomed {
        check_deletable(tx, id, force)?;
        if let Some(child) = children_of(tx.db, id)?.iter().find(|child| !doomed.contains(child)) {
            return Err(Fault::Invalid(format!("child '{child}' of '{id}' would be left without a parent")));
        }
    }
    delete_all(tx, doomed.into_iter())
}

/// Deletes a root with its tree.
pub(super) fn delete_tree(
    tx: &mut Tx<'_>,
    instance: &str,
    force: bool,
) -> Result<DeleteInstanceResult, Fault> {
    known(tx.db, instance)?;
    if let Some(parent) = super::admin::parent_id(tx.db, instance)? {
        let text = format!("'{instance}' is a sub-orchestration of '{parent}': delete its root instead");
        return Err(Fault::Invalid(text));
    }
    let tree = instance_tree(tx.db, instance)?.all_ids;
    for id in &tree {
        check_deletable(tx, id, force)?;
    }
    delete_all(tx, tree.iter())
}

fn check_deletable(tx: &Tx<'_>, instance: &str, force: bool) -> Result<(), Fault> {
    if !force && is_running(tx, instance)? {
        return Err(Fault::Invalid(format!(
            "instance '{instance}' is still running: cancel it or use force"
        )));
    }
    Ok(())
}

fn is_running(tx: &Tx<'_>, instance: &str) -> Result<bool, Fault> {
    const SQL: &str = "SELECT status FROM instances WHERE instance_id = ?1";
    let status = tx.db.first(SQL, [instance], |row| Status::from_code(row.get(0)?))?;
    Ok(status.is_some_and(|status| !status.ends_instance()))
}

/// Deletes finished roots with their trees, oldest first. A root with a child that runs is left alone.
pub(super) fn delete_bulk(tx: &mut Tx<'_>, filter: &InstanceFilter) -> Result<DeleteInstanceResult, Fault> {
    let limit = usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_LIMIT)).unwrap_or(usize::MAX);
    let mut doomed = Vec::new();
    let mut roots = 0;
    for root in meant(tx, filter, "parent_instance IS NULL AND i.status IN (2, 3)")? {
        if roots >= limit {
            break;
        }
        let tree = instance_tree(tx.db, &root)?.all_ids;
        let mut running = false;
        for member in &tree {
            running = running || is_running(tx, member)?;
        }
        if !running {
            roots += 1;
            doomed.extend(tree);
        }
    }
    delete_all(tx, doomed.iter())
}

/// The instances that a bulk call is about, oldest first; `condition` is SQL about `i`, the instance.
pub(super) fn meant(tx: &Tx<'_>, filter: &InstanceFilter, condition: &str) -> Result<Vec<String>, Fault> {
    let listed = if filter.instance_ids.is_some() { "AND i.instance_id = ?2" } else { "AND ?2 IS NULL" };
    let sql = format!(
        "SELECT i.key, i.instance_id FROM instances i JOIN executions e \
         ON e.instance_key = i.key AND e.execution_id = i.current_execution_id \
         WHERE {condition} AND (?1 IS NULL OR e.completed_at < ?1) {listed} ORDER BY i.key"
    );
    let before = filter.completed_before.map(to_column);
    let mut found: Vec<(i64, String)> = Vec::new();
    match &filter.instance_ids {
        None => found = tx.db.all(&sql, (before, None::<String>), |row| Ok((row.get(0)?, row.get(1)?)))?,
        Some(ids) => {
            for id in ids.iter().collect::<BTreeSet<_>>() {
                found.extend(tx.db.first(&sql, (before, Some(id)), |row| Ok((row.get(0)?, row.get(1)?)))?);
            }
            found.sort_unstable();
        }
    }
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

fn delete_all<'a>(
    tx: &mut Tx<'_>,
    instances: impl Iterator<Item = &'a String>,
) -> Result<DeleteInstanceResult, Fault> {
    let mut result = DeleteInstanceResult::default();
    for instance in instances {
        if let Some(key) = key_of(tx.db, instance)? {
            delete_one(tx, instance, key, &mut result)?;
        }
    }
    Ok(result)
}

fn delete_one(
    tx: &mut Tx<'_>,
    instance: &str,
    key: i64,
    result: &mut DeleteInstanceResult,
) -> Result<(), Fault> {
    const WORK: &str = "DELETE FROM work_items WHERE instance_id = ?1 RETURNING tag, session_id";
    let db = tx.db;
    let by_key = |sql| db.execute(sql, [key]).map(|deleted| from_column(rows(deleted)));
    result.executions_deleted += by_key("DELETE FROM executions WHERE instance_key = ?1")?;
    result.events_deleted += by_key("DELETE FROM history WHERE instance_key = ?1")?;
    result.queue_messages_deleted += by_key("DELETE FROM inbox WHERE instance_key = ?1")?;
    by_key("DELETE FROM kv WHERE instance_key = ?1")?;
    by_key("DELETE FROM custom_statuses WHERE instance_key = ?1")?;
    tx.db.execute("DELETE FROM set_aside WHERE instance_id = ?1", [instance])?;
    let places =
        tx.db.all(WORK, [instance], |row| Ok(Place { tag: row.get(0)?, session_id: row.get(1)? }))?;
    for place in &places {
        sessions::item_let_go(tx, place)?;
    }
    result.queue_messages_deleted += from_column(rows(places.len()));
    result.instances_deleted += by_key("DELETE FROM instances WHERE key = ?1")?;
    tx.effects.changed.push(instance.to_string());
    Ok(())
}
