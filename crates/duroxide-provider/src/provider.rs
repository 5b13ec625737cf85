//! The contract between the runtime and a store. Each method is one transaction.
//!
//! Methods up to the line "Extensions" are the whole of what a store must have. Each extension has a default
//! body made of those, so that a plain store, or a wrapper that forwards only those, runs every program.
//!
//! Words that every method uses:
//! - *lock lost*: the token is unknown, was taken back, or has expired by the store's clock. The call fails
//!   with [`ProviderErrorKind::LockLost`] and changes nothing.
//! - *retry*: after [`ProviderErrorKind::Unavailable`] the outcome may be unknown. Every call may be repeated:
//!   an ack that was committed after all then fails as lock lost.

use std::any::Any;
use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    DispatcherCapabilityFilter, Event, ExecutionMetadata, NodeInfo, NodeRecord, OrchestrationStatus,
    ScheduledActivityIdentifier, UnprocessableWork, WorkItem,
};

use super::outcome::{self, Enqueued};
use super::plain_status;
use super::{
    FetchedTurn, FetchedWork, GiveBack, OrchestrationItem, ProviderAdmin, ProviderError, ProviderErrorKind,
    RedriveInstance, SessionFetchConfig, SweepRequest, SystemStats, TagFilter, TurnRequest, WaitUntil,
    WorkRequest,
};

/// A store. See the module's documentation for the words used here, and `docs/provider-guide.md` for the rules.
#[async_trait]
pub trait Provider: Any + Send + Sync {
    /// The store's name, for logs.
    fn name(&self) -> &str {
        "unnamed"
    }

    /// The store's version, for logs.
    fn version(&self) -> &str {
        "0.0.0"
    }

    /// Locks the instance that has been ready longest and matches `filter`, locks its visible messages and
    /// raises the attempt count of each, in that order; then loads the history.
    ///
    /// An instance is ready when a message is visible, its backoff is over and no live lock holds it.
    /// `filter` is looked at before anything is locked or decoded; `None` matches all, a NULL pinned version
    /// matches every filter but an empty one. The count returned is the highest among the locked messages.
    ///
    /// What does not decode: an event in the history, or a start or completion, gives an item with empty
    /// `history` and `history_error`; any other message is set aside and the fetch goes on.
    ///
    /// Waits up to `poll_timeout` for an instance to become ready, woken rather than polling where the store
    /// can. Dropping the future locks nothing for longer than the lock would have lasted.
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError>;

    /// Commits a turn: appends `history_delta` to `execution_id`, enqueues the work items and messages, deletes
    /// the rows of `cancelled_activities` (also locked ones), writes `metadata`, deletes the messages that the
    /// fetch locked, clears the backoff and unlocks the instance. All of it or nothing.
    ///
    /// - An event id that is already stored is [`ProviderErrorKind::Invalid`].
    /// - `metadata.status` `ContinuedAsNew` creates execution `execution_id + 1` with no pinned version and
    ///   makes it current; the instance stays `Running`. Timers of the ended execution are deleted.
    /// - `Completed` or `Failed` ends the instance: what is left in its inbox is dropped and counted.
    /// - Items for the instance itself whose kind `goes_before_inbox` (the next execution's start, then what
    ///   the ended one did not read) are placed before all that waits in its inbox, in their order.
    /// - A start of an id that exists creates nothing; `reply_to_colliding_start` says who is told.
    /// - A cancel reaches the instance itself and its own children only; `cancel_reaches` says so. Any other is
    ///   dropped and counted.
    #[expect(clippy::too_many_arguments, reason = "the signature is fixed; stores of others implement it")]
    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError>;

    /// Gives the instance back. With a delay the instance, not only these messages, is not ready before it is
    /// over; a cancel ends that backoff. `ignore_attempt` takes the fetch's count back.
    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Lets the lock hold for `extend_for` from now on.
    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError>;

    /// Locks the oldest ready work item that `tag_filter` accepts and raises its attempt count.
    ///
    /// With a session config, items of sessions that are free (then claimed) or owned by it are included;
    /// without one, only items without a session. A claim lasts at least as long as the lock of any item of its
    /// session, so that two owners never have items of one session locked at the same time. An undecodable row is set aside and its activity failed.
    /// Waits like [`Provider::fetch_orchestration_item`].
    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError>;

