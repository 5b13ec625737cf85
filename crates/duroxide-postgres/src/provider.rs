//! The provider's trait, forwarded: each method packs its arguments and hands them to one operation.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    DispatcherCapabilityFilter, Event, ExecutionMetadata, NodeInfo, NodeRecord, OrchestrationStatus,
    ScheduledActivityIdentifier, UnprocessableWork, WorkItem,
};
use duroxide_provider::rules::{
    Call, EncodedEvents, EncodedItem, EncodedRedrive, Token, TurnCommit, Wish, check_completion,
    check_message, check_work,
};
use duroxide_provider::support::{one_turn, one_work};
use duroxide_provider::{
    Enqueued, FetchedTurn, FetchedWork, GiveBack, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    RedriveInstance, SessionFetchConfig, SweepRequest, SystemStats, TagFilter, TurnRequest, WaitUntil,
    WorkRequest,
};

use crate::admin::history;
use crate::admin::status;
use crate::fetch::sessions;
use crate::rows::needs;
use crate::rows::work;
use crate::store::{PostgresProvider, transaction};
use crate::upkeep::nodes;
use crate::upkeep::sweep;

/// Reads on a connection of the pool.
macro_rules! read {
    ($store:expr, $operation:literal, $conn:ident => $read:expr) => {{
        let $conn = $store.conn($operation).await?;
        $read.await.map_err(|fault| fault.into_error($operation))
    }};
}

