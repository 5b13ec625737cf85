//! The management side, method by method, over the same failing line.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

use super::FaultyStore;
use crate::faults::Site;

#[async_trait]
impl ProviderAdmin for FaultyStore {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.call(Site::Admin, self.world.store.list_instances()).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.call(Site::Admin, self.world.store.list_instances_by_status(status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        self.call(Site::Admin, self.world.store.list_executions(instance)).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let store = &self.world.store;
        self.call(Site::Admin, store.read_history_with_execution_id(instance, execution_id)).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.call(Site::Admin, self.world.store.read_history(instance)).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        self.call(Site::Admin, self.world.store.latest_execution_id(instance)).await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        self.call(Site::Admin, self.world.store.get_instance_info(instance)).await
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        self.call(Site::Admin, self.world.store.get_execution_info(instance, execution_id)).await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        self.call(Site::Admin, self.world.store.get_system_metrics()).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        self.call(Site::Admin, self.world.store.get_queue_depths()).await
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        self.call(Site::Admin, self.world.store.list_children(instance)).await
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        self.call(Site::Admin, self.world.store.get_parent_id(instance)).await
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.call(Site::Admin, self.world.store.delete_instances_atomic(instances, force)).await
    }

    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        self.call(Site::Admin, self.world.store.get_instance_tree(instance)).await
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.call(Site::Admin, self.world.store.delete_instance(instance, force)).await
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.call(Site::Admin, self.world.store.delete_instance_bulk(filter)).await
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.call(Site::Admin, self.world.store.prune_executions(instance, options)).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.call(Site::Admin, self.world.store.prune_executions_bulk(filter, options)).await
    }
}
