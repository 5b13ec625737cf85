//! The management side, method by method, over the same faults.

use async_trait::async_trait;
use duroxide_core::health::QueuedFor;

use super::{FaultProvider, Method};
use crate::providers::{
    Bounces, DeleteInstanceResult, ExecutionInfo, FilteredOut, HealthFacts, InstanceFilter, InstanceInfo,
    InstancePage, InstanceQuery, InstanceTree, OldestReady, ProviderAdmin, ProviderError, PruneOptions,
    PruneResult, QueueDepths, RepairInstance, SystemMetrics, WaitingByTag,
};
use crate::{DispatcherCapabilityFilter, Event};

impl FaultProvider {
    /// The other store's management side. It is asked only if there is one.
    fn admin(&self) -> Result<&dyn ProviderAdmin, ProviderError> {
        let none = || ProviderError::permanent(Method::Admin.name(), "the store has no management side");
        self.inner.as_management_capability().ok_or_else(none)
    }
}

#[async_trait]
impl ProviderAdmin for FaultProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_instances()).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_instances_by_status(status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_executions(instance)).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.read_history_with_execution_id(instance, execution_id)).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.read_history(instance)).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.latest_execution_id(instance)).await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_instance_info(instance)).await
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_execution_info(instance, execution_id)).await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_system_metrics()).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_queue_depths()).await
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_children(instance)).await
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_parent_id(instance)).await
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.delete_instances_atomic(instances, force)).await
    }

    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.get_instance_tree(instance)).await
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.delete_instance(instance, force)).await
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.delete_instance_bulk(filter)).await
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.prune_executions(instance, options)).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.prune_executions_bulk(filter, options)).await
    }

    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_instances_page(query)).await
    }

    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.list_instances_to_prune(keep_last, limit)).await
    }

    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.oldest_ready()).await
    }

    async fn now_ms(&self) -> Result<u64, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.now_ms()).await
    }

    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.waiting_by_tag()).await
    }

    async fn filtered_out(
        &self,
        filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.filtered_out(filter)).await
    }

    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.queued_for(instance)).await
    }

    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.bounces(instance)).await
    }

    async fn health_facts(&self, overdue_ms: u64) -> Result<Option<HealthFacts>, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.health_facts(overdue_ms)).await
    }

    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        let admin = self.admin()?;
        self.call(Method::Admin, admin.repair(request)).await
    }
}

#[cfg(test)]
mod tests {
    /// The methods that a source text declares or has.
    fn methods(source: &str) -> Vec<&str> {
        let declared = source.lines().map(str::trim_start).filter_map(|line| {
            line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?.split('(').next()
        });
        declared.collect()
    }

    fn check(declared: &str, trait_begin: &str, forwarded: &str) {
        let inside = declared.split_once(trait_begin).expect("the trait is there").1;
        let inside = inside.split_once("\n}\n").expect("the trait ends").0;
        let forwarded = methods(forwarded);
        for method in methods(inside) {
            assert!(
                forwarded.contains(&method),
                "{method} would get its default body instead of the store's"
            );
        }
    }

    #[test]
    fn no_method_of_the_store_is_hidden_by_a_default_body() {
        let provider = include_str!("../../../duroxide-provider/src/provider.rs");
        check(provider, "pub trait Provider:", include_str!("forward.rs"));
        let admin = include_str!("../../../duroxide-provider/src/admin.rs");
        check(admin, "pub trait ProviderAdmin:", include_str!("forward_admin.rs"));
    }
}
