//! The reading half of the management calls.

use std::collections::BTreeSet;

use duroxide_provider::{ExecutionInfo, InstanceInfo, InstanceTree, OldestReady, QueueDepths, SystemMetrics};

use super::damaged::{lossy, optional_lossy};
use super::db::Db;
use super::fault::Fault;
use super::instance_row::{Status, known, status};
use super::values::{from_column, to_column};

/// All instances, latest first.
pub(super) fn list_instances(db: &Db) -> Result<Vec<String>, Fault> {
    Ok(db.all("SELECT instance_id FROM instances ORDER BY key DESC", [], |row| lossy(row, 0))?)
}

/// All instances with a status, latest first.
pub(super) fn list_by_status(db: &Db, status: &str) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT instance_id FROM instances WHERE status = ?1 ORDER BY key DESC";
    let Some(status) = Status::from_word(status) else { return Ok(Vec::new()) };
    Ok(db.all(SQL, [status.code()], |row| lossy(row, 0))?)
}

/// The executions of an instance, first to last.
pub(super) fn list_executions(db: &Db, instance: &str) -> Result<Vec<u64>, Fault> {
    const SQL: &str = "SELECT execution_id FROM executions WHERE instance_key = ?1 ORDER BY execution_id";
    db.snapshot(|db| {
        let key = known(db, instance)?;
        Ok(db.all(SQL, [key], |row| row.get(0).map(from_column))?)
    })
}

/// The latest execution.
pub(super) fn latest_execution_id(db: &Db, instance: &str) -> Result<u64, Fault> {
    const SQL: &str = "SELECT current_execution_id FROM instances WHERE instance_id = ?1";
    let found = db.first(SQL, [instance], |row| row.get(0).map(from_column))?;
    found.ok_or_else(|| unknown(instance))
}

fn unknown(instance: &str) -> Fault {
    Fault::NotFound(format!("instance '{instance}'"))
}

/// One instance.
pub(super) fn instance_info(db: &Db, instance: &str) -> Result<InstanceInfo, Fault> {
    const SQL: &str = "SELECT i.instance_id, i.name, i.version, i.current_execution_id, i.status, e.output, \
         i.created_at, i.updated_at, i.parent_instance FROM instances i LEFT JOIN executions e \
         ON e.instance_key = i.key AND e.execution_id = i.current_execution_id WHERE i.instance_id = ?1";
    let found = db.first(SQL, [instance], |row| {
        Ok(InstanceInfo {
            instance_id: row.get(0)?,
            orchestration_name: row.get(1)?,
            orchestration_version: row.get(2)?,
            current_execution_id: from_column(row.get(3)?),
            status: status(row.get(4)?)?.word().to_string(),
            output: row.get(5)?,
            created_at: from_column(row.get(6)?),
            updated_at: from_column(row.get(7)?),
            parent_instance_id: parent(row, 8)?,
        })
    })?;
    found.ok_or_else(|| unknown(instance))
}

/// One execution.
pub(super) fn execution_info(db: &Db, instance: &str, execution_id: u64) -> Result<ExecutionInfo, Fault> {
    const SQL: &str = "SELECT e.execution_id, e.status, e.output, e.started_at, e.completed_at, e.event_count \
         FROM executions e JOIN instances i ON i.key = e.instance_key \
         WHERE i.instance_id = ?1 AND e.execution_id = ?2";
    let found = db.first(SQL, (instance, to_column(execution_id)), |row| {
        Ok(ExecutionInfo {
            execution_id: from_column(row.get(0)?),
            status: status(row.get(1)?)?.word().to_string(),
            output: row.get(2)?,
            started_at: from_column(row.get(3)?),
            completed_at: row.get::<_, Option<i64>>(4)?.map(from_column),
            event_count: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
        })
    })?;
    found.ok_or_else(|| Fault::NotFound(format!("execution {execution_id} of instance '{instance}'")))
}

