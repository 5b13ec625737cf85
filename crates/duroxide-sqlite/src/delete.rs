//! Deleting instances with all that belongs to them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use duroxide_core::limits::DEFAULT_BULK_INSTANCES;
use duroxide_provider::{DeleteInstanceResult, InstanceFilter};
use rusqlite::Row;

use super::admin::{children_of, instance_tree};
use super::db::Db;
use super::fault::Fault;
use super::instance_row::{key_of, known, status};
use super::sessions;
use super::tx::Tx;
use super::values::{NEVER, from_column, rows, to_column};
use super::work::place;

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
    if !force && is_running(tx.db, instance)? {
        return Err(Fault::Invalid(format!(
            "instance '{instance}' is still running: cancel it or use force"
        )));
    }
    Ok(())
}

fn is_running(db: &Db, instance: &str) -> Result<bool, Fault> {
    const SQL: &str = "SELECT status FROM instances WHERE instance_id = ?1";
    let status = db.first(SQL, [instance], |row| status(row.get(0)?))?;
    Ok(status.is_some_and(|status| !status.ends_instance()))
}

/// Deletes finished roots with their trees, those that ended first to begin with. A root with a child that runs
/// is left alone.
pub(super) fn delete_bulk(tx: &mut Tx<'_>, filter: &InstanceFilter) -> Result<DeleteInstanceResult, Fault> {
    const ENDED: &str = "SELECT ended_at, key, instance_id FROM instances INDEXED BY instances_ended \
         WHERE ended_at IS NOT NULL AND parent_instance IS NULL AND ended_at < ?1 ORDER BY ended_at, key";
    const LISTED: &str = "SELECT ended_at, key, instance_id FROM instances \
         WHERE ended_at < ?1 AND parent_instance IS NULL AND instance_id = ?2";
    let limit = bulk_limit(filter);
    let before = filter.completed_before.map_or(NEVER, to_column);
    let mut trees = Vec::new();
    match &filter.instance_ids {
        None if limit > 0 => {
            let mut failed = Ok(());
            tx.db.each(ENDED, [before], |row| {
                failed = add_finished_tree(tx.db, row.get(2)?, &mut trees);
                let enough = trees.len() >= limit || failed.is_err();
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            failed?;
        }
        None => {}
        Some(ids) => {
            let mut roots: Vec<(i64, i64, String)> = Vec::new();
            for id in ids.iter().collect::<BTreeSet<_>>() {
                let root = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                roots.extend(tx.db.first(LISTED, (before, id), root)?);
            }
            roots.sort_unstable();
            for (_, _, root) in roots {
                if trees.len() < limit {
                    add_finished_tree(tx.db, root, &mut trees)?;
                }
            }
        }
    }
    delete_all(tx, trees.iter().flatten())
}

/// Adds the tree of a finished root, unless one of it runs.
fn add_finished_tree(db: &Db, root: String, trees: &mut Vec<Vec<String>>) -> Result<(), Fault> {
    let tree = instance_tree(db, &root)?.all_ids;
    for member in &tree {
        if is_running(db, member)? {
            return Ok(());
        }
    }
    trees.push(tree);
    Ok(())
}

/// How many instances a bulk call takes.
pub(super) fn bulk_limit(filter: &InstanceFilter) -> usize {
    usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_INSTANCES)).unwrap_or(usize::MAX)
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
    const WORK: &str = "DELETE FROM work_items WHERE instance_id = ?1 RETURNING tag, session_id, name";
    let db = tx.db;
    let by_key = |sql| db.execute(sql, [key]).map(|deleted| from_column(rows(deleted)));
    result.executions_deleted += by_key("DELETE FROM executions WHERE instance_key = ?1")?;
    result.events_deleted += by_key("DELETE FROM history WHERE instance_key = ?1")?;
    result.queue_messages_deleted += by_key("DELETE FROM inbox WHERE instance_key = ?1")?;
    by_key("DELETE FROM kv WHERE instance_key = ?1")?;
    by_key("DELETE FROM kept_messages WHERE instance_key = ?1")?;
    by_key("DELETE FROM custom_statuses WHERE instance_key = ?1")?;
    tx.db.execute("DELETE FROM set_aside WHERE instance_id = ?1", [instance])?;
    let places = tx.db.all(WORK, [instance], place)?;
    for place in &places {
        sessions::item_let_go(tx, place)?;
    }
    result.queue_messages_deleted += from_column(rows(places.len()));
    result.instances_deleted += by_key("DELETE FROM instances WHERE key = ?1")?;
    tx.effects.changed.push(instance.to_string());
    Ok(())
}
