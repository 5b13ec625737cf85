//! The provider's trait, forwarded: each method packs its arguments and hands them to one operation.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    DispatcherCapabilityFilter, Event, ExecutionMetadata, NodeInfo, NodeRecord, OrchestrationStatus,
    ScheduledActivityIdentifier, UnprocessableWork, WorkItem,
};
use duroxide_provider::rules::{
    Call, EncodedEvents, EncodedItem, EncodedRedrive, Fault, Token, TurnCommit, Wish, check_completion,
    check_message, check_work,
};
use duroxide_provider::support::is_reached;
use duroxide_provider::support::{one_turn, one_work};
use duroxide_provider::{
    Enqueued, FetchedTurn, FetchedWork, GiveBack, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ProviderErrorKind, RedriveInstance, SessionFetchConfig, SweepRequest, SystemStats, TagFilter,
    TurnRequest, WaitUntil, WorkRequest,
};

use super::call::Message;
use super::history;
use super::nodes::Heartbeat;
use super::raw_turn::RawTurn;
use super::store::SqliteProvider;
use super::{nodes, redrive, sessions, status, sweep, work};

#[async_trait]
impl Provider for SqliteProvider {
    fn name(&self) -> &str {
        "sqlite"
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
        let token = held(OPERATION, lock_token)?;
        let call = match commit {
            Ok(commit) => Call::AckTurn { token, commit: Box::new(commit) },
            // Without the lock nothing else about the call matters.
            Err(fault) => {
                return self.refuse(OPERATION, |reason| Call::RefuseTurn { token, reason }, fault).await;
            }
        };
        self.apply(OPERATION, call).await.map(drop)
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
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::RenewTurn { token, extend_for }).await.map(drop)
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
        let token = held(OPERATION, lock_token)?;
        let checked = completion.as_ref().map_or(Ok(()), check_completion);
        let encoded = checked.and_then(|()| completion.map(EncodedItem::new).transpose());
        let call = match encoded {
            Ok(completion) => Call::AckWork { token, completion },
            Err(fault) => {
                return self.refuse(OPERATION, |reason| Call::RefuseWork { token, reason }, fault).await;
            }
        };
        self.apply(OPERATION, call).await.map(drop)
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
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::RenewWork { token, extend_for }).await.map(drop)
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
        self.write("renew_session_lock", 0, move |tx| sessions::renew(tx, &owners, extend_for, idle_timeout))
            .await
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        // How long a session may idle was decided when its claim was last renewed.
        self.write("cleanup_orphaned_sessions", 0, sessions::cleanup).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let _room = self.sending.enter(&item).await;
        let item = message(OPERATION, item)?;
        self.apply(OPERATION, Call::Enqueue { item, delay, answer: Wish::NotTold }).await.map(drop)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_worker";
        let checked = check_work(&item).and_then(|()| EncodedItem::new(item));
        let item = checked.map_err(|fault| fault.into_error(OPERATION))?;
        self.apply(OPERATION, Call::EnqueueWork { item }).await.map(drop)
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
        let instance = instance.to_string();
        self.apply(OPERATION, Call::Append { instance, execution_id, delta }).await.map(drop)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let instance = instance.to_string();
        let read = move |db: &super::db::Db| status::custom_status(db, &instance, last_seen_version);
        self.read_with("get_custom_status", read).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let (instance, key) = (instance.to_string(), key.to_string());
        self.read_with("get_kv_value", move |db| status::kv_value(db, &instance, &key)).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let instance = instance.to_string();
        self.read_with("get_kv_all_values", move |db| status::kv_all_values(db, &instance)).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let instance = instance.to_string();
        let stored = self.read_with("get_instance_stats", move |db| status::stats(db, &instance)).await?;
        Ok(stored.map(status::StoredStats::decoded))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        let poll_timeout = request.poll_timeout;
        let turns = self.fetch(request, poll_timeout, Message::FetchTurns).await?;
        Ok(turns.into_iter().map(RawTurn::decode).collect())
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        let poll_timeout = request.poll_timeout;
        self.fetch(request, poll_timeout, Message::FetchWork).await
    }

    fn keeps_causes(&self) -> bool {
        true
    }

    async fn give_back_turn(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        const OPERATION: &str = "give_back_turn";
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::GiveBackTurn { token, give_back }).await.map(drop)
    }

    async fn give_back_work(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        const OPERATION: &str = "give_back_work";
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::GiveBackWork { token, give_back }).await.map(drop)
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
        let item = message(OPERATION, item)?;
        let answer = self.apply(OPERATION, Call::Enqueue { item, delay, answer: Wish::Told }).await?;
        answer.enqueued().map_err(|fault| fault.into_error(OPERATION))
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
        const OPERATION: &str = "heartbeat_node";
        let heartbeat = Heartbeat::new(node.clone()).map_err(|fault| fault.into_error(OPERATION))?;
        self.write(OPERATION, heartbeat.json.len(), move |tx| heartbeat.write(tx)).await
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        let node_id = node_id.to_string();
        self.write("node_left", 0, move |tx| nodes::left(tx, &node_id)).await
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        let now = self.now();
        self.read_with("list_nodes", move |db| nodes::list(db, now)).await
    }

    fn sweeps(&self) -> bool {
        true
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        let now = self.now();
        self.read_with("find_unprocessable_work", move |db| sweep::find(db, now)).await
    }

    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        let turns =
            self.write("fetch_unprocessable_turns", 0, move |tx| sweep::fetch_turns(tx, request)).await?;
        Ok(turns.into_iter().map(RawTurn::decode).collect())
    }

    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        self.write("fetch_unprocessable_work", 0, move |tx| sweep::fetch_work(tx, request)).await
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        const OPERATION: &str = "record_progress";
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::Progress { token, details: details.to_string() }).await.map(drop)
    }

    async fn forgive_attempt(&self, lock_token: &str) -> Result<(), ProviderError> {
        const OPERATION: &str = "forgive_attempt";
        let token = held(OPERATION, lock_token)?;
        self.apply(OPERATION, Call::ForgiveAttempt { token }).await.map(drop)
    }

    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        _lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        let (now, tokens) = (self.now(), lock_tokens.to_vec());
        self.read_with("lost_work_items", move |db| work::lost(db, now, tokens)).await
    }

    fn redrives(&self) -> bool {
        true
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        let instance = instance.to_string();
        self.read_with("kept_messages", move |db| redrive::kept_messages(db, &instance)).await
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        const OPERATION: &str = "redrive";
        RedriveInstance::check_named_once(&instances)?;
        let all: Result<Vec<EncodedRedrive>, _> = instances.into_iter().map(EncodedRedrive::new).collect();
        let all = all.map_err(|fault| fault.into_error(OPERATION))?;
        self.apply(OPERATION, Call::Redrive(all)).await.map(drop)
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        let instance = instance.to_string();
        self.read_with("orchestration_status", move |db| status::orchestration_status(db, &instance)).await
    }

    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        let registration = self.waiters.register(instance);
        if registration.is_first() {
            self.watch()?;
        }
        let wait = async {
            loop {
                // Before the read, so that no change falls between it and the wait.
                let change = registration.next_change();
                let seen = self.orchestration_status(instance).await?;
                if is_reached(self, instance, until, &seen).await? {
                    return Ok(seen);
                }
                change.await;
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(reached) => reached.map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// The lock that a token names.
fn held(operation: &str, lock_token: &str) -> Result<Token, ProviderError> {
    Token::parse(lock_token).map_err(|fault| fault.into_error(operation))
}

/// A message in its stored form.
fn message(operation: &str, item: WorkItem) -> Result<EncodedItem, ProviderError> {
    let checked = check_message(&item).and_then(|()| EncodedItem::new(item));
    checked.map_err(|fault| fault.into_error(operation))
}

impl SqliteProvider {
    /// Refuses a call that is wrong in itself, unless its lock is lost, which its caller must know first.
    async fn refuse(
        &self,
        operation: &'static str,
        call: impl FnOnce(String) -> Call + Send,
        fault: Fault,
    ) -> Result<(), ProviderError> {
        let error = fault.into_error(operation);
        self.apply(operation, call(error.message.clone())).await.map(drop)
    }

    /// The history of an execution, of the latest without an id; empty for an unknown one.
    pub(super) async fn history(
        &self,
        operation: &'static str,
        instance: &str,
        execution_id: Option<u64>,
        last: Option<u32>,
    ) -> Result<Vec<Event>, ProviderError> {
        let asked = instance.to_string();
        let (execution_id, stored) =
            self.read_with(operation, move |db| history::read(db, &asked, execution_id, last)).await?;
        history::decode(stored).map_err(|error| {
            let message = format!(
                "event {} of execution {execution_id} of '{instance}': {}",
                error.event_id, error.cause
            );
            ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, message)
        })
    }
}
