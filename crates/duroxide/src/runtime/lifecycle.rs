//! Starting and stopping a runtime.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{DispatcherCapabilityFilter, EventKind, SemverRange, current_build_version};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::forgiven_attempts::ForgivenAttempts;
use super::handlers::Handlers;
use super::keeper::{LockKeeper, LockTimes};
use super::live::LiveExecutions;
use super::node::Node;
use super::observability::{Counters, MetricsSnapshot, ObservabilityHandle};
use super::poll_guard::guards_of;
use super::registry::{ActivityRegistry, OrchestrationRegistry};
use super::restart_on_panic::restart_on_panic;
use super::sessions::Sessions;
use super::suspects::Queue;
use super::threads::NodeThreads;
use super::{
    OrchestrationDescriptor, RuntimeOptions, dispatch, gauges, health, heartbeat, retention, sessions,
    sweeper, turn_watch,
};
use crate::client::Client;
use crate::providers::memory::MemoryProvider;
use crate::providers::{LockHolder, Provider};

/// Fetches of each queue in flight: one waits in the store while the other's items are started.
const FETCHERS_PER_QUEUE: usize = 2;
/// Handlers that block, are not waited for any more and whose slots go to others, at most. Each keeps a thread until it
/// returns; above this many, a handler keeps its slot as well.
const MAX_HANDLERS_LEFT: usize = 256;
/// How long giving work back may take after a shutdown's time has passed.
const RELEASE_TIME: Duration = Duration::from_millis(500);
/// The time that a shutdown without one gets.
const DEFAULT_SHUTDOWN_MS: u64 = 1000;

/// A node: runs orchestrations and activities until it is shut down.
///
/// Dropping the handle does not stop it; [`Runtime::shutdown`] does.
pub struct Runtime {
    node: Arc<Node>,
}

impl Runtime {
    /// Starts a node on a store.
    pub async fn start_with_store(
        provider: Arc<dyn Provider>,
        activities: impl Into<Arc<ActivityRegistry>>,
        orchestrations: OrchestrationRegistry,
    ) -> Arc<Self> {
        Self::start_with_options(provider, activities, orchestrations, RuntimeOptions::default()).await
    }

    /// Starts a node on a store of its own in memory.
    pub async fn start(
        activities: impl Into<Arc<ActivityRegistry>>,
        orchestrations: OrchestrationRegistry,
    ) -> Arc<Self> {
        Self::start_with_store(Arc::new(MemoryProvider::new()), activities, orchestrations).await
    }

