//! Deleting old executions, never the current one.

use std::collections::BTreeSet;

use duroxide_provider::{InstanceFilter, PruneOptions, PruneResult};

use super::db::Db;
use super::delete::bulk_limit;
use super::fault::Fault;
use super::instance_row::known;
use super::tx::Tx;
use super::values::{from_column, rows, to_column};

/// Deletes old executions of an instance.
pub(super) fn prune(tx: &Tx<'_>, instance: &str, options: &PruneOptions) -> Result<PruneResult, Fault> {
    let mut result = PruneResult::default();
    prune_one(tx, instance, options, &mut result)?;
    Ok(result)
}

/// Deletes old executions of many instances.
pub(super) fn prune_bulk(
    tx: &Tx<'_>,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, Fault> {
    let mut result = PruneResult::default();
    for instance in meant(tx, filter)? {
        prune_one(tx, &instance, options, &mut result)?;
    }
    Ok(result)
}

/// The instances that a bulk prune is about, in the order of creation.
fn meant(tx: &Tx<'_>, filter: &InstanceFilter) -> Result<Vec<String>, Fault> {
    const ALL: &str =
        "SELECT key, instance_id FROM instances WHERE ?1 IS NULL OR ended_at < ?1 ORDER BY key LIMIT ?2";
    const LISTED: &str = "SELECT key, instance_id FROM instances \
         WHERE (?1 IS NULL OR ended_at < ?1) AND instance_id = ?2";
    let before = filter.completed_before.map(to_column);
    let limit = bulk_limit(filter);
    let Some(ids) = &filter.instance_ids else {
        return Ok(tx.db.all(ALL, (before, rows(limit)), |row| row.get(1))?);
    };
    let mut found: Vec<(i64, String)> = Vec::new();
    for id in ids.iter().collect::<BTreeSet<_>>() {
        found.extend(tx.db.first(LISTED, (before, id), |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    found.sort_unstable();
    Ok(found.into_iter().take(limit).map(|(_, id)| id).collect())
}

/// The instances that continued as new at least this often without being pruned since, oldest first.
pub(super) fn to_prune(db: &Db, keep_last: u32, limit: u32) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT i.instance_id FROM (SELECT instance_key FROM executions INDEXED BY executions_continued \
         WHERE status = 4 GROUP BY instance_key HAVING count(*) >= ?1 LIMIT ?2) \
         JOIN instances i ON i.key = instance_key ORDER BY i.key";
    Ok(db.all(SQL, (keep_last.max(1), limit), |row| row.get(0))?)
}

fn prune_one(
    tx: &Tx<'_>,
    instance: &str,
    options: &PruneOptions,
    result: &mut PruneResult,
) -> Result<(), Fault> {
    const OLD: &str = "SELECT e.execution_id FROM executions e JOIN instances i ON i.key = e.instance_key \
         WHERE i.key = ?1 AND e.execution_id <> i.current_execution_id \
         AND e.execution_id NOT IN (SELECT execution_id FROM executions WHERE instance_key = ?1 \
             ORDER BY execution_id DESC LIMIT ?2) \
         AND (?3 IS NULL OR e.completed_at < ?3)";
    const EVENTS: &str = "DELETE FROM history WHERE instance_key = ?1 AND execution_id = ?2";
    const EXECUTION: &str = "DELETE FROM executions WHERE instance_key = ?1 AND execution_id = ?2";
    let key = known(tx.db, instance)?;
    let keep = i64::from(options.keep_last.unwrap_or(1).max(1));
    let old: Vec<i64> =
        tx.db.all(OLD, (key, keep, options.completed_before.map(to_column)), |row| row.get(0))?;
    for execution_id in old {
        result.events_deleted += from_column(rows(tx.db.execute(EVENTS, (key, execution_id))?));
        result.executions_deleted += from_column(rows(tx.db.execute(EXECUTION, (key, execution_id))?));
    }
    result.instances_processed += 1;
    Ok(())
}
