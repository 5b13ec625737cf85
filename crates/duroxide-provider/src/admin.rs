//! The management side of a store.

use async_trait::async_trait;
use duroxide_core::health::QueuedFor;
use duroxide_core::{DispatcherCapabilityFilter, Event};

use super::{
    Bounces, DeleteInstanceResult, ExecutionInfo, FilteredOut, HealthFacts, InstanceFilter, InstanceInfo,
    InstancePage, InstanceQuery, InstanceTree, OldestReady, ProviderError, PruneOptions, PruneResult,
    QueueDepths, RepairInstance, SystemMetrics, WaitingByTag,
};
use crate::clock::{Clock as _, SystemClock};

/// Management calls of a store. Unknown ids are permanent errors whose text contains `not found`.
#[async_trait]
pub trait ProviderAdmin: Send + Sync {
    /// All instances, latest first.
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError>;

    /// All instances with a status, latest first.
    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError>;

    /// The executions of an instance, first to last.
    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError>;

    /// The history of one execution.
    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError>;

    /// The history of the latest execution.
    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError>;

    /// The latest execution.
    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError>;

    /// One instance.
    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError>;

    /// One execution.
    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError>;

    /// Counts over the whole store.
    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError>;

    /// How much waits in the queues.
    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError>;

    /// The direct children of an instance, oldest first.
    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError>;

    /// The instance that waits for this one's result.
    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError>;

    /// Deletes these instances and all that belongs to them, all or none.
    ///
    /// Refuses, naming it, an instance that is running (unless `force`) and a child whose parent is deleted
    /// while it stays. Ids that do not exist are passed over.
    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError>;

    /// An instance and all that descend from it.
    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        self.get_instance_info(instance).await?;
        let mut all_ids = vec![instance.to_string()];
        // The parent column is whatever a turn wrote: it need not form a tree.
        let mut seen = std::collections::BTreeSet::from([instance.to_string()]);
        let mut next = 0;
        while let Some(id) = all_ids.get(next).cloned() {
            let children = self.list_children(&id).await?;
            all_ids.extend(children.into_iter().filter(|child| seen.insert(child.clone())));
            next += 1;
        }
        Ok(InstanceTree { root_id: instance.to_string(), all_ids })
    }

    /// Deletes a root instance with its tree. A child is refused; so is a tree with a running instance,
    /// unless `force`.
    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError>;

    /// Deletes finished root instances with their trees, those that ended first to begin with.
    ///
    /// A root with a descendant that runs stays, with its whole tree. The filter's limit counts roots.
    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError>;

    /// Deletes old executions of an instance, never the current one.
    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError>;

    /// Deletes old executions of many instances, never a current one.
    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError>;

    // ---- Extensions ----

    /// One page of the instances that match. The default body reads every instance.
    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        super::listing::page_by_reading_all(self, query).await
    }

    /// Up to `limit` instances of which `prune_executions` with this `keep_last` would remove something. The
    /// default body reads every instance.
    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        let (keep, limit) = (size(keep_last.max(1)), size(limit));
        let mut found = Vec::new();
        for id in self.list_instances().await? {
            if found.len() >= limit {
                break;
            }
            if self.list_executions(&id).await?.len() > keep {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Since when the oldest things that are ready wait. The default body does not know.
    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        Ok(OldestReady::default())
    }

    /// What the queues hold for an instance, read at one moment; `None` if it is unknown or has ended, or if the store
    /// cannot tell. The default body cannot.
    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        let _ = instance;
        Ok(None)
    }

    /// What of a running instance was given back for a cause that is still kept; nothing of one that has ended. The
    /// default body knows no causes.
    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        self.get_instance_info(instance).await?;
        Ok(Bounces::default())
    }

    /// What has been ready for at least `overdue_ms`; `None` if the store cannot tell. The default body cannot.
    async fn health_facts(&self, overdue_ms: u64) -> Result<Option<HealthFacts>, ProviderError> {
        let _ = overdue_ms;
        Ok(None)
    }

    /// Puts back what is queued nowhere, and the note if that was anything; how much was put back. What is there
    /// already stays as it is. An instance that has ended, is locked, or has another current execution or last event
    /// than the caller has seen is [`ProviderErrorKind::Invalid`](super::ProviderErrorKind::Invalid).
    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        let _ = request;
        Err(ProviderError::permanent("repair", "this store cannot repair instances"))
    }

    /// The ready instances that this filter leaves out, by pinned version in its order, those without one first. The
    /// cost is that of what is left out. The default body does not know any.
    async fn filtered_out(
        &self,
        _filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        Ok(Vec::new())
    }

    /// The store's time, in ms since the epoch. The default body takes the system's.
    async fn now_ms(&self) -> Result<u64, ProviderError> {
        Ok(SystemClock::default().now_ms())
    }

    /// The activities that wait for a worker, by tag in the order of their names, those without a tag first.
    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        Err(ProviderError::permanent("waiting_by_tag", "this store does not count its work by tag"))
    }
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
