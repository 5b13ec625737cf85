//! The trait, method by method: the same call to the real store, over the failing line.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    ExecutionMetadata, FetchedTurn, FetchedWork, NodeInfo, NodeRecord, OrchestrationItem, Provider,
    ProviderAdmin, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter,
    TurnRequest, WaitUntil, WorkItem, WorkRequest,
};
use duroxide::{DispatcherCapabilityFilter, Event, OrchestrationStatus, UnprocessableWork};

use super::FaultyStore;
use crate::faults::Site;
use crate::simulate::Breakage;

#[async_trait]
impl Provider for FaultyStore {
    fn name(&self) -> &str {
        "simulated"
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let store = &self.world.store;
        self.call(Site::FetchTurns, store.fetch_orchestration_item(lock_timeout, poll_timeout, filter)).await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        self.call(Site::AckTurn, async {
            let answer = if self.world.breakage == Breakage::AcksWithoutCommitting {
                Ok(())
            } else {
                let committed = self.world.store.ack_orchestration_item(
                    lock_token,
                    execution_id,
                    self.tampered(history_delta.clone()),
                    worker_items,
                    orchestrator_items,
                    metadata,
                    cancelled_activities,
                );
                committed.await
            };
            self.acked_turn(execution_id, &history_delta, &answer);
            answer
        })
        .await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let store = &self.world.store;
        self.call(Site::AbandonTurn, store.abandon_orchestration_item(lock_token, delay, ignore_attempt))
            .await
    }

    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let store = &self.world.store;
        self.call(Site::RenewTurn, store.renew_orchestration_item_lock(lock_token, extend_for)).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let store = &self.world.store;
        let fetch = store.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter);
        self.call(Site::FetchWork, fetch).await
    }

    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        self.call(Site::AckWork, async {
            self.forge(completion.as_ref()).await;
            let answer = self.world.store.ack_work_item(lock_token, completion.clone()).await;
            self.acked_work(completion.as_ref(), &answer);
            answer
        })
        .await
    }

    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let store = &self.world.store;
        self.call(Site::AbandonWork, store.abandon_work_item(lock_token, delay, ignore_attempt)).await
    }

    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.call(Site::RenewWork, self.world.store.renew_work_item_lock(lock_token, extend_for)).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let store = &self.world.store;
        self.call(Site::Sessions, store.renew_session_lock(owners, extend_for, idle_timeout)).await
    }

    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Result<usize, ProviderError> {
        self.call(Site::Sessions, self.world.store.cleanup_orphaned_sessions(idle_timeout)).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.call(Site::Enqueue, self.enqueue(item, delay)).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.call(Site::Enqueue, self.world.store.enqueue_for_worker(item)).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.call(Site::Read, self.world.store.read(instance)).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.call(Site::Read, self.world.store.read_with_execution(instance, execution_id)).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let store = &self.world.store;
        self.call(Site::Admin, store.append_with_execution(instance, execution_id, new_events)).await
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.call(Site::Status, self.world.store.get_custom_status(instance, last_seen_version)).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.call(Site::Status, self.world.store.get_kv_value(instance, key)).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.call(Site::Status, self.world.store.get_kv_all_values(instance)).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.call(Site::Status, self.world.store.get_instance_stats(instance)).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        self.call(Site::FetchTurns, async {
            let turns = self.world.store.fetch_turns(request).await?;
            self.fetched_turns(&turns);
            Ok(turns)
        })
        .await
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        self.call(Site::FetchWork, async {
            let work = self.world.store.fetch_work(request).await?;
            self.fetched_work(&work);
            Ok(work)
        })
        .await
    }

    fn separates_suspects(&self) -> bool {
        self.world.store.separates_suspects()
    }

    fn routes_by_handler(&self) -> bool {
        self.world.store.routes_by_handler()
    }

    fn keeps_nodes(&self) -> bool {
        self.world.store.keeps_nodes()
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<(), ProviderError> {
        self.call(Site::Node, self.world.store.heartbeat_node(node)).await
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        self.call(Site::Node, self.world.store.node_left(node_id)).await
    }

    fn sweeps(&self) -> bool {
        self.world.store.sweeps()
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        self.call(Site::Node, self.world.store.find_unprocessable_work()).await
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        self.call(Site::Node, self.world.store.list_nodes()).await
    }

    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        self.call(Site::RenewWork, self.world.store.record_progress(lock_token, details)).await
    }

    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        self.call(Site::LostWork, self.world.store.lost_work_items(lock_tokens, lock_timeout)).await
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        self.call(Site::Status, self.world.store.orchestration_status(instance)).await
    }

    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        self.call(Site::Status, self.world.store.wait_for_instance(instance, until, timeout)).await
    }
}
