//! The trait: each call that changes something becomes a call of the rules.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    DispatcherCapabilityFilter, Event, ExecutionMetadata, NodeInfo, NodeRecord, OrchestrationStatus,
    ScheduledActivityIdentifier, UnprocessableWork, WorkItem,
};

use super::store::RowStore;
use crate::fetch::{one_turn, one_work};
use crate::rules::{
    Answer, Call, EncodedEvents, EncodedItem, EncodedRedrive, Fault, Token, TurnCommit, Wish,
    check_completion, check_message, check_work,
};
use crate::{
    Enqueued, FetchedTurn, FetchedWork, GiveBack, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    RedriveInstance, SessionFetchConfig, SweepRequest, SystemStats, TagFilter, TurnRequest, WaitUntil,
    WorkRequest,
};

#[async_trait]
impl Provider for RowStore {
    fn name(&self) -> &str {
        "rows in memory"
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
        let commit = TurnCommit::new(
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        let call = Token::parse(lock_token).and_then(|token| match commit {
            Ok(commit) => Ok(Call::AckTurn { token, commit: Box::new(commit) }),
            // A lost lock is told first.
            Err(Fault::Invalid(reason)) => Ok(Call::RefuseTurn { token, reason }),
            Err(fault) => Err(fault),
        });
        self.call("ack_orchestration_item", call).map(drop)
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
        let call = |token| Call::RenewTurn { token, extend_for };
        self.held("renew_orchestration_item_lock", lock_token, call)
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
        let checked = completion.as_ref().map_or(Ok(()), check_completion);
        let completion = checked.and_then(|()| completion.map(EncodedItem::new).transpose());
        let call = Token::parse(lock_token).and_then(|token| match completion {
            Ok(completion) => Ok(Call::AckWork { token, completion }),
            Err(Fault::Invalid(reason)) => Ok(Call::RefuseWork { token, reason }),
            Err(fault) => Err(fault),
        });
        self.call("ack_work_item", call).map(drop)
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
        self.held("renew_work_item_lock", lock_token, |token| Call::RenewWork { token, extend_for })
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let renewed =
            self.transact(|tables, now| tables.renew_sessions(now, owners, extend_for, idle_timeout));
        // With no time at all this gives sessions up.
        self.queues().work.notify_waiters();
        Ok(renewed)
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        Ok(self.transact(|tables, now| tables.cleanup_sessions(now)))
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.enqueue(item, delay, Wish::NotTold).map(drop)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let encoded = check_work(&item).and_then(|()| EncodedItem::new(item));
        self.call("enqueue_for_worker", encoded.map(|item| Call::EnqueueWork { item })).map(drop)
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.look(|tables| tables.read("read", instance, None))
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.look(|tables| tables.read("read_with_execution", instance, Some(execution_id)))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let delta = EncodedEvents::new(new_events);
        let instance = instance.to_string();
        let call = delta.map(|delta| Call::Append { instance, execution_id, delta });
        self.call("append_with_execution", call).map(drop)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        Ok(self.look(|tables| {
            let found = tables.by_id(instance)?;
            let version = found.custom_status_version;
            (version > last_seen_version).then(|| (found.custom_status.clone(), version))
        }))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        Ok(self.look(|tables| Some(tables.by_id(instance)?.kv.get(key)?.value.clone())))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        Ok(self.look(|tables| {
            let kv = tables.by_id(instance).into_iter().flat_map(|found| &found.kv);
            kv.map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
        }))
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        Ok(self.look(|tables| tables.stats(instance)))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        let look = |tables: &mut super::tables::Tables, now| tables.fetch_turns(now, &request);
        Ok(self.fetch(&self.queues().turns, request.poll_timeout, look).await)
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        let look = |tables: &mut super::tables::Tables, now| tables.fetch_work(now, &request);
        Ok(self.fetch(&self.queues().work, request.poll_timeout, look).await)
    }

    fn keeps_causes(&self) -> bool {
        true
    }

    async fn give_back_turn(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.held("give_back_turn", lock_token, |token| Call::GiveBackTurn { token, give_back })
    }

    async fn give_back_work(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.held("give_back_work", lock_token, |token| Call::GiveBackWork { token, give_back })
    }

    fn tells_outcomes(&self) -> bool {
        true
    }

    async fn enqueue_checked(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        match self.enqueue(item, delay, Wish::Told)? {
            Answer::Enqueued(enqueued) => Ok(enqueued),
            Answer::Done | Answer::PutBack(_) => {
                Err(ProviderError::permanent("enqueue_checked", "the rules did not tell the outcome"))
            }
        }
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
        self.transact(|tables, now| tables.heartbeat_node(now, node))
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        self.transact(|tables, now| tables.node_left(now, node_id))
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        Ok(self.transact(|tables, now| tables.list_nodes(now)))
    }

    fn sweeps(&self) -> bool {
        true
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        Ok(self.transact(|tables, now| tables.find_unprocessable(now)))
    }

    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        Ok(self.transact(|tables, now| tables.fetch_unprocessable_turns(now, request)))
    }

    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        Ok(self.transact(|tables, now| tables.fetch_unprocessable_work(now, request)))
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        let details = details.to_string();
        self.held("record_progress", lock_token, |token| Call::Progress { token, details })
    }

    async fn forgive_attempt(&self, lock_token: &str) -> Result<(), ProviderError> {
        self.held("forgive_attempt", lock_token, |token| Call::ForgiveAttempt { token })
    }

    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        _lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        Ok(self.transact(|tables, now| {
            let is_held = |text: &String| {
                let token = Token::parse(text).ok();
                token.is_some_and(|token| {
                    tables.work.get(&token.key).is_some_and(|work| work.row.is_held_by(token, now))
                })
            };
            lock_tokens.iter().filter(|text| !is_held(text)).cloned().collect()
        }))
    }

    fn redrives(&self) -> bool {
        true
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        self.look(|tables| tables.kept_messages(instance))
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        RedriveInstance::check_named_once(&instances)?;
        let encoded: Result<Vec<_>, Fault> = instances.into_iter().map(EncodedRedrive::new).collect();
        self.call("redrive", encoded.map(Call::Redrive)).map(drop)
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        Ok(self.look(|tables| tables.status(instance)))
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

impl RowStore {
    fn enqueue(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
        answer: Wish,
    ) -> Result<Answer, ProviderError> {
        let encoded = check_message(&item).and_then(|()| EncodedItem::new(item));
        self.call("enqueue_for_orchestrator", encoded.map(|item| Call::Enqueue { item, delay, answer }))
    }
}
