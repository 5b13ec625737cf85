//! The management trait, forwarded.

use async_trait::async_trait;
use duroxide_core::health::QueuedFor;
use duroxide_core::{DispatcherCapabilityFilter, Event};
use duroxide_provider::rules::{Call, EncodedRepair};
use duroxide_provider::{
    Bounces, DeleteInstanceResult, ExecutionInfo, FilteredOut, HealthFacts, InstanceFilter, InstanceInfo,
    InstancePage, InstanceQuery, InstanceTree, OldestReady, ProviderAdmin, ProviderError, PruneOptions,
    PruneResult, QueueDepths, RepairInstance, SystemMetrics, WaitingByTag,
};

use super::store::SqliteProvider;
use super::values::{from_column, to_column};
use super::{admin, bounces, delete, fetch_turn, health, listing, prune, work};

#[async_trait]
impl ProviderAdmin for SqliteProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.read_with("list_instances", admin::list_instances).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let status = status.to_string();
        self.read_with("list_instances_by_status", move |db| admin::list_by_status(db, &status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let instance = instance.to_string();
        self.read_with("list_executions", move |db| admin::list_executions(db, &instance)).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.get_execution_info(instance, execution_id).await?;
        self.history("read_history_with_execution_id", instance, Some(execution_id), None).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.latest_execution_id(instance).await?;
        self.history("read_history", instance, None, None).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let instance = instance.to_string();
        self.read_with("latest_execution_id", move |db| admin::latest_execution_id(db, &instance)).await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let instance = instance.to_string();
        self.read_with("get_instance_info", move |db| admin::instance_info(db, &instance)).await
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        let instance = instance.to_string();
        self.read_with("get_execution_info", move |db| admin::execution_info(db, &instance, execution_id))
            .await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        self.read_with("get_system_metrics", admin::system_metrics).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        self.read_with("get_queue_depths", admin::queue_depths).await
    }

    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        let now = self.now();
        self.read_with("waiting_by_tag", move |db| work::waiting_by_tag(db, now)).await
    }

    async fn filtered_out(
        &self,
        filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        let (now, filter) = (self.now(), filter.clone());
        self.read_with("filtered_out", move |db| fetch_turn::filtered_out(db, now, &filter)).await
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        let instance = instance.to_string();
        self.read_with("list_children", move |db| admin::list_children(db, &instance)).await
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        let instance = instance.to_string();
        self.read_with("get_parent_id", move |db| admin::parent_id(db, &instance)).await
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let instances = instances.to_vec();
        self.write("delete_instances_atomic", 0, move |tx| delete::delete_atomic(tx, &instances, force)).await
    }

    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        let instance = instance.to_string();
        self.read_with("get_instance_tree", move |db| admin::instance_tree(db, &instance)).await
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let instance = instance.to_string();
        self.write("delete_instance", 0, move |tx| delete::delete_tree(tx, &instance, force)).await
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.write("delete_instance_bulk", 0, move |tx| delete::delete_bulk(tx, &filter)).await
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let instance = instance.to_string();
        self.write("prune_executions", 0, move |tx| prune::prune(tx, &instance, &options)).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.write("prune_executions_bulk", 0, move |tx| prune::prune_bulk(tx, &filter, &options)).await
    }

    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let walk = listing::Walk::new(query)?;
        self.read_with("list_instances_page", move |db| walk.page(db)).await
    }

    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        self.read_with("list_instances_to_prune", move |db| prune::to_prune(db, keep_last, limit)).await
    }

    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        self.read_with("oldest_ready", admin::oldest_ready).await
    }

    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        let (now, instance) = (self.now(), instance.to_string());
        self.read_with("queued_for", move |db| health::queued_for(db, now, &instance)).await
    }

    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        let (now, instance) = (self.now(), instance.to_string());
        self.read_with("bounces", move |db| bounces::of_instance(db, now, &instance)).await
    }

    async fn health_facts(&self, overdue_ms: u64) -> Result<Option<HealthFacts>, ProviderError> {
        let (now, tolerance) = (self.now(), to_column(overdue_ms));
        let (before, ahead) = (now.saturating_sub(tolerance), now.saturating_add(tolerance));
        let facts = self.read_with("health_facts", move |db| health::health_facts(db, before, ahead)).await?;
        Ok(Some(facts))
    }

    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        const OPERATION: &str = "repair";
        let request = EncodedRepair::new(request).map_err(|fault| fault.into_error(OPERATION))?;
        Ok(self.apply(OPERATION, Call::Repair(Box::new(request))).await?.put_back())
    }

    async fn now_ms(&self) -> Result<u64, ProviderError> {
        Ok(from_column(self.now()))
    }
}
