//! The trait, method by method: the same call to the other store, with what goes wrong on the way.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{ItemKind, columns_of};

use super::provider::unless_pretended;
use super::{Fault, FaultProvider, Method, deliver};
use crate::providers::support::enqueue_and_read;
use crate::providers::{
    Enqueued, ExecutionMetadata, FetchedTurn, FetchedWork, GiveBack, NodeInfo, NodeRecord, OrchestrationItem,
    Provider, ProviderAdmin, ProviderError, RedriveInstance, ScheduledActivityIdentifier, SendOutcome,
    SessionFetchConfig, StartOutcome, SweepRequest, SystemStats, TagFilter, TurnRequest, UnprocessableWork,
    WaitUntil, WorkItem, WorkRequest,
};
use crate::{DispatcherCapabilityFilter, Event, OrchestrationStatus};

/// What is left of a lock that expires at once.
const EXPIRED_LOCK: Duration = Duration::from_millis(1);

/// How long a lock may last.
fn lock_timeout(asked: Duration, faults: &[Fault]) -> Duration {
    if faults.contains(&Fault::ExpireLock) { asked.min(EXPIRED_LOCK) } else { asked }
}

/// What a store that does nothing says it did.
fn pretended(item: &WorkItem) -> Enqueued {
    match columns_of(item).kind {
        ItemKind::Start => Enqueued::Start(StartOutcome::Started),
        ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Enqueued::Message(SendOutcome::Delivered),
    }
}

