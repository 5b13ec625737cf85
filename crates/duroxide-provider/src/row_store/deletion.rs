//! Deleting instances and old executions.

use std::collections::BTreeSet;

use duroxide_core::limits::DEFAULT_BULK_INSTANCES;
use duroxide_core::protection::Protection;

use super::tables::{Instance, Tables};
use crate::rules::values::{Ms, count, from_column, to_column};
use crate::{
    DeleteInstanceResult, InstanceFilter, ProviderError, ProviderErrorKind, PruneOptions, PruneResult,
};

impl Tables {
    /// The keys of the children of an instance, oldest first.
    pub(super) fn children(&self, parent: &str) -> Vec<i64> {
        let is_child = |one: &&Instance| one.row.parent_instance.as_deref() == Some(parent);
        self.instances.values().filter(is_child).map(|one| one.row.key).collect()
    }

    pub(super) fn id_of(&self, key: i64) -> String {
        self.instances.get(&key).map_or_else(String::new, |one| one.row.instance.clone())
    }

    /// An instance and its descendants, parents before their children.
    pub(super) fn tree(&self, root: i64) -> Vec<i64> {
        let mut all = vec![root];
        // The parent column is whatever a turn wrote: it need not form a tree.
        let mut seen = BTreeSet::from([root]);
        let mut next = 0;
        while let Some(key) = all.get(next) {
            let children = self.children(&self.id_of(*key));
            all.extend(children.into_iter().filter(|child| seen.insert(*child)));
            next += 1;
        }
        all
    }

    pub(super) fn delete_atomic(
        &mut self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OPERATION: &str = "delete_instances_atomic";
        let doomed: BTreeSet<i64> = ids.iter().filter_map(|id| self.keys.get(id).copied()).collect();
        for key in &doomed {
            self.check_deletable(OPERATION, *key, force)?;
        }
        let left = self.instances.values().filter(|one| !doomed.contains(&one.row.key));
        for child in left {
            let parent = child.row.parent_instance.as_ref();
            if parent.and_then(|id| self.keys.get(id)).is_some_and(|key| doomed.contains(key)) {
                let (child, parent) = (&child.row.instance, parent.map_or("", String::as_str));
                let text = format!("child '{child}' of '{parent}' would be left without a parent");
                return Err(invalid(OPERATION, text));
            }
        }
        Ok(self.delete_all(doomed))
    }

    pub(super) fn delete_tree(
        &mut self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OPERATION: &str = "delete_instance";
        let row = &self.known(OPERATION, instance)?.row;
        if let Some(parent) = &row.parent_instance {
            let text = format!("'{instance}' is a sub-orchestration of '{parent}': delete its root instead");
            return Err(invalid(OPERATION, text));
        }
        let tree = self.tree(row.key);
        tree.iter().try_for_each(|key| self.check_deletable(OPERATION, *key, force))?;
        Ok(self.delete_all(tree))
    }

    fn check_deletable(&self, operation: &str, key: i64, force: bool) -> Result<(), ProviderError> {
        if !force && self.is_running(key) {
            let id = self.id_of(key);
            let text = format!("instance '{id}' is still running: cancel it or use force");
            return Err(invalid(operation, text));
        }
        Ok(())
    }

    fn is_running(&self, key: i64) -> bool {
        self.instances.get(&key).is_some_and(|one| one.looks_ended().is_none())
    }

    pub(super) fn delete_bulk(&mut self, filter: &InstanceFilter) -> DeleteInstanceResult {
        let roots = self.meant(filter).filter(|one| one.row.parent_instance.is_none());
        let mut ended: Vec<(Ms, i64)> =
            roots.filter_map(|one| Some((one.looks_ended()?, one.row.key))).collect();
        ended.sort_unstable();
        // A finished root may still have a child that runs.
        let trees = ended.into_iter().map(|(_, root)| self.tree(root));
        let finished = trees.filter(|tree| !tree.iter().any(|key| self.is_running(*key)));
        let doomed: Vec<i64> = finished.take(limit_of(filter)).flatten().collect();
        self.delete_all(doomed)
    }