    /// Starts a node on a store with options.
    ///
    /// # Panics
    /// When an option makes no sense, naming it.
    pub async fn start_with_options(
        provider: Arc<dyn Provider>,
        activities: impl Into<Arc<ActivityRegistry>>,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Arc<Self> {
        options.check();
        let range =
            options.supported_replay_versions.clone().unwrap_or_else(SemverRange::default_for_current_build);
        let node_id =
            options.worker_node_id.clone().unwrap_or_else(|| format!("{:032x}", options.process.entropy()));
        tracing::info!(
            target: "duroxide::runtime",
            node = %node_id,
            store = provider.name(),
            build_version = %current_build_version(),
            supported_range = %range,
            "runtime started"
        );
        let turn_locks =
            LockTimes::new(options.orchestrator_lock_timeout, options.orchestrator_lock_renewal_buffer);
        let work_locks = LockTimes::new(options.worker_lock_timeout, options.worker_lock_renewal_buffer);
        let activities = activities.into();
        options.process.names().orchestrations.reserve(&orchestrations.list_names());
        options.process.names().activities.reserve(&activities.list_names());
        let start_id = format!("{:032x}", options.process.entropy());
        let tokio = tokio::runtime::Handle::current();
        let node = Arc::new(Node {
            guards: guards_of(&options),
            handlers: Handlers::new(orchestrations.clone(), &activities),
            activities,
            orchestrations,
            lock_holder: LockHolder::of_start(&start_id),
            start_id,
            filter: DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] },
            sessions: Arc::new(Sessions::new(&node_id, &options, provider.as_ref())),
            node_id,
            counters: Arc::new(Counters::default()),
            live: Arc::new(LiveExecutions::new(options.max_live_executions)),
            forgiven: ForgivenAttempts::default(),
            keeper: Arc::new(LockKeeper::new(provider.clone(), turn_locks, work_locks)),
            clock: crate::clock::SystemClock::default(),
            turn_slots: Arc::new(Semaphore::new(slots(options.orchestration_concurrency))),
            activity_slots: Arc::new(Semaphore::new(slots(options.worker_concurrency))),
            stopping: CancellationToken::new(),
            releasing: CancellationToken::new(),
            killed: CancellationToken::new(),
            tasks: TaskTracker::new(),
            turn_threads: NodeThreads::new(&tokio, "duroxide-turns", options.orchestration_concurrency),
            activity_threads: NodeThreads::new(&tokio, "duroxide-work", options.worker_concurrency),
            handlers_left: Arc::new(Semaphore::new(MAX_HANDLERS_LEFT)),
            tokio,
            provider,
            options,
        });
        if node.routes_by_handler() && !node.provider.routes_by_handler() {
            tracing::warn!(
                target: "duroxide::runtime",
                store = node.provider.name(),
                "the store does not route by handler: capability_routing is ReplayVersion here"
            );
        }
        let runs = |queue: &Queue| match queue {
            Queue::Turns => node.options.runs_orchestrations(),
            Queue::Activities => node.options.runs_activities(),
        };
        for queue in [Queue::Turns, Queue::Activities].into_iter().filter(runs) {
            for _ in 0..FETCHERS_PER_QUEUE {
                // Beside the work that it starts: that needs no other thread to be woken.
                node.spawn_work(queue, dispatch::run(node.clone(), queue));
            }
        }
        spawn_background(&node);
        Arc::new(Self { node })
    }

    /// Fetches no more, lets work in progress finish for `timeout_ms` (`None`: 1,000), then cancels the rest
    /// and gives it back uncounted.
    ///
    /// Once it returned, the runtime has let go of the store, unless a handler still blocks its thread. It returns at
    /// the latest a second and a half after its time. The caller needs no tokio context, and may stop waiting: the
    /// runtime shuts down all the same.
    pub async fn shutdown(self: Arc<Self>, timeout_ms: Option<u64>) {
        let timeout = Duration::from_millis(timeout_ms.unwrap_or(DEFAULT_SHUTDOWN_MS));
        // At once, so that nothing is fetched any more even if the future is not polled again.
        self.node.stopping.cancel();
        self.node.tasks.close();
        let tokio = self.node.tokio.clone();
        let (killed, tasks) = (self.node.killed.clone(), self.node.tasks.clone());
        let ended = tokio.spawn(async move { shut_down(&self.node, timeout).await }).await;
        if let Err(error) = ended {
            // The tokio runtime has ended, and every task with it but turns and activities, which have threads of their own.
            tracing::debug!(target: "duroxide::runtime", %error, "the shutdown was cut off");
            killed.cancel();
            wait_without_tokio(&tasks);
        }
    }

    /// Ends every task where it stands, as a crash would: nothing is given back.
    #[doc(hidden)]
    pub fn kill(&self) {
        self.node.stopping.cancel();
        self.node.killed.cancel();
        self.node.tasks.close();
    }

    /// Waits until every task has ended, after [`Self::kill`].
    #[doc(hidden)]
    pub async fn wait_until_ended(&self) {
        self.node.tasks.wait().await;
    }

    /// A client of the store that the runtime works on.
    pub fn client(&self) -> Client {
        Client::new(self.node.provider.clone())
    }

    /// What an instance runs; `None` if it does not exist or has not begun.
    pub async fn get_orchestration_descriptor(&self, instance: &str) -> Option<OrchestrationDescriptor> {
        let history = match self.node.provider.read(instance).await {
            Ok(history) => history,
            Err(error) => {
                self.node.store_failed("reading a history", &error);
                return None;
            }
        };
        let started = history.into_iter().next()?;
        if let EventKind::OrchestrationStarted { name, version, parent_instance, parent_id, .. } =
            started.kind
        {
            Some(OrchestrationDescriptor { name, version, parent_instance, parent_id })
        } else {
            None
        }
    }

    /// What the runtime has counted since it started.
    pub fn metrics_snapshot(&self) -> Option<MetricsSnapshot> {
        Some(self.node.counters.snapshot())
    }

    /// A handle to the counters that outlives the runtime.
    pub fn observability_handle(&self) -> Option<ObservabilityHandle> {
        Some(ObservabilityHandle { counters: self.node.counters.clone() })
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("node_id", &self.node.node_id).finish_non_exhaustive()
    }
}

