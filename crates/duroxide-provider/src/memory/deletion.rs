//! Deleting instances and old executions.

use std::collections::BTreeSet;

use duroxide_core::limits::DEFAULT_BULK_INSTANCES;
use duroxide_core::test_fault;

use super::read::count;
use super::rows::{InstanceRow, Ms, to_ms};
use super::state::{State, invalid};
use crate::{DeleteInstanceResult, InstanceFilter, ProviderError, PruneOptions, PruneResult};

impl State {
    /// The instance and its descendants, parents before their children.
    pub(super) fn tree(&self, root: &str) -> Vec<String> {
        let mut all_ids = vec![root.to_string()];
        // The parent column is whatever a turn wrote: it need not form a tree.
        let mut seen = BTreeSet::from([root.to_string()]);
        let mut next = 0;
        while let Some(id) = all_ids.get(next) {
            let children = self.children_of(id);
            all_ids.extend(children.into_iter().filter(|child| seen.insert(child.clone())));
            next += 1;
        }
        all_ids
    }

    pub(super) fn children_of(&self, instance: &str) -> Vec<String> {
        let children = self.children.get(instance).into_iter().flatten();
        children.filter_map(|seq| self.created.get(seq).cloned()).collect()
    }

    pub(super) fn delete_atomic(
        &mut self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OPERATION: &str = "delete_instances_atomic";
        let doomed: BTreeSet<&String> =
            instances.iter().filter(|id| self.instances.contains_key(*id)).collect();
        for id in &doomed {
            self.check_deletable(OPERATION, id, force)?;
            if let Some(child) = self.children_of(id).iter().find(|child| !doomed.contains(child)) {
                return Err(invalid(
                    OPERATION,
                    format!("child '{child}' of '{id}' would be left without a parent"),
                ));
            }
        }
        Ok(self.delete_all(doomed.into_iter()))
    }

    pub(super) fn delete_tree(
        &mut self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OPERATION: &str = "delete_instance";
        let row = self.known(OPERATION, instance)?;
        if let Some(parent) = &row.parent_instance {
            let text = format!("'{instance}' is a sub-orchestration of '{parent}': delete its root instead");
            return Err(invalid(OPERATION, text));
        }
        let tree = self.tree(instance);
        for id in &tree {
            self.check_deletable(OPERATION, id, force)?;
        }
        Ok(self.delete_all(tree.iter()))
    }

    fn check_deletable(&self, operation: &str, instance: &str, force: bool) -> Result<(), ProviderError> {
        if !force && self.is_running(instance) {
            return Err(invalid(
                operation,
                format!("instance '{instance}' is still running: cancel it or use force"),
            ));
        }
        Ok(())
    }

    fn is_running(&self, instance: &str) -> bool {
        self.instances.get(instance).is_some_and(|row| {
            test_fault!(BetweenExecutionsIsRunning => if row.is_between_executions() { return false });
            !row.status.ends_instance()
        })
    }

    pub(super) fn delete_bulk(&mut self, filter: &InstanceFilter) -> DeleteInstanceResult {
        let mut ended: Vec<(Ms, &String)> = self
            .meant(filter)
            .filter(|(_, row)| row.parent_instance.is_none())
            .filter_map(|(id, row)| Some((looks_ended(row)?, id)))
            .collect();
        // The sort keeps the order of creation among equals.
        ended.sort_by_key(|(ended_at, _)| *ended_at);
        let roots: Vec<String> = ended
            .into_iter()
            // A finished root may still have a child that runs.
            .filter(|(_, id)| !self.tree(id).iter().any(|member| self.is_running(member)))
            .take(limit_of(filter))
            .map(|(_, id)| id.clone())
            .collect();
        let doomed: Vec<String> = roots.iter().flat_map(|root| self.tree(root)).collect();
        self.delete_all(doomed.iter())
    }

