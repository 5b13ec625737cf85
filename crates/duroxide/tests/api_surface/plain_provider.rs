//! Stores with exactly the methods of the API, and nothing else: they compile, and every default body is made of those.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter, WorkItem,
};
use duroxide::{
    DeleteInstanceResult, DispatcherCapabilityFilter, Event, ExecutionInfo, InstanceFilter, InstanceInfo,
    InstanceTree, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

use crate::notation::any;

pub(crate) fn checked() -> Vec<&'static str> {
    let store: Arc<dyn Provider> = Arc::new(Plain);
    assert!(store.as_management_capability().is_none());
    let _: (&dyn ProviderAdmin, &str, &str) = (&Plain, store.name(), store.version());
    vec![
        "a Provider needs no other methods; name, version and as_management_capability have defaults",
        "as_management_capability() is None by default",
        "a ProviderAdmin needs no other methods",
    ]
}

struct Plain;

type Answer<T> = Result<T, ProviderError>;

#[async_trait]
impl Provider for Plain {
    async fn fetch_orchestration_item(
        &self,
        _lock_timeout: Duration,
        _poll_timeout: Duration,
        _filter: Option<&DispatcherCapabilityFilter>,
    ) -> Answer<Option<(OrchestrationItem, String, u32)>> {
        any()
    }

    async fn ack_orchestration_item(
        &self,
        _lock_token: &str,
        _execution_id: u64,
        _history_delta: Vec<Event>,
        _worker_items: Vec<WorkItem>,
        _orchestrator_items: Vec<WorkItem>,
        _metadata: ExecutionMetadata,
        _cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Answer<()> {
        any()
    }

    async fn abandon_orchestration_item(
        &self,
        _lock_token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Answer<()> {
        any()
    }

    async fn renew_orchestration_item_lock(&self, _lock_token: &str, _extend_for: Duration) -> Answer<()> {
        any()
    }

    async fn fetch_work_item(
        &self,
        _lock_timeout: Duration,
        _poll_timeout: Duration,
        _session: Option<&SessionFetchConfig>,
        _tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        any()
    }

    async fn ack_work_item(&self, _lock_token: &str, _completion: Option<WorkItem>) -> Answer<()> {
        any()
    }

    async fn abandon_work_item(
        &self,
        _lock_token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Answer<()> {
        any()
    }

    async fn renew_work_item_lock(&self, _lock_token: &str, _extend_for: Duration) -> Answer<()> {
        any()
    }

    async fn renew_session_lock(
        &self,
        _owners: &[&str],
        _extend_for: Duration,
        _idle_timeout: Duration,
    ) -> Answer<usize> {
        any()
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        any()
    }

    async fn enqueue_for_orchestrator(&self, _item: WorkItem, _delay: Option<Duration>) -> Answer<()> {
        any()
    }

    async fn enqueue_for_worker(&self, _item: WorkItem) -> Answer<()> {
        any()
    }

    async fn read(&self, _instance: &str) -> Answer<Vec<Event>> {
        any()
    }

    async fn read_with_execution(&self, _instance: &str, _execution_id: u64) -> Answer<Vec<Event>> {
        any()
    }

    async fn append_with_execution(
        &self,
        _instance: &str,
        _execution_id: u64,
        _new_events: Vec<Event>,
    ) -> Answer<()> {
        any()
    }

    async fn get_custom_status(
        &self,
        _instance: &str,
        _last_seen: u64,
    ) -> Answer<Option<(Option<String>, u64)>> {
        any()
    }

    async fn get_kv_value(&self, _instance: &str, _key: &str) -> Answer<Option<String>> {
        any()
    }

    async fn get_kv_all_values(&self, _instance: &str) -> Answer<HashMap<String, String>> {
        any()
    }

    async fn get_instance_stats(&self, _instance: &str) -> Answer<Option<SystemStats>> {
        any()
    }
}

#[async_trait]
impl ProviderAdmin for Plain {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        any()
    }

    async fn list_instances_by_status(&self, _status: &str) -> Answer<Vec<String>> {
        any()
    }

    async fn list_executions(&self, _instance: &str) -> Answer<Vec<u64>> {
        any()
    }

    async fn read_history_with_execution_id(
        &self,
        _instance: &str,
        _execution_id: u64,
    ) -> Answer<Vec<Event>> {
        any()
    }

    async fn read_history(&self, _instance: &str) -> Answer<Vec<Event>> {
        any()
    }

    async fn latest_execution_id(&self, _instance: &str) -> Answer<u64> {
        any()
    }

    async fn get_instance_info(&self, _instance: &str) -> Answer<InstanceInfo> {
        any()
    }

    async fn get_execution_info(&self, _instance: &str, _execution_id: u64) -> Answer<ExecutionInfo> {
        any()
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        any()
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        any()
    }

    async fn list_children(&self, _instance: &str) -> Answer<Vec<String>> {
        any()
    }

    async fn get_parent_id(&self, _instance: &str) -> Answer<Option<String>> {
        any()
    }

    async fn delete_instances_atomic(
        &self,
        _instances: &[String],
        _force: bool,
    ) -> Answer<DeleteInstanceResult> {
        any()
    }

    async fn get_instance_tree(&self, _instance: &str) -> Answer<InstanceTree> {
        any()
    }

    async fn delete_instance(&self, _instance: &str, _force: bool) -> Answer<DeleteInstanceResult> {
        any()
    }

    async fn delete_instance_bulk(&self, _filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        any()
    }

    async fn prune_executions(&self, _instance: &str, _options: PruneOptions) -> Answer<PruneResult> {
        any()
    }

    async fn prune_executions_bulk(
        &self,
        _filter: InstanceFilter,
        _options: PruneOptions,
    ) -> Answer<PruneResult> {
        any()
    }
}