    /// Deletes the work item and enqueues its completion, if there is one, as one step.
    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError>;

    /// Gives the work item back, not to be fetched before `delay` is over. `ignore_attempt` takes the fetch's
    /// count back.
    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Lets the lock hold for `extend_for` from now on, and with it the claim on the item's session. Lock lost
    /// also means that the activity was cancelled.
    async fn renew_work_item_lock(&self, lock_token: &str, extend_for: Duration)
    -> Result<(), ProviderError>;

    /// Lets the claims of these owners hold for `extend_for` from now on, if they are live and the session was
    /// used within `idle_timeout`; how many. Fetches, renewals and acks of a session's items are uses. With zero
    /// this gives sessions up, but none before the locks of its items end.
    async fn renew_session_lock(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError>;

    /// Removes sessions whose claim has expired and for which nothing is queued.
    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Result<usize, ProviderError>;

    /// Puts a message into an instance's inbox, visible after `delay` (a timer: from its due time on).
    ///
    /// A start creates the instance; for an id that exists it changes nothing. Events and queue messages for
    /// an instance that does not exist are kept for its start; other messages for it, and any for a finished
    /// instance, are dropped and counted. A store that [redrives](Self::redrives) keeps the events and queue messages
    /// for a failed instance that may go on. A cancel ends a backoff. A full inbox is
    /// [`ProviderErrorKind::Invalid`].
    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError>;

    /// Puts an activity into the worker queue.
    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError>;

    /// The history of the latest execution; empty for an unknown instance.
    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError>;

    /// The last events of the latest execution, at most `count` of them, in their order; empty for an unknown
    /// instance. A store that can reads no more than those.
    async fn last_events(&self, instance: &str, count: u32) -> Result<Vec<Event>, ProviderError> {
        let mut history = self.read(instance).await?;
        let before = history.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(history.split_off(before))
    }

    /// The history of one execution; empty for an unknown one.
    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError>;

    /// Appends to a history without a lock, for tools and tests. An event id of 0 becomes the next id.
    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError>;

    /// The custom status and its version, if the version is above `last_seen_version`.
    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError>;

    /// One value of an instance's KV store.
    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError>;

    /// All values of an instance's KV store.
    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError>;

    /// The size of an instance; `None` for an unknown one. Pending are the messages of its inbox, those of its history
    /// that [`unread_messages`](duroxide_core::unread_messages) counts, and those that the start of its next execution
    /// carries ([`carried_messages`](duroxide_core::carried_messages)). A history that does not decode has none.
    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError>;

    /// The management calls, if the store has them.
    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        None
    }

    // ---- Extensions ----

    /// Like [`Provider::fetch_orchestration_item`] for several instances in one transaction.
    ///
    /// A suspect that is given back with `ignore_attempt` is a suspect again at the next fetch.
    async fn fetch_turns(&self, request: TurnRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        let fetched = self
            .fetch_orchestration_item(request.lock_timeout, request.poll_timeout, request.filter.as_ref())
            .await?;
        let turn = fetched.map(|(item, lock_token, attempts)| FetchedTurn {
            item,
            lock_token,
            attempts,
            facts: None,
        });
        Ok(turn.into_iter().collect())
    }

    /// Like [`Provider::fetch_work_item`] for several items in one transaction.
    async fn fetch_work(&self, request: WorkRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        let fetched = self
            .fetch_work_item(
                request.lock_timeout,
                request.poll_timeout,
                request.session.as_ref(),
                &request.tags,
            )
            .await?;
        let work = fetched.map(|(item, lock_token, attempts)| FetchedWork {
            item,
            lock_token,
            attempts,
            forgiven: 0,
            // Without the extension the runtime does not know how the previous attempt ended.
            suspect: attempts > 1,
            expired: None,
            orchestration: None,
            progress: None,
            last_cause: None,
        });
        Ok(work.into_iter().collect())
    }

    /// Whether the store keeps why work was given back: [`Provider::give_back_turn`], [`Provider::give_back_work`] and
    /// [`ProviderAdmin::bounces`].
    fn keeps_causes(&self) -> bool {
        false
    }

    /// Like [`Provider::abandon_orchestration_item`], and keeps the cause, [bounded](duroxide_core::BounceCause::bounded),
    /// with the instance. Every fetch tells it in [`TurnFacts::last_cause`](super::TurnFacts::last_cause) until a turn
    /// is committed. To be given back without a cause, uncounted or not, or to lose the lock leaves it.
    async fn give_back_turn(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.abandon_orchestration_item(lock_token, give_back.delay, give_back.ignore_attempt).await
    }