    /// The instances that a bulk call is about, in the order of creation, without its limit.
    fn meant<'a>(
        &'a self,
        filter: &'a InstanceFilter,
    ) -> impl Iterator<Item = (&'a String, &'a InstanceRow)> {
        let listed: Option<BTreeSet<&String>> = filter.instance_ids.as_ref().map(|ids| ids.iter().collect());
        self.created
            .values()
            .filter(move |id| listed.as_ref().is_none_or(|ids| ids.contains(id)))
            .filter_map(|id| Some((id, self.instances.get(id)?)))
            .filter(|(_, row)| is_before(row.ended_at, filter.completed_before))
    }

    fn delete_all<'a>(&mut self, instances: impl Iterator<Item = &'a String>) -> DeleteInstanceResult {
        let mut result = DeleteInstanceResult::default();
        for instance in instances {
            let Some(row) = self.instances.remove(instance) else { continue };
            if let Some(old) = &row.indexed {
                self.ready_turns.remove(&old.key, old.suspect, old.ready_at, row.seq);
            }
            self.created.remove(&row.seq);
            self.by_time.remove(&(row.created_at, row.seq));
            self.forget_child(row.parent_instance.as_deref(), row.seq);
            let work = self.work_of(instance);
            for seq in &work {
                self.remove_work(*seq);
            }
            result.instances_deleted += 1;
            result.executions_deleted += count(row.executions.len());
            result.events_deleted +=
                row.executions.values().map(|execution| count(execution.events.len())).sum::<u64>();
            result.queue_messages_deleted += count(row.inbox().len() + work.len());
            self.wakes.instances.insert(instance.clone());
        }
        result
    }

    /// Takes a child out of the index of children.
    pub(super) fn forget_child(&mut self, parent: Option<&str>, seq: u64) {
        let Some(parent) = parent else { return };
        let Some(siblings) = self.children.get_mut(parent) else { return };
        siblings.remove(&seq);
        if siblings.is_empty() {
            self.children.remove(parent);
        }
    }

    /// The queued work items of an instance.
    pub(super) fn work_of(&self, instance: &str) -> Vec<u64> {
        let first = super::rows::WorkKey { instance: instance.to_string(), execution_id: 0, event_id: 0 };
        let of_instance = self.work_by_key.range(first..).take_while(|(key, _)| key.instance == instance);
        of_instance.map(|(_, seq)| *seq).collect()
    }

    pub(super) fn prune(
        &mut self,
        instance: &str,
        options: &PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.known("prune_executions", instance)?;
        let mut result = PruneResult::default();
        self.prune_one(instance, options, &mut result);
        Ok(result)
    }

    pub(super) fn prune_bulk(&mut self, filter: &InstanceFilter, options: &PruneOptions) -> PruneResult {
        let instances: Vec<String> =
            self.meant(filter).take(limit_of(filter)).map(|(id, _)| id.clone()).collect();
        let mut result = PruneResult::default();
        for instance in &instances {
            self.prune_one(instance, options, &mut result);
        }
        result
    }

    fn prune_one(&mut self, instance: &str, options: &PruneOptions, result: &mut PruneResult) {
        let Some(row) = self.instances.get_mut(instance) else { return };
        let keep = usize::try_from(options.keep_last.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
        let old: Vec<u64> = row
            .executions
            .iter()
            .rev()
            .skip(keep)
            .filter(|(id, execution)| {
                **id != row.current_execution_id
                    && is_before(execution.completed_at, options.completed_before)
            })
            .map(|(id, _)| *id)
            .collect();
        result.instances_processed += 1;
        for id in old {
            if let Some(execution) = row.executions.remove(&id) {
                result.executions_deleted += 1;
                result.events_deleted += count(execution.events.len());
            }
        }
    }
}

/// When an instance ended.
fn looks_ended(row: &InstanceRow) -> Option<Ms> {
    test_fault!(BetweenExecutionsIsRunning => if row.is_between_executions() { return Some(row.updated_at) });
    row.ended_at
}

fn limit_of(filter: &InstanceFilter) -> usize {
    usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_INSTANCES)).unwrap_or(usize::MAX)
}

fn is_before(ended_at: Option<Ms>, before: Option<u64>) -> bool {
    let Some(before) = before else { return true };
    ended_at.is_some_and(|ended_at| ended_at < to_ms(before))
}