    /// The instances that a bulk call is about, in the order of creation, without its limit.
    fn meant<'a>(&'a self, filter: &'a InstanceFilter) -> impl Iterator<Item = &'a Instance> {
        let listed: Option<BTreeSet<&String>> = filter.instance_ids.as_ref().map(|ids| ids.iter().collect());
        let meant = self
            .instances
            .values()
            .filter(move |one| listed.as_ref().is_none_or(|ids| ids.contains(&one.row.instance)));
        meant.filter(|one| is_before(one.ended_at, filter.completed_before))
    }

    fn delete_all(&mut self, doomed: impl IntoIterator<Item = i64>) -> DeleteInstanceResult {
        let mut result = DeleteInstanceResult::default();
        for key in doomed {
            let Some(instance) = self.instances.remove(&key) else { continue };
            let id = instance.row.instance;
            self.keys.remove(&id);
            let work = self.queued.range((id.clone(), 0, 0)..).take_while(|((of, _, _), _)| *of == id);
            let work: Vec<i64> = work.map(|(_, id)| *id).collect();
            work.iter().for_each(|id| self.remove_work(*id));
            result.instances_deleted += 1;
            result.executions_deleted += from_column(count(instance.executions.len()));
            let events: usize = instance.executions.values().map(|one| one.history.len()).sum();
            result.events_deleted += from_column(count(events));
            result.queue_messages_deleted += from_column(count(instance.inbox.len() + work.len()));
        }
        result
    }

    pub(super) fn prune(
        &mut self,
        instance: &str,
        options: &PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let key = self.known("prune_executions", instance)?.row.key;
        let mut result = PruneResult::default();
        self.prune_one(key, options, &mut result);
        Ok(result)
    }

    pub(super) fn prune_bulk(&mut self, filter: &InstanceFilter, options: &PruneOptions) -> PruneResult {
        let keys: Vec<i64> = self.meant(filter).take(limit_of(filter)).map(|one| one.row.key).collect();
        let mut result = PruneResult::default();
        keys.iter().for_each(|key| self.prune_one(*key, options, &mut result));
        result
    }

    fn prune_one(&mut self, key: i64, options: &PruneOptions, result: &mut PruneResult) {
        let Some(instance) = self.instances.get_mut(&key) else { return };
        let keep = usize::try_from(options.keep_last.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
        let current = instance.row.current_execution_id;
        let old = instance.executions.iter().rev().skip(keep).filter(|(id, execution)| {
            **id != current && is_before(execution.row.completed_at, options.completed_before)
        });
        let old: Vec<u64> = old.map(|(id, _)| *id).collect();
        result.instances_processed += 1;
        for execution in old.iter().filter_map(|id| instance.executions.remove(id)) {
            result.executions_deleted += 1;
            result.events_deleted += from_column(count(execution.history.len()));
        }
    }
}

impl Instance {
    /// When it ended.
    fn looks_ended(&self) -> Option<Ms> {
        let begins = self.current().is_some_and(|execution| execution.history.is_empty());
        let between = self.executions.len() > 1 && begins;
        let mistaken = between && Protection::BetweenExecutionsIsRunning.is_off();
        self.ended_at.or(mistaken.then_some(self.row.updated_at))
    }
}

fn limit_of(filter: &InstanceFilter) -> usize {
    usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK_INSTANCES)).unwrap_or(usize::MAX)
}

fn is_before(ended_at: Option<Ms>, before: Option<u64>) -> bool {
    let Some(before) = before else { return true };
    ended_at.is_some_and(|ended_at| ended_at < to_column(before))
}

fn invalid(operation: &str, text: String) -> ProviderError {
    ProviderError::of_kind(ProviderErrorKind::Invalid, operation, text)
}
