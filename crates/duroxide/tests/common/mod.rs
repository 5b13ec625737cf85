//! A store whose calls fail as told, in virtual time, for tests of the runtime.

mod world;

pub(crate) use world::{World, activities, options, orchestrations};

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    ExecutionMetadata, FetchedTurn, FetchedWork, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    RedriveInstance, ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter, TurnRequest,
    WaitUntil, WorkItem, WorkRequest,
};
use duroxide::{DispatcherCapabilityFilter, Event, OrchestrationStatus};
use tokio_util::sync::CancellationToken;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store does nothing and says so.
    FailBefore,
    /// The store does it, and the answer is lost.
    LoseAnswer,
    /// The store's code panics.
    Panic,
    /// The store does nothing and says that it never will.
    Refuse,
    /// From this call on nothing that the node asks for is done or answered: the process has hung.
    Freeze,
}

/// An instance or activity that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenBack {
    pub(crate) at: tokio::time::Instant,
    pub(crate) delay: Option<Duration>,
    pub(crate) ignore_attempt: bool,
}

/// A store whose calls fail as told.
pub(crate) struct Faulty {
    inner: Arc<dyn Provider>,
    plan: Mutex<BTreeMap<&'static str, VecDeque<Fault>>>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    away: AtomicBool,
    away_for_acks: AtomicBool,
    frozen: CancellationToken,
    given_back: Mutex<BTreeMap<&'static str, Vec<GivenBack>>>,
    /// Hides the extension methods, as a wrapper that does not know them would.
    plain: bool,
    /// Hides the filter from the store.
    ignore_filter: bool,
    /// Events that fetches brought.
    events_fetched: AtomicU64,
    /// What the next fetch of work returns instead of what is stored.
    pub(crate) instead_of_work: Mutex<Option<WorkItem>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Provider>) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
            calls: Mutex::default(),
            away: AtomicBool::new(false),
            away_for_acks: AtomicBool::new(false),
            frozen: CancellationToken::new(),
            given_back: Mutex::default(),
            plain: false,
            ignore_filter: false,
            events_fetched: AtomicU64::new(0),
            instead_of_work: Mutex::default(),
        }
    }

    pub(crate) fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    pub(crate) fn ignoring_filter(mut self) -> Self {
        self.ignore_filter = true;
        self
    }

    /// The next calls of `method` go wrong like this.
    pub(crate) fn plan(&self, method: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.plan.lock().expect("no test panics under it").entry(method).or_default().extend(faults);
    }

    /// From now on no call succeeds, or again does.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// From now on fetches succeed, but nothing that commits or renews does.
    pub(crate) fn set_away_for_acks(&self, away: bool) {
        self.away_for_acks.store(away, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self, method: &'static str) -> u64 {
        self.calls.lock().expect("no test panics under it").get(method).copied().unwrap_or(0)
    }

    /// What was given back by `method`, an abandon, in its order.
    pub(crate) fn given_back(&self, method: &'static str) -> Vec<GivenBack> {
        self.given_back.lock().expect("no test panics under it").get(method).cloned().unwrap_or_default()
    }

    fn note_given_back(&self, method: &'static str, delay: Option<Duration>, ignore_attempt: bool) {
        let noted = GivenBack { at: tokio::time::Instant::now(), delay, ignore_attempt };
        self.given_back.lock().expect("no test panics under it").entry(method).or_default().push(noted);
    }

    /// Resolves when the node has frozen.
    pub(crate) async fn has_frozen(&self) {
        self.frozen.cancelled().await;
    }

    pub(crate) fn events_fetched(&self) -> u64 {
        self.events_fetched.load(Ordering::SeqCst)
    }

    async fn call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        *self.calls.lock().expect("no test panics under it").entry(method).or_default() += 1;
        let gone = || Err(ProviderError::retryable(method, "the store is away"));
        let commits =
            method.starts_with("ack") || method.starts_with("renew") || method.starts_with("abandon");
        if self.away.load(Ordering::SeqCst) || (commits && self.away_for_acks.load(Ordering::SeqCst)) {
            return gone();
        }
        let fault =
            self.plan.lock().expect("no test panics under it").get_mut(method).and_then(VecDeque::pop_front);
        match fault {
            None => tokio::select! {
                biased;
                () = self.frozen.cancelled() => std::future::pending().await,
                answer = call => answer,
            },
            Some(Fault::Refuse) => Err(ProviderError::permanent(method, "the store refuses")),
            Some(Fault::Freeze) => {
                self.frozen.cancel();
                std::future::pending().await
            }
            Some(Fault::FailBefore) => gone(),
            Some(Fault::Panic) => panic!("the store panics in {method}"),
            Some(Fault::LoseAnswer) => {
                call.await?;
                gone()
            }
        }
    }
}