/// The lock that a token names.
fn parse(operation: &str, token: &str) -> Result<Token, ProviderError> {
    Token::parse(token).map_err(|fault| fault.into_error(operation))
}

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "postgres"
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
        const OPERATION: &str = "ack_orchestration_item";
        let commit = TurnCommit::new(
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        let token = parse(OPERATION, lock_token)?;
        let work = match commit {
            Ok(commit) => Call::AckTurn { token, commit: Box::new(commit) },
            // Without the lock nothing else about the call matters.
            Err(fault) => Call::RefuseTurn { token, reason: fault.into_error(OPERATION).message },
        };
        self.carry(OPERATION, work).await
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
        const OPERATION: &str = "renew_orchestration_item_lock";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::RenewTurn { token, extend_for }).await
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
        const OPERATION: &str = "ack_work_item";
        let token = parse(OPERATION, lock_token)?;
        let completion = match completion {
            Some(item) => check_completion(&item).and_then(|()| EncodedItem::new(item)).map(Some),
            None => Ok(None),
        };
        let work = match completion {
            Ok(completion) => Call::AckWork { token, completion },
            Err(fault) => Call::RefuseWork { token, reason: fault.into_error(OPERATION).message },
        };
        self.carry(OPERATION, work).await
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
        const OPERATION: &str = "renew_work_item_lock";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::RenewWork { token, extend_for }).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let manual = self.manual();
        let renewed: Result<usize, ProviderError> = transaction!(
            self,
            "renew_session_lock",
            conn => sessions::renew(&conn, manual, owners, extend_for, idle_timeout)
        );
        // A claim may have been given up.
        self.inbox.wake(false, true);
        renewed
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        // How long a session may idle was decided when its claim was last renewed.
        let manual = self.manual();
        transaction!(self, "cleanup_orphaned_sessions", conn => sessions::cleanup(&conn, manual))
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let _room = self.sending.enter(&item).await;
        let checked = check_message(&item).and_then(|()| EncodedItem::new(item));
        let item = checked.map_err(|fault| fault.into_error(OPERATION))?;
        self.carry(OPERATION, Call::Enqueue { item, delay, answer: Wish::NotTold }).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_worker";
        let checked = check_work(&item).and_then(|()| EncodedItem::new(item));
        let item = checked.map_err(|fault| fault.into_error(OPERATION))?;
        self.carry(OPERATION, Call::EnqueueWork { item }).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.history("read", instance, None, None).await
    }

    async fn last_events(&self, instance: &str, count: u32) -> Result<Vec<Event>, ProviderError> {
        self.history("last_events", instance, None, Some(count)).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history("read_with_execution", instance, Some(execution_id), None).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        let delta = EncodedEvents::new(new_events).map_err(|fault| fault.into_error(OPERATION))?;
        let append = Call::Append { instance: instance.to_string(), execution_id, delta };
        self.carry_alone(OPERATION, append).await.map(drop)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        read!(self, "get_custom_status", conn => status::custom_status(&conn, instance, last_seen_version))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        read!(self, "get_kv_value", conn => status::kv_value(&conn, instance, key))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        read!(self, "get_kv_all_values", conn => status::kv_all_values(&conn, instance))
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        read!(self, "get_instance_stats", conn => status::stats(&conn, instance))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        self.take_turns(request).await
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        self.take_work(request).await
    }

    fn keeps_causes(&self) -> bool {
        true
    }

    async fn give_back_turn(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        const OPERATION: &str = "give_back_turn";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::GiveBackTurn { token, give_back }).await
    }

    async fn give_back_work(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        const OPERATION: &str = "give_back_work";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::GiveBackWork { token, give_back }).await
    }

    fn tells_outcomes(&self) -> bool {
        true
    }

    async fn enqueue_checked(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let _room = self.sending.enter(&item).await;
        let checked = check_message(&item).and_then(|()| EncodedItem::new(item));
        let item = checked.map_err(|fault| fault.into_error(OPERATION))?;
        let work = Call::Enqueue { item, delay, answer: Wish::Told };
        let answer = self.carry_told(OPERATION, work).await?;
        answer.enqueued().map_err(|fault| fault.into_error(OPERATION))
    }

    fn separates_suspects(&self) -> bool {
        true
    }

    fn limits_sessions(&self) -> bool {
        true
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        const OPERATION: &str = "record_progress";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::Progress { token, details: details.to_string() }).await
    }

    async fn forgive_attempt(&self, lock_token: &str) -> Result<(), ProviderError> {
        const OPERATION: &str = "forgive_attempt";
        let token = parse(OPERATION, lock_token)?;
        self.carry(OPERATION, Call::ForgiveAttempt { token }).await
    }

    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        _lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        read!(self, "lost_work_items", conn => work::lost(&conn, self.manual(), lock_tokens))
    }

    fn routes_by_handler(&self) -> bool {
        true
    }

    fn keeps_nodes(&self) -> bool {
        true
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<(), ProviderError> {
        read!(self, "heartbeat_node", conn => nodes::heartbeat(&conn, self.manual(), node))
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        read!(self, "node_left", conn => nodes::left(&conn, self.manual(), node_id))
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        read!(self, "list_nodes", conn => async {
            let now = crate::admin::instances::now_ms(&conn, self.manual()).await?;
            nodes::list(&conn, now).await
        })
    }

    fn sweeps(&self) -> bool {
        true
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        let manual = self.manual();
        transaction!(self, "find_unprocessable_work", conn => sweep::find(&conn, manual))
    }

    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        self.sweep_turns(request).await
    }

    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        self.sweep_work(request).await
    }

    fn redrives(&self) -> bool {
        true
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        read!(self, "kept_messages", conn => needs::kept_messages(&conn, instance))
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        const OPERATION: &str = "redrive";
        RedriveInstance::check_named_once(&instances)?;
        let all: Result<Vec<EncodedRedrive>, _> = instances.into_iter().map(EncodedRedrive::new).collect();
        let all = all.map_err(|fault| fault.into_error(OPERATION))?;
        self.carry_alone(OPERATION, Call::Redrive(all)).await.map(drop)
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        read!(self, "orchestration_status", conn => status::orchestration_status(&conn, instance))
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

impl PostgresProvider {
    /// The history of an execution, of the latest without an id; empty for an unknown one.
    pub(crate) async fn history(
        &self,
        operation: &'static str,
        instance: &str,
        execution_id: Option<u64>,
        last: Option<u32>,
    ) -> Result<Vec<Event>, ProviderError> {
        let conn = self.conn(operation).await?;
        let read = history::read(&conn, instance, execution_id, last).await;
        read.map_err(|fault| fault.into_error(operation))
    }
}