    /// Like [`Provider::abandon_work_item`], and keeps the cause with the work item in the same way, until it is
    /// deleted. Every fetch tells it in [`FetchedWork::last_cause`].
    async fn give_back_work(&self, lock_token: &str, give_back: GiveBack) -> Result<(), ProviderError> {
        self.abandon_work_item(lock_token, give_back.delay, give_back.ignore_attempt).await
    }

    /// Whether [`Provider::enqueue_checked`] answers from the transaction itself. Otherwise it reads before it sends,
    /// and a client sends by [`Provider::enqueue_for_orchestrator`] unless it asks for the answer.
    fn tells_outcomes(&self) -> bool {
        false
    }

    /// Like [`Provider::enqueue_for_orchestrator`], and tells what became of the item.
    ///
    /// A store that implements this answers from the very transaction that put the item where it belongs, or did not.
    /// The first input of an instance is the one of [`FirstInput`](duroxide_core::FirstInput): a store keeps its
    /// [fingerprint](duroxide_core::start_fingerprint) in the instance's row. The default body answers by what it reads
    /// before it sends. If another client changes the instance in between, its answer is outdated; and it takes the
    /// input of an instance that has not begun for another one.
    async fn enqueue_checked(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        outcome::enqueue_and_read(self, item, delay).await
    }

    /// Whether the store looks at [`TurnRequest::suspects`] and [`WorkRequest::suspects`], and implements
    /// [`Provider::forgive_attempt`].
    fn separates_suspects(&self) -> bool {
        false
    }

    /// Whether the store looks at [`WorkRequest::session_limits`].
    fn limits_sessions(&self) -> bool {
        false
    }

    /// Whether the store looks at [`TurnRequest::handlers`] and [`WorkRequest::activities`].
    fn routes_by_handler(&self) -> bool {
        false
    }

    /// Whether the store keeps the rows of nodes: [`Provider::heartbeat_node`], [`Provider::node_left`] and
    /// [`Provider::list_nodes`]. The runtime asks nothing else about nodes of a store that does not.
    fn keeps_nodes(&self) -> bool {
        false
    }

    /// Writes down that a node lives and what it can do: [`NodeRecord::after_heartbeat`] by the store's clock, in
    /// place of its record so far. Records that are [forgotten](NodeRecord::is_forgotten) are removed, at the
    /// latest when the next node joins.
    ///
    /// A node that [`NodeInfo::check`] refuses is [`ProviderErrorKind::Invalid`].
    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<(), ProviderError> {
        let _ = node;
        Err(no_nodes("heartbeat_node"))
    }

    /// Writes down that a node has left: it takes no more work. Its record stays until it is forgotten, because
    /// what it could do matters for a while. A node that nobody knows, or that has left, is left as it is.
    async fn node_left(&self, node_id: &str) -> Result<(), ProviderError> {
        let _ = node_id;
        Err(no_nodes("node_left"))
    }

    /// The nodes that are not forgotten, by id. A record that does not decode comes without its `info`.
    async fn list_nodes(&self) -> Result<Vec<NodeRecord>, ProviderError> {
        Err(no_nodes("list_nodes"))
    }

    /// Whether the store can find and lock work that no node can do: [`Provider::find_unprocessable_work`],
    /// [`Provider::fetch_unprocessable_turns`] and [`Provider::fetch_unprocessable_work`]. It keeps nodes as well.
    fn sweeps(&self) -> bool {
        false
    }

    /// What waits and no live node can do ([`missing_capability`](duroxide_core::missing_capability)), in the order
    /// of [`sort_findings`](duroxide_core::sort_findings). Changes nothing.
    ///
    /// - Turns by routing key. An instance waits while one of its messages is visible and no live lock holds it,
    ///   also while it backs off: since its first message is visible or, if that is later, since a turn of it was
    ///   last committed or it was created.
    /// - Activities by name and tag. One waits while no live lock holds it, also while it backs off: since it was
    ///   queued. An activity is delayed by being given back and in no other way, so a delay never means that it was
    ///   not to begin yet.
    ///
    /// What some node can do costs one step for each distinct key; only what is found is counted.
    async fn find_unprocessable_work(&self) -> Result<Vec<UnprocessableWork>, ProviderError> {
        Err(no_sweep("find_unprocessable_work"))
    }