type Item = Option<(OrchestrationItem, String, u32)>;

#[async_trait]
impl Provider for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    async fn fetch_orchestration_item(
        &self,
        lock: Duration,
        poll: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Item, ProviderError> {
        let filter = filter.filter(|_| !self.ignore_filter);
        self.call("fetch_turns", self.inner.fetch_orchestration_item(lock, poll, filter)).await
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
        let ack = self.inner.ack_orchestration_item(
            token,
            execution_id,
            events,
            work,
            messages,
            metadata,
            cancelled,
        );
        self.call("ack_orchestration_item", ack).await
    }

    async fn abandon_orchestration_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.note_given_back("abandon_orchestration_item", delay, ignore_attempt);
        let abandon = self.inner.abandon_orchestration_item(token, delay, ignore_attempt);
        self.call("abandon_orchestration_item", abandon).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend: Duration,
    ) -> Result<(), ProviderError> {
        self.call("renew_orchestration_item_lock", self.inner.renew_orchestration_item_lock(token, extend))
            .await
    }

    async fn fetch_work_item(
        &self,
        lock: Duration,
        poll: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.call("fetch_work", self.inner.fetch_work_item(lock, poll, session, tags)).await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.call("ack_work_item", self.inner.ack_work_item(token, completion)).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.note_given_back("abandon_work_item", delay, ignore_attempt);
        self.call("abandon_work_item", self.inner.abandon_work_item(token, delay, ignore_attempt)).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend: Duration) -> Result<(), ProviderError> {
        self.call("renew_work_item_lock", self.inner.renew_work_item_lock(token, extend)).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend: Duration,
        idle: Duration,
    ) -> Result<usize, ProviderError> {
        self.call("renew_session_lock", self.inner.renew_session_lock(owners, extend, idle)).await
    }

    async fn cleanup_orphaned_sessions(&self, idle: Duration) -> Result<usize, ProviderError> {
        self.call("cleanup_orphaned_sessions", self.inner.cleanup_orphaned_sessions(idle)).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.call("enqueue_for_orchestrator", self.inner.enqueue_for_orchestrator(item, delay)).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.call("enqueue_for_worker", self.inner.enqueue_for_worker(item)).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.call("read", self.inner.read(instance)).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.call("read", self.inner.read_with_execution(instance, execution_id)).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.call("append_with_execution", self.inner.append_with_execution(instance, execution_id, events))
            .await
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.call("get_custom_status", self.inner.get_custom_status(instance, last_seen)).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.call("get_kv_value", self.inner.get_kv_value(instance, key)).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.call("get_kv_all_values", self.inner.get_kv_all_values(instance)).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.call("get_instance_stats", self.inner.get_instance_stats(instance)).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
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
        let turns = self.call("fetch_turns", self.inner.fetch_turns(request)).await?;
        let events: usize = turns.iter().map(|turn| turn.item.history.len()).sum();
        self.events_fetched.fetch_add(u64::try_from(events).expect("tests are small"), Ordering::SeqCst);
        Ok(turns)
    }

    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        if self.plain {
            let WorkRequest { lock_timeout, poll_timeout, session, tags, .. } = request;
            let fetched = self.fetch_work_item(lock_timeout, poll_timeout, session.as_ref(), &tags).await?;
            let work = fetched.map(|(item, lock_token, attempts)| FetchedWork {
                item,
                lock_token,
                attempts,
                suspect: attempts > 1,
                orchestration: None,
                progress: None,
            });
            return Ok(work.into_iter().collect());
        }
        let mut work = self.call("fetch_work", self.inner.fetch_work(request)).await?;
        if let Some(first) = work.first_mut()
            && let Some(instead) = self.instead_of_work.lock().expect("no test panics under it").take()
        {
            first.item = instead;
        }
        Ok(work)
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
        self.call("record_progress", self.inner.record_progress(token, details)).await
    }

    async fn lost_work_items(&self, tokens: &[String], lock: Duration) -> Result<Vec<String>, ProviderError> {
        self.call("lost_work_items", self.inner.lost_work_items(tokens, lock)).await
    }

    fn redrives(&self) -> bool {
        !self.plain && self.inner.redrives()
    }

    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        self.call("kept_messages", self.inner.kept_messages(instance)).await
    }

    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        self.call("redrive", self.inner.redrive(instances)).await
    }

    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        self.call("orchestration_status", self.inner.orchestration_status(instance)).await
    }

    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        self.call("wait_for_instance", self.inner.wait_for_instance(instance, until, timeout)).await
    }
}
