//! Reading and deleting instances.

use duroxide_core::{Event, NodeRecord, UnprocessableWork, status};

use super::{Client, ClientError};
use crate::providers::{
    Bounces, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstancePage, InstanceQuery,
    InstanceTree, ProviderAdmin, ProviderError, ProviderErrorKind, PruneOptions, PruneResult, QueueDepths,
    SystemMetrics, WaitingByTag,
};

impl Client {
    pub(super) fn admin(&self) -> Result<&dyn ProviderAdmin, ClientError> {
        self.provider.as_management_capability().ok_or(ClientError::ManagementNotAvailable)
    }

    /// Whether the store has management calls.
    pub fn has_management_capability(&self) -> bool {
        self.provider.as_management_capability().is_some()
    }

    /// All instances, latest first.
    pub async fn list_all_instances(&self) -> Result<Vec<String>, ClientError> {
        Ok(self.admin()?.list_instances().await?)
    }

    /// All instances with a status (`Running`, `Completed` or `Failed`), latest first.
    pub async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ClientError> {
        check_status(status)?;
        Ok(self.admin()?.list_instances_by_status(status).await?)
    }

    /// One page of the instances that match, latest first, with the cursor that leads to the next page.
    ///
    /// The cost of a page depends neither on how many instances there are nor on how many pages came before.
    pub async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ClientError> {
        if let Some(status) = &query.status {
            check_status(status)?;
        }
        if query.limit == Some(0) {
            return Err(ClientError::invalid("limit is 0: ask for at least one instance a page".to_string()));
        }
        self.admin()?.list_instances_page(query).await.map_err(ClientError::of_call)
    }

    /// One instance.
    pub async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ClientError> {
        self.admin()?.get_instance_info(instance).await.map_err(|error| named(error, instance))
    }

    /// One execution.
    pub async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ClientError> {
        Ok(self.admin()?.get_execution_info(instance, execution_id).await?)
    }

    /// The executions of an instance, first to last.
    pub async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ClientError> {
        self.admin()?.list_executions(instance).await.map_err(|error| named(error, instance))
    }

    /// The history of one execution.
    pub async fn read_execution_history(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ClientError> {
        Ok(self.admin()?.read_history_with_execution_id(instance, execution_id).await?)
    }

    /// Counts over the whole store.
    pub async fn get_system_metrics(&self) -> Result<SystemMetrics, ClientError> {
        Ok(self.admin()?.get_system_metrics().await?)
    }

    /// How much waits in the queues.
    pub async fn get_queue_depths(&self) -> Result<QueueDepths, ClientError> {
        Ok(self.admin()?.get_queue_depths().await?)
    }

    /// The activities that wait for a worker, by tag. Work that no live worker accepts shows here as a count that
    /// stays and an age that grows.
    pub async fn get_waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ClientError> {
        Ok(self.admin()?.waiting_by_tag().await?)
    }

    /// The nodes that work on the store, also those that left or fell silent within the last day.
    ///
    /// [`NodeRecord::is_live`] tells which are there, by the store's time. A store without rows of nodes gives an
    /// error that says so.
    pub async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ClientError> {
        Ok(self.provider.list_nodes().await?)
    }

    /// What waits and no live node can do, with what is missing; the longest wait first.
    ///
    /// A store that does not know gives an error that says so.
    pub async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ClientError> {
        Ok(self.provider.find_unprocessable_work().await?)
    }

    /// What of a running instance was given back, its next turn or its activities: why, after how many attempts, and
    /// when it is tried again. Nothing once a turn was committed or the instance has ended; a store that keeps no causes
    /// knows of nothing.
    pub async fn get_bounces(&self, instance: &str) -> Result<Bounces, ClientError> {
        Ok(self.admin()?.bounces(instance).await?)
    }

    /// An instance and all that descend from it.
    pub async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ClientError> {
        self.admin()?.get_instance_tree(instance).await.map_err(|error| named(error, instance))
    }

    /// Deletes a root instance with its tree. One that is running is deleted only with `force`. With `force` a child
    /// whose parent does not exist is deleted, too: no call makes such a child, but damage to the store can.
    pub async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ClientError> {
        let admin = self.admin()?;
        let info = self.get_instance_info(instance).await?;
        let instance_id = instance.to_string();
        if let Some(parent) = &info.parent_instance_id {
            let is_orphan = force
                && matches!(self.get_instance_info(parent).await, Err(ClientError::InstanceNotFound { .. }));
            if !is_orphan {
                return Err(ClientError::CannotDeleteSubOrchestration { instance_id });
            }
            let tree = self.get_instance_tree(instance).await?.all_ids;
            return Ok(admin.delete_instances_atomic(&tree, force).await?);
        }
        if info.status == status::RUNNING && !force {
            return Err(ClientError::InstanceStillRunning { instance_id });
        }
        admin.delete_instance(instance, force).await.map_err(|error| named(error, instance))
    }

    /// Deletes finished root instances with their trees, those that ended first to begin with.
    ///
    /// A child is never deleted alone, and a root with a running descendant stays, with its whole tree. An
    /// instance between two executions is running. [`InstanceFilter::limit`] counts roots.
    pub async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ClientError> {
        Ok(self.admin()?.delete_instance_bulk(filter).await?)
    }

    /// Deletes old executions of an instance, running or not; never the current one.
    pub async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ClientError> {
        self.admin()?.prune_executions(instance, options).await.map_err(|error| named(error, instance))
    }

    /// Deletes old executions of many instances, running or not; never a current one.
    pub async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ClientError> {
        Ok(self.admin()?.prune_executions_bulk(filter, options).await?)
    }
}

fn check_status(status: &str) -> Result<(), ClientError> {
    let words = [status::RUNNING, status::COMPLETED, status::FAILED];
    if words.contains(&status) {
        return Ok(());
    }
    Err(ClientError::invalid(format!("status '{status}' is none of {}", words.join(", "))))
}

fn named(error: ProviderError, instance: &str) -> ClientError {
    match error.kind() {
        ProviderErrorKind::NotFound => ClientError::InstanceNotFound { instance_id: instance.to_string() },
        ProviderErrorKind::Unavailable
        | ProviderErrorKind::LockLost
        | ProviderErrorKind::Corrupt
        | ProviderErrorKind::Invalid
        | ProviderErrorKind::Other => ClientError::Provider(error),
    }
}
