//! Deleting old executions, never the current one.

use super::delete::{DEFAULT_BULK_LIMIT, meant};
use super::fault::Fault;
use super::history::rows;
use super::instance_row::known;
use super::tx::Tx;
use super::values::{from_column, to_column};
use crate::providers::{InstanceFilter, PruneOptions, PruneResult};

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
    let limit = usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_LIMIT)).unwrap_or(usize::MAX);
    let mut result = PruneResult::default();
    for instance in meant(tx, filter, "1")?.iter().take(limit) {
        prune_one(tx, instance, options, &mut result)?;
    }
    Ok(result)
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
