//! What all tasks of a runtime share.

use std::future::Future;
use std::sync::Arc;

use duroxide_core::{CapabilityRouting, DispatcherCapabilityFilter, Guards};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::RuntimeOptions;
use super::forgiven_attempts::ForgivenAttempts;
use super::handlers::Handlers;
use super::keeper::LockKeeper;
use super::live::LiveExecutions;
use super::observability::Counters;
use super::registry::{ActivityRegistry, OrchestrationRegistry};
use super::sessions::Sessions;
use super::suspects::Queue;
use super::threads::NodeThreads;
use super::verdict::{AttemptCount, Tries};
use crate::clock::SystemClock;
use crate::metric::SharedString;
use crate::providers::{LockHolder, Provider};

/// What all tasks of a runtime share.
pub(super) struct Node {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) activities: Arc<ActivityRegistry>,
    pub(super) orchestrations: OrchestrationRegistry,
    pub(super) options: RuntimeOptions,
    pub(super) guards: Guards,
    pub(super) filter: DispatcherCapabilityFilter,
    pub(super) node_id: String,
    /// Random: tells this run from others under the same name.
    pub(super) start_id: String,
    /// The same in the locks of this run.
    pub(super) lock_holder: LockHolder,
    pub(super) handlers: Handlers,
    pub(super) counters: Arc<Counters>,
    pub(super) live: Arc<LiveExecutions>,
    pub(super) forgiven: ForgivenAttempts,
    pub(super) keeper: Arc<LockKeeper>,
    pub(super) sessions: Arc<Sessions>,
    /// Only for stores that do not tell their time.
    pub(super) clock: SystemClock,
    pub(super) turn_slots: Arc<Semaphore>,
    pub(super) activity_slots: Arc<Semaphore>,
    /// No more work is fetched.
    pub(super) stopping: CancellationToken,
    /// Work in progress is given back.
    pub(super) releasing: CancellationToken,
    /// Every task ends where it stands, as if the process had.
    pub(super) killed: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Where turns run; without it, with all other tasks.
    pub(super) turn_threads: Option<NodeThreads>,
    /// Where activities run; without it, with all other tasks.
    pub(super) activity_threads: Option<NodeThreads>,
    /// The right to leave a handler behind that blocks: its slot goes to others, its thread does not.
    pub(super) handlers_left: Arc<Semaphore>,
    /// Where the tasks run; the caller of a shutdown may have no tokio context.
    pub(super) tokio: tokio::runtime::Handle,
}

impl Node {
    /// Runs a task until it is done or the node is killed.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.until_killed(task));
    }

    /// Runs a task of turns or activities, like [`Self::spawn`], where it can block nothing else.
    pub(super) fn spawn_work(&self, queue: Queue, task: impl Future<Output = ()> + Send + 'static) {
        let threads = match queue {
            Queue::Turns => &self.turn_threads,
            Queue::Activities => &self.activity_threads,
        };
        match threads {
            Some(threads) => threads.spawn(self.tasks.track_future(self.until_killed(task))),
            None => self.spawn(task),
        }
    }

    fn until_killed(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let killed = self.killed.clone();
        async move {
            tokio::select! {
                biased;
                () = killed.cancelled() => {}
                () = task => {}
            }
        }
    }

    /// Runs a task until work is given back.
    pub(super) fn spawn_until_releasing(&self, task: impl Future<Output = ()> + Send + 'static) {
        let releasing = self.releasing.clone();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = releasing.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Whether fetches name what this node has handlers for.
    pub(super) fn routes_by_handler(&self) -> bool {
        match self.options.capability_routing {
            CapabilityRouting::ReplayVersion => false,
            CapabilityRouting::Handlers => true,
        }
    }

    /// The versions that this node replays, in words.
    pub(super) fn replayed_versions(&self) -> String {
        let ranges = &self.filter.supported_duroxide_versions;
        ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    }

    /// An orchestration's name as a label of metrics.
    pub(super) fn orchestration_label(&self, name: &str) -> SharedString {
        self.options.process.names().orchestrations.label(name)
    }

    /// An activity's name as a label of metrics.
    pub(super) fn activity_label(&self, name: &str) -> SharedString {
        self.options.process.names().activities.label(name)
    }

    /// How often the work of this name was attempted, now that it was fetched for the attempt of this number. To be
    /// asked once for each fetch.
    pub(super) fn count_attempts(&self, work: &str, attempts: u32) -> AttemptCount {
        AttemptCount { counted: self.forgiven.counted(work, attempts), max: self.options.max_attempts }
    }

    /// How long work is left alone that is let go after these tries: not at all, unless the store refused.
    pub(super) fn delay_after(&self, tries: Tries) -> Option<std::time::Duration> {
        (tries.refusals > 0).then_some(self.options.unregistered_backoff.max_delay)
    }

    /// Counts and logs a failed call of the store.
    pub(super) fn store_failed(&self, doing: &str, error: &crate::providers::ProviderError) {
        self.counters.provider_errors.increment();
        tracing::warn!(target: "duroxide::runtime", %error, retryable = error.is_retryable(), "{doing} failed");
    }

    /// Waits, but not past the point where work is to be given back. False if that point came.
    pub(super) async fn pause(&self, delay: std::time::Duration) -> bool {
        tokio::select! {
            biased;
            () = self.releasing.cancelled() => false,
            () = tokio::time::sleep(delay) => true,
        }
    }
}
