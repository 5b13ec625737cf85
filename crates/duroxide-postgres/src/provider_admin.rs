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

use crate::admin::bounces;
use crate::admin::delete;
use crate::admin::filtered_out;
use crate::admin::instances as admin;
use crate::admin::listing;
use crate::admin::prune;
use crate::rows::work;
use crate::store::{PostgresProvider, transaction};
use crate::upkeep::health;
use crate::values::to_column;

/// Reads on a connection of the pool.
macro_rules! read {
    ($store:expr, $operation:literal, $conn:ident => $read:expr) => {{
        let $conn = $store.conn($operation).await?;
        $read.await.map_err(|fault| fault.into_error($operation))
    }};
}

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        read!(self, "list_instances", conn => admin::list_instances(&conn))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        read!(self, "list_instances_by_status", conn => admin::list_by_status(&conn, status))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        read!(self, "list_executions", conn => admin::list_executions(&conn, instance))
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
        read!(self, "latest_execution_id", conn => admin::latest_execution_id(&conn, instance))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        read!(self, "get_instance_info", conn => admin::instance_info(&conn, instance))
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        read!(self, "get_execution_info", conn => admin::execution_info(&conn, instance, execution_id))
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        read!(self, "get_system_metrics", conn => admin::system_metrics(&conn))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        read!(self, "get_queue_depths", conn => admin::queue_depths(&conn))
    }

    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        read!(self, "waiting_by_tag", conn => work::waiting_by_tag(&conn, self.manual()))
    }

    async fn filtered_out(
        &self,
        filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        read!(self, "filtered_out", conn => filtered_out::filtered_out(&conn, self.manual(), filter))
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        read!(self, "list_children", conn => admin::list_children(&conn, instance))
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        read!(self, "get_parent_id", conn => admin::parent_id(&conn, instance))
    }

    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        read!(self, "get_instance_tree", conn => admin::instance_tree(&conn, instance))
    }

    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        read!(self, "list_instances_to_prune", conn => prune::to_prune(&conn, keep_last, limit))
    }

    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        read!(self, "oldest_ready", conn => admin::oldest_ready(&conn))
    }

    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        read!(self, "queued_for", conn => health::queued_for(&conn, self.manual(), instance))
    }

    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        read!(self, "bounces", conn => bounces::of_instance(&conn, self.manual(), instance))
    }

    async fn health_facts(&self, overdue_ms: u64) -> Result<Option<HealthFacts>, ProviderError> {
        let overdue = to_column(overdue_ms);
        read!(self, "health_facts", conn => health::health_facts(&conn, self.manual(), overdue)).map(Some)
    }

    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        const OPERATION: &str = "repair";
        let request = EncodedRepair::new(request).map_err(|fault| fault.into_error(OPERATION))?;
        let answer = self.carry_alone(OPERATION, Call::Repair(Box::new(request))).await?;
        Ok(answer.put_back())
    }

    async fn now_ms(&self) -> Result<u64, ProviderError> {
        read!(self, "now_ms", conn => admin::now_ms(&conn, self.manual()))
    }

    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let walk = listing::Walk::new(query)?;
        read!(self, "list_instances_page", conn => walk.page(&conn))
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.deleted(transaction!(self, "delete_instances_atomic", conn => delete::delete_atomic(&conn, instances, force)))
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.deleted(
            transaction!(self, "delete_instance", conn => delete::delete_tree(&conn, instance, force)),
        )
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.deleted(transaction!(self, "delete_instance_bulk", conn => delete::delete_bulk(&conn, &filter)))
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        transaction!(self, "prune_executions", conn => prune::prune(&conn, instance, &options))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        transaction!(self, "prune_executions_bulk", conn => prune::prune_bulk(&conn, &filter, &options))
    }
}

impl PostgresProvider {
    /// Those who wait for an instance, or for an item of its sessions, must look again.
    fn deleted(
        &self,
        outcome: Result<DeleteInstanceResult, ProviderError>,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        if outcome.is_ok() {
            self.waiters.wake_all();
            self.inbox.wake(true, true);
        }
        outcome
    }
}