#[async_trait]
impl Provider for FaultProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> &str {
        self.inner.version()
    }

    async fn fetch_orchestration_item(
        &self,
        lock: Duration,
        poll: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let filter = filter.filter(|_| !self.ignore_filter);
        let faults = self.faults(Method::FetchTurns);
        let fetch = async {
            if faults.contains(&Fault::RunDry) {
                return Ok(None);
            }
            let lock = lock_timeout(lock, &faults);
            let Some((item, lock_token, attempts)) =
                self.inner.fetch_orchestration_item(lock, poll, filter).await?
            else {
                return Ok(None);
            };
            let turn = FetchedTurn { item, lock_token, attempts, facts: None };
            self.observer.fetched_turns(std::slice::from_ref(&turn));
            let turn = deliver::changed(turn, &faults);
            Ok(Some((turn.item, turn.lock_token, turn.attempts)))
        };
        self.call_with(Method::FetchTurns, &faults, fetch).await
    }

    async fn ack_orchestration_item(
        &self,
        token: &str,
        execution_id: u64,
        events: Vec<Event>,
        work: Vec<WorkItem>,
        messages: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let faults = self.faults(Method::AckTurn);
        let ack = async {
            if let Some(refusal) = self.refusal(events.first().map(|event| event.instance_id.as_str())) {
                refusal.check("ack_orchestration_item", &events)?;
                refusal.check("ack_orchestration_item", &[work.as_slice(), messages.as_slice()].concat())?;
            }
            let mut changed = events.clone();
            self.observer.acking_turn(&mut changed);
            let mut messages = messages;
            self.observer.sending(&events, &mut messages);
            let ack = self.inner.ack_orchestration_item(
                token,
                execution_id,
                changed,
                work,
                messages,
                metadata,
                cancelled,
            );
            let answer = unless_pretended(&faults, ack).await;
            self.observer.acked_turn(execution_id, &events, &answer);
            answer
        };
        self.call_with(Method::AckTurn, &faults, ack).await
    }

    async fn abandon_orchestration_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back_turn(token, GiveBack { delay, ignore_attempt, cause: None }).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend: Duration,
    ) -> Result<(), ProviderError> {
        let faults = self.faults(Method::RenewTurn);
        let renew = self.inner.renew_orchestration_item_lock(token, lock_timeout(extend, &faults));
        self.call_with(Method::RenewTurn, &faults, unless_pretended(&faults, renew)).await
    }

    async fn fetch_work_item(
        &self,
        lock: Duration,
        poll: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let faults = self.faults(Method::FetchWork);
        let fetch = async {
            if faults.contains(&Fault::RunDry) {
                return Ok(None);
            }
            let lock = lock_timeout(lock, &faults);
            self.inner.fetch_work_item(lock, poll, session, tags).await
        };
        self.call_with(Method::FetchWork, &faults, fetch).await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        let faults = self.faults(Method::AckWork);
        let ack = async {
            if let Some(refusal) = self.refusal(completion.as_ref().map(WorkItem::instance)) {
                refusal.check("ack_work_item", completion.as_slice())?;
            }
            let mut changed = completion.clone();
            self.observer.acking_work(&mut changed);
            let again = changed.clone().filter(|_| faults.contains(&Fault::Duplicate));
            let answer = unless_pretended(&faults, self.inner.ack_work_item(token, changed)).await;
            self.observer.acked_work(completion.as_ref(), &answer);
            if let (Ok(()), Some(again)) = (&answer, again) {
                self.inner.enqueue_for_orchestrator(again, None).await?;
            }
            answer
        };
        self.call_with(Method::AckWork, &faults, ack).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back_work(token, GiveBack { delay, ignore_attempt, cause: None }).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend: Duration) -> Result<(), ProviderError> {
        let faults = self.faults(Method::RenewWork);
        let renew = self.inner.renew_work_item_lock(token, lock_timeout(extend, &faults));
        self.call_with(Method::RenewWork, &faults, unless_pretended(&faults, renew)).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend: Duration,
        idle: Duration,
    ) -> Result<usize, ProviderError> {
        self.call(Method::RenewSessions, self.inner.renew_session_lock(owners, extend, idle)).await
    }

    async fn cleanup_orphaned_sessions(&self, idle: Duration) -> Result<usize, ProviderError> {
        self.call(Method::CleanUpSessions, self.inner.cleanup_orphaned_sessions(idle)).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let faults = self.faults(Method::Enqueue);
        let enqueue = async {
            if faults.contains(&Fault::Duplicate) {
                self.inner.enqueue_for_orchestrator(item.clone(), delay).await?;
            }
            let sent = self.inner.enqueue_for_orchestrator(item.clone(), delay);
            let answer = unless_pretended(&faults, sent).await;
            self.observer.enqueued(&item, &answer);
            answer
        };
        self.call_with(Method::Enqueue, &faults, enqueue).await
    }

    fn tells_outcomes(&self) -> bool {
        !self.plain && self.inner.tells_outcomes()
    }

    async fn enqueue_checked(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        if self.plain {
            return enqueue_and_read(self, item, delay).await;
        }
        let faults = self.faults(Method::Enqueue);
        let enqueue = async {
            let answer = if faults.contains(&Fault::Pretend) {
                Ok(pretended(&item))
            } else {
                self.inner.enqueue_checked(item.clone(), delay).await
            };
            if answer.is_ok() && faults.contains(&Fault::Duplicate) {
                self.inner.enqueue_for_orchestrator(item.clone(), delay).await?;
            }
            self.observer.enqueued(&item, &answer.as_ref().map(|_| ()).map_err(Clone::clone));
            answer
        };
        self.call_with(Method::Enqueue, &faults, enqueue).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.call_unit(Method::EnqueueWork, self.inner.enqueue_for_worker(item)).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.call(Method::Read, self.inner.read(instance)).await
    }

    async fn last_events(&self, instance: &str, count: u32) -> Result<Vec<Event>, ProviderError> {
        self.call(Method::Read, self.inner.last_events(instance, count)).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.call(Method::Read, self.inner.read_with_execution(instance, execution_id)).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.call_unit(Method::Append, self.inner.append_with_execution(instance, execution_id, events)).await
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.call(Method::CustomStatus, self.inner.get_custom_status(instance, last_seen)).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.call(Method::KvValue, self.inner.get_kv_value(instance, key)).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.call(Method::KvValues, self.inner.get_kv_all_values(instance)).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.call(Method::Stats, self.inner.get_instance_stats(instance)).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability().map(|_| self as &dyn ProviderAdmin)
    }

    async fn fetch_turns(&self, mut request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        if self.ignore_filter {
            request.filter = None;
        }
        if self.plain {
            let TurnRequest { lock_timeout, poll_timeout, filter, .. } = request;
            let fetched = self.fetch_orchestration_item(lock_timeout, poll_timeout, filter.as_ref()).await?;
            let turn = fetched.map(|(item, lock_token, attempts)| FetchedTurn {
                item,
                lock_token,
                attempts,
                facts: None,
            });
            return Ok(turn.into_iter().collect());
        }
        let faults = self.faults(Method::FetchTurns);
        let fetch = async {
            if faults.contains(&Fault::RunDry) {
                return Ok(Vec::new());
            }
            request.lock_timeout = lock_timeout(request.lock_timeout, &faults);
            let turns = self.inner.fetch_turns(request).await?;
            self.observer.fetched_turns(&turns);
            Ok(turns.into_iter().map(|turn| deliver::changed(turn, &faults)).collect())
        };
        let turns: Vec<FetchedTurn> = self.call_with(Method::FetchTurns, &faults, fetch).await?;
        let events: usize = turns.iter().map(|turn| turn.item.history.len()).sum();
        self.events_fetched.fetch_add(u64::try_from(events).unwrap_or(u64::MAX), Ordering::SeqCst);
        Ok(turns)
    }

    async fn fetch_work(&self, mut request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        if self.plain {
            let WorkRequest { lock_timeout, poll_timeout, session, tags, .. } = request;
            let fetched = self.fetch_work_item(lock_timeout, poll_timeout, session.as_ref(), &tags).await?;
            let work = fetched.map(|(item, lock_token, attempts)| FetchedWork {
                item,
                lock_token,
                attempts,
                forgiven: 0,
                suspect: attempts > 1,
                expired: None,
                orchestration: None,
                progress: None,
                last_cause: None,
            });
            return Ok(work.into_iter().collect());
        }
        let faults = self.faults(Method::FetchWork);
        let fetch = async {
            if faults.contains(&Fault::RunDry) {
                return Ok(Vec::new());
            }
            request.lock_timeout = lock_timeout(request.lock_timeout, &faults);
            let mut work = self.inner.fetch_work(request).await?;
            self.observer.fetched_work(&work);
            if faults.contains(&Fault::Reorder) {
                work.reverse();
            }
            Ok(work)
        };
        let mut work = self.call_with(Method::FetchWork, &faults, fetch).await?;
        if let Some(first) = work.first_mut()
            && let Some(instead) = self.take_instead_of_work()
        {
            first.item = instead;
        }
        Ok(work)
    }

    fn keeps_causes(&self) -> bool {
        !self.plain && self.inner.keeps_causes()
    }

    async fn give_back_turn(&self, token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        let give_back = self.note_given_back(Method::AbandonTurn, give_back);
        self.call_unit(Method::AbandonTurn, self.inner.give_back_turn(token, give_back)).await
    }

    async fn give_back_work(&self, token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        let give_back = self.note_given_back(Method::AbandonWork, give_back);
        self.call_unit(Method::AbandonWork, self.inner.give_back_work(token, give_back)).await
    }

    fn separates_suspects(&self) -> bool {
        !self.plain && self.inner.separates_suspects()
    }

    fn limits_sessions(&self) -> bool {
        !self.plain && self.inner.limits_sessions()
    }

    fn keeps_progress(&self) -> bool {
        !self.plain && self.inner.keeps_progress()
    }

    async fn record_progress(&self, token: &str, details: &str) -> Result<(), ProviderError> {
        if self.plain {
            return Ok(());
        }
        self.call_unit(Method::RecordProgress, self.inner.record_progress(token, details)).await
    }

    async fn forgive_attempt(&self, token: &str) -> Result<(), ProviderError> {
        self.call_unit(Method::ForgiveAttempt, self.inner.forgive_attempt(token)).await
    }

    async fn lost_work_items(&self, tokens: &[String], lock: Duration) -> Result<Vec<String>, ProviderError> {
        self.call(Method::LostWork, self.inner.lost_work_items(tokens, lock)).await
    }

    fn routes_by_handler(&self) -> bool {
        !self.plain && self.inner.routes_by_handler()
    }

    fn keeps_nodes(&self) -> bool {
        !self.plain && self.inner.keeps_nodes()
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<(), ProviderError> {
        self.call_unit(Method::Heartbeat, self.inner.heartbeat_node(node)).await
    }

    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        self.call_unit(Method::NodeLeft, self.inner.node_left(node_id)).await
    }

    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        self.call(Method::ListNodes, self.inner.list_nodes()).await
    }

    fn sweeps(&self) -> bool {
        !self.plain && self.inner.sweeps()
    }

    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        self.call(Method::FindUnprocessable, self.inner.find_unprocessable_work()).await
    }

    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        self.call(Method::FetchUnprocessable, self.inner.fetch_unprocessable_turns(request)).await
    }

    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        self.call(Method::FetchUnprocessable, self.inner.fetch_unprocessable_work(request)).await
    }

    fn redrives(&self) -> bool {
        !self.plain && self.inner.redrives()
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        self.call(Method::KeptMessages, self.inner.kept_messages(instance)).await
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        let redrive = async {
            let answer = self.inner.redrive(instances.clone()).await;
            self.observer.redriven(&instances, &answer);
            answer
        };
        self.call_unit(Method::Redrive, redrive).await
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        self.call(Method::Status, self.inner.orchestration_status(instance)).await
    }

    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        self.call(Method::Wait, self.inner.wait_for_instance(instance, until, timeout)).await
    }
}