/// Counts over the whole store.
pub(super) fn system_metrics(db: &Db) -> Result<SystemMetrics, Fault> {
    // Walks the narrowest index of the instances, not their rows.
    const INSTANCES: &str =
        "SELECT status, count(*) FROM instances INDEXED BY instances_status GROUP BY status";
    const EXECUTIONS: &str = "SELECT count(*), coalesce(sum(event_count), 0) FROM executions";
    let read = |db: &Db| {
        let mut metrics = SystemMetrics::default();
        for (status, count) in
            db.all(INSTANCES, [], |row| Ok((status(row.get(0)?)?, from_column(row.get(1)?))))?
        {
            metrics.total_instances += count;
            match status {
                Status::Running | Status::ContinuedAsNew => metrics.running_instances += count,
                Status::Completed => metrics.completed_instances += count,
                Status::Failed => metrics.failed_instances += count,
            }
        }
        db.first(EXECUTIONS, [], |row| {
            metrics.total_executions = from_column(row.get(0)?);
            metrics.total_events = from_column(row.get(1)?);
            Ok(())
        })?;
        Ok(metrics)
    };
    db.snapshot(read)
}

/// How much waits in the queues.
pub(super) fn queue_depths(db: &Db) -> Result<QueueDepths, Fault> {
    // The counters of the instances that have messages, instead of all messages.
    const SQL: &str = "SELECT (SELECT coalesce(sum(inbox_count), 0) FROM instances INDEXED BY instances_ready \
         WHERE ready_at IS NOT NULL), (SELECT count(*) FROM inbox INDEXED BY inbox_timers WHERE kind = 5), \
         (SELECT count(*) FROM work_items)";
    let found = db.first(SQL, [], |row| {
        let size = |value: i64| usize::try_from(value).unwrap_or(0);
        let (messages, timers, work): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(QueueDepths {
            orchestrator_queue: size(messages - timers),
            worker_queue: size(work),
            timer_queue: size(timers),
        })
    })?;
    Ok(found.unwrap_or_default())
}

/// Since when the oldest things that are ready wait. Walks indexes of what is queued, not the rows.
pub(super) fn oldest_ready(db: &Db) -> Result<OldestReady, Fault> {
    const SQL: &str = "SELECT (SELECT min(ready_at) FROM instances INDEXED BY instances_ready \
             WHERE ready_at IS NOT NULL), \
         (SELECT min(ready_at) FROM work_items INDEXED BY work_items_ready WHERE session_id IS NULL), \
         (SELECT min(ready_at) FROM session_heads)";
    let found = db.first(SQL, [], |row| {
        let (turn, work, of_session): (Option<i64>, Option<i64>, Option<i64>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(OldestReady {
            turn_ms: turn.map(from_column),
            work_ms: work.into_iter().chain(of_session).min().map(from_column),
        })
    })?;
    Ok(found.unwrap_or_default())
}

/// The direct children of an instance that exists, oldest first.
pub(super) fn list_children(db: &Db, instance: &str) -> Result<Vec<String>, Fault> {
    db.snapshot(|db| {
        known(db, instance)?;
        children_of(db, instance)
    })
}

/// The direct children of an instance, oldest first.
pub(super) fn children_of(db: &Db, instance: &str) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT instance_id FROM instances INDEXED BY instances_parent WHERE parent_instance = ?1 \
         ORDER BY key";
    Ok(db.all(SQL, [instance], |row| lossy(row, 0))?)
}

/// The id of a parent. No instance has an empty one.
fn parent(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(optional_lossy(row, at)?.filter(|id| !id.is_empty()))
}

/// The instance that waits for this one's result.
pub(super) fn parent_id(db: &Db, instance: &str) -> Result<Option<String>, Fault> {
    const SQL: &str = "SELECT parent_instance FROM instances WHERE instance_id = ?1";
    db.first(SQL, [instance], |row| parent(row, 0))?.ok_or_else(|| unknown(instance))
}

/// An instance and all that descend from it, parents before their children.
pub(super) fn instance_tree(db: &Db, instance: &str) -> Result<InstanceTree, Fault> {
    db.snapshot(|db| {
        known(db, instance)?;
        let mut all_ids = vec![instance.to_string()];
        // Links that lead back to an ancestor would never end.
        let mut seen = BTreeSet::from([instance.to_string()]);
        let mut next = 0;
        while let Some(id) = all_ids.get(next) {
            let children = children_of(db, id)?;
            all_ids.extend(children.into_iter().filter(|child| seen.insert(child.clone())));
            next += 1;
        }
        Ok(InstanceTree { root_id: instance.to_string(), all_ids })
    })
}