/// As many slots as a semaphore can have and give to one that takes all of them.
fn slots(concurrency: usize) -> usize {
    let all_at_once = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
    concurrency.min(all_at_once).min(Semaphore::MAX_PERMITS)
}

/// Waits until the tasks have let go of the store, for as long as a shutdown waits for them. No timer is left to wait by.
fn wait_without_tokio(tasks: &TaskTracker) {
    for _ in 0..RELEASE_TIME.as_millis() {
        if tasks.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn shut_down(node: &Node, timeout: Duration) {
    let drained = tokio::time::timeout(timeout, wait_until_drained(node)).await;
    node.releasing.cancel();
    let released = tokio::time::timeout(RELEASE_TIME, node.tasks.wait()).await;
    if drained.is_err() {
        tracing::info!(target: "duroxide::runtime", node = %node.node_id, "shut down before all work was done");
    }
    if released.is_err() {
        tracing::warn!(
            target: "duroxide::runtime",
            node = %node.node_id,
            "failed to give some work back in time; its locks will expire"
        );
    } else if tokio::time::timeout(RELEASE_TIME, sessions::give_up(node)).await.is_err() {
        tracing::warn!(
            target: "duroxide::runtime",
            node = %node.node_id,
            "failed to release session claims; they will expire"
        );
    }
    node.killed.cancel();
    if tokio::time::timeout(RELEASE_TIME, node.tasks.wait()).await.is_err() {
        tracing::warn!(
            target: "duroxide::runtime",
            node = %node.node_id,
            "a handler blocks its thread and outlives the runtime"
        );
    }
}

/// Waits until every slot is free again.
async fn wait_until_drained(node: &Node) {
    let all = |concurrency| u32::try_from(slots(concurrency)).unwrap_or(u32::MAX);
    let turns = node.turn_slots.acquire_many(all(node.options.orchestration_concurrency));
    let activities = node.activity_slots.acquire_many(all(node.options.worker_concurrency));
    let (turns, activities) = tokio::join!(turns, activities);
    drop((turns, activities));
}

/// Starts what a node does beside its work.
fn spawn_background(node: &Arc<Node>) {
    let of_node = node.clone();
    node.spawn(restart_on_panic("heartbeat", move || heartbeat::run(of_node.clone())));
    // These outlive `stopping`: work in progress needs its locks and claims until it is done.
    let keeper = node.keeper.clone();
    node.spawn_until_releasing(restart_on_panic("locks", move || keeper.clone().run()));
    if node.turn_threads.is_some() {
        let of_node = node.clone();
        node.spawn_until_releasing(restart_on_panic("turns that do not yield", move || {
            turn_watch::run(of_node.clone())
        }));
    }
    // Without them, claims that the process before left under this name end by themselves.
    if node.options.runs_activities() {
        let of_node = node.clone();
        node.spawn_until_releasing(restart_on_panic("sessions", move || {
            sessions::keep_claims(of_node.clone())
        }));
        let of_node = node.clone();
        node.spawn_until_releasing(restart_on_panic("orphaned sessions", move || {
            sessions::remove_orphans(of_node.clone())
        }));
    }
    if let Some(policy) = node.options.health.clone() {
        let of_node = node.clone();
        node.spawn(restart_on_panic("health", move || health::run(of_node.clone(), policy.clone())));
    }
    if let Some(policy) = node.options.retention.clone() {
        let of_node = node.clone();
        node.spawn(restart_on_panic("retention", move || retention::run(of_node.clone(), policy.clone())));
    }
    if let Some(options) = node.options.sweeper.clone() {
        let of_node = node.clone();
        node.spawn(restart_on_panic("sweeper", move || sweeper::run(of_node.clone(), options.clone())));
    }
    if !node.options.observability.gauge_poll_interval.is_zero() {
        let of_node = node.clone();
        node.spawn(restart_on_panic("gauges", move || gauges::run(of_node.clone())));
    }
}
