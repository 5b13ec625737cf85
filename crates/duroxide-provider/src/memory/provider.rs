//! The trait, method by method; each hands over to one transaction of the state.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    DispatcherCapabilityFilter, Event, ExecutionMetadata, NodeInfo, NodeRecord, OrchestrationStatus,
    ScheduledActivityIdentifier, UnprocessableWork, WorkItem,
};

use super::MemoryProvider;
use super::ack::TurnCommit;
use crate::fetch::{one_turn, one_work};
use crate::{
    Enqueued, FetchedTurn, FetchedWork, GiveBack, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    RedriveInstance, SessionFetchConfig, SweepRequest, SystemStats, TagFilter, TurnRequest, WaitUntil,
    WorkRequest,
};

#[async_trait]
impl Provider for MemoryProvider {
    fn name(&self) -> &str {
        "memory"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let turns = self.fetch_turns(one_turn(lock_timeout, poll_timeout, filter)).await?;
        Ok(turns.into_iter().next().map(|turn| (turn.item, turn.lock_token, turn.attempts)))
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
        let commit = TurnCommit {
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        };
        self.with_state(|state, now| state.ack_turn(now, lock_token, commit))
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back_turn(lock_token, GiveBack { delay, ignore_attempt, cause: None }).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.renew_turn(now, lock_token, extend_for))
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let work = self.fetch_work(one_work(lock_timeout, poll_timeout, session, tag_filter)).await?;
        Ok(work.into_iter().next().map(|work| (work.item, work.lock_token, work.attempts)))
    }

    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.ack_work(now, lock_token, completion))
    }

    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back_work(lock_token, GiveBack { delay, ignore_attempt, cause: None }).await
    }

    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.renew_work(now, lock_token, extend_for))
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        Ok(self.with_state(|state, now| state.renew_sessions(now, owners, extend_for, idle_timeout)))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        Ok(self.with_state(|state, now| state.cleanup_sessions(now)))
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let enqueued = self.with_state(|state, now| state.enqueue_for_orchestrator(now, item, delay));
        enqueued.map(drop)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.enqueue_for_worker(now, item))
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.with_state(|state, _| state.read("read", instance, None))
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.with_state(|state, _| state.read("read_with_execution", instance, Some(execution_id)))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.append(now, instance, execution_id, new_events))
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        Ok(self.with_state(|state, _| state.custom_status(instance, last_seen_version)))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        Ok(self.with_state(|state, _| state.kv_value(instance, key)))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        Ok(self.with_state(|state, _| state.kv_values(instance)))
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        Ok(self.with_state(|state, _| state.stats(instance)))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        let turns = self
            .fetch(&self.waiters.turns, request.poll_timeout, |state, now| state.fetch_turns(now, &request));
        Ok(turns.await)
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        let work = self
            .fetch(&self.waiters.work, request.poll_timeout, |state, now| state.fetch_work(now, &request));
        Ok(work.await)
    }

    fn keeps_causes(&self) -> bool {
        true
    }

    async fn give_back_turn(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.give_back_turn(now, lock_token, give_back))
    }

    async fn give_back_work(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.give_back_work(now, lock_token, give_back))
    }

    fn tells_outcomes(&self) -> bool {
        true
    }

    async fn enqueue_checked(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        self.with_state(|state, now| state.enqueue_for_orchestrator(now, item, delay))
    }

    fn separates_suspects(&self) -> bool {
        true
    }

    fn limits_sessions(&self) -> bool {
        true
    }

    fn routes_by_handler(&self) -> bool {
        true
    }

    fn keeps_nodes(&self) -> bool {
        true
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.heartbeat_node(now, node))
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.node_left(now, node_id))
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        Ok(self.with_state(|state, now| state.list_nodes(now)))
    }

    fn sweeps(&self) -> bool {
        true
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        Ok(self.with_state(|state, now| state.find_unprocessable(now)))
    }

    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        Ok(self.with_state(|state, now| state.fetch_unprocessable_turns(now, request)))
    }

    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        Ok(self.with_state(|state, now| state.fetch_unprocessable_work(now, request)))
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.record_progress(now, lock_token, details.to_string()))
    }

    async fn forgive_attempt(&self, lock_token: &str) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.forgive_attempt(now, lock_token))
    }

    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        _lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        Ok(self.with_state(|state, now| state.lost_work(now, lock_tokens)))
    }

    fn redrives(&self) -> bool {
        true
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        self.with_state(|state, _| state.kept_messages(instance))
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        self.with_state(|state, now| state.redrive(now, instances))
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        Ok(self.with_state(|state, _| state.status(instance)))
    }

    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        self.wait(instance, until, timeout).await
    }
}