    /// Locks instances that are ready and whose next turn no node can run, those that have been ready longest
    /// first, as a fetch without a filter would: counted, with their whole history, suspects among them.
    ///
    /// Only if, in the same transaction, [`EndingRule`](duroxide_core::EndingRule) allows it: for the key, and
    /// because the instance has waited since its `waiting_since_ms`. Does not wait.
    async fn fetch_unprocessable_turns(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        let _ = request;
        Err(no_sweep("fetch_unprocessable_turns"))
    }

    /// The same for activities, of sessions too; no session is claimed. One that was given back with a delay has waited
    /// since the end of the last one: a node that has no handler for it takes it again and again, and poisons it.
    async fn fetch_unprocessable_work(
        &self,
        request: SweepRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        let _ = request;
        Err(no_sweep("fetch_unprocessable_work"))
    }

    /// Keeps what an activity reports about its progress with its work item, in place of what it reported before,
    /// for [`FetchedWork::progress`] of the next attempt. Whether the store does is told by
    /// [`Provider::keeps_progress`]; one that does not forgets it.
    async fn record_progress(&self, lock_token: &str, details: &str) -> Result<(), ProviderError> {
        // Nothing to do, by design: a plain store has no place for it.
        let (_, _) = (lock_token, details);
        Ok(())
    }

    /// Takes back the attempt that the present lock of a work item has counted, and counts it as
    /// [forgiven](FetchedWork::forgiven) instead. The lock goes on. A store that does not
    /// [separate suspects](Provider::separates_suspects) is not asked.
    async fn forgive_attempt(&self, lock_token: &str) -> Result<(), ProviderError> {
        let _ = lock_token;
        Err(ProviderError::permanent("forgive_attempt", "this store does not forgive attempts"))
    }

    /// Whether the store keeps the progress of activities.
    fn keeps_progress(&self) -> bool {
        false
    }

    /// Which of these work items are no longer locked by their token, because the activity was cancelled or
    /// the lock expired. `lock_timeout` is what a renewal would ask for.
    async fn lost_work_items(
        &self,
        lock_tokens: &[String],
        lock_timeout: Duration,
    ) -> Result<Vec<String>, ProviderError> {
        let mut lost = Vec::new();
        for token in lock_tokens {
            match self.renew_work_item_lock(token, lock_timeout).await {
                Ok(()) => {}
                Err(error) if error.kind() == ProviderErrorKind::LockLost || !error.is_retryable() => {
                    lost.push(token.clone());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }

    /// Whether the store keeps the messages of instances that failed, and can let them go on.
    fn redrives(&self) -> bool {
        false
    }

    /// The messages that were in the inbox of an instance when it failed, as far as
    /// [`KeptMessages`](duroxide_core::redrive::KeptMessages) keeps them, in their order; then those that came since
    /// and for which [`kept_since_failure`](duroxide_core::redrive::kept_since_failure) says so, up to the inbox limit.
    /// A store keeps the former in the transaction that commits a failure for which `kept_after_failure` says so, and
    /// all of them until the instance is redriven or deleted.
    async fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        let _ = instance;
        Ok(Vec::new())
    }

    /// Lets failed instances go on, all of them or none. Each gets its next execution with the events given, which
    /// change nothing besides, and is running again; its activities and messages are queued as by a turn's ack, with no
    /// attempts. What was kept since the caller looked follows them in the inbox; then nothing is kept any more.
    ///
    /// An instance that is named twice, is not failed, has another current execution or another last event than the
    /// caller has seen is [`ProviderErrorKind::Invalid`].
    async fn redrive(&self, instances: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        let _ = instances;
        Err(ProviderError::permanent("redrive", "this store cannot let failed instances go on"))
    }

    /// What a client sees of an instance.
    async fn orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ProviderError> {
        plain_status::read(self, instance).await
    }

    /// Waits until the instance is as asked, at most `timeout`; `None` when that passed first.
    ///
    /// An instance that does not exist is waited for as well.
    async fn wait_for_instance(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        plain_status::poll(self, instance, until, timeout).await
    }
}

fn no_sweep(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "this store does not know which work no node can do")
}

fn no_nodes(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "this store keeps no rows of nodes")
}
