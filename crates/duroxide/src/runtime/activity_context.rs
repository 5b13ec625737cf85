//! What an activity can do and know.

use std::sync::Arc;

use duroxide_core::RetriedCall;
use duroxide_core::limits::MAX_PROGRESS_BYTES;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::traces;
use crate::app::States;
use crate::client::Client;
use crate::providers::{Provider, ProviderError, ProviderErrorKind};

/// What an activity can do and know. Cheap to clone.
#[derive(Clone)]
pub struct ActivityContext {
    facts: Arc<ActivityFacts>,
    cancelled: CancellationToken,
    provider: Arc<dyn Provider>,
    states: Arc<States>,
}

/// Why a heartbeat was not recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HeartbeatError {
    /// Nobody waits for the result any more: the activity was cancelled, or its lock passed to another worker.
    #[error("nobody waits for the activity any more")]
    Cancelled,
    /// The details are too large; nothing was recorded.
    #[error("the progress details have {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// How large they are.
        bytes: usize,
        /// How large they may be.
        limit: usize,
    },
    /// The store failed; whether they were recorded is unknown. The activity may go on.
    #[error("the progress could not be recorded")]
    Store(#[source] ProviderError),
}

/// Which activity runs, for whom and where.
#[derive(Clone)]
pub(super) struct ActivityFacts {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) activity_id: u64,
    pub(super) name: String,
    pub(super) session_id: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) orchestration_name: String,
    pub(super) orchestration_version: String,
    pub(super) worker_id: String,
    pub(super) retried: Option<RetriedCall>,
    /// How often this attempt of the policy was fetched, this time included.
    pub(super) fetches: u32,
    pub(super) lock_token: String,
    pub(super) progress: Option<String>,
}

impl ActivityFacts {
    pub(super) fn attempt(&self) -> u32 {
        let before = self.retried.map_or(0, |retried| retried.attempt.saturating_sub(1));
        before.saturating_add(self.fetches)
    }
}

impl ActivityContext {
    pub(super) fn new(
        facts: ActivityFacts,
        cancelled: CancellationToken,
        provider: Arc<dyn Provider>,
    ) -> Self {
        Self { facts: Arc::new(facts), cancelled, provider, states: Arc::default() }
    }

    pub(crate) fn with_states(self, states: Arc<States>) -> Self {
        Self { states, ..self }
    }

    /// The state of this type that the program was given with `.state(..)` on its builder.
    ///
    /// # Panics
    /// If there is none. The activity then fails with a text that names the type.
    pub fn state<T: Send + Sync + 'static>(&self) -> &T {
        self.states.get()
    }

    pub(super) fn facts(&self) -> &Arc<ActivityFacts> {
        &self.facts
    }

    /// The instance that scheduled the activity.
    pub fn instance_id(&self) -> &str {
        &self.facts.instance
    }

    /// The execution that scheduled it.
    pub fn execution_id(&self) -> u64 {
        self.facts.execution_id
    }

    /// The name of the orchestration that scheduled it.
    pub fn orchestration_name(&self) -> &str {
        &self.facts.orchestration_name
    }

    /// The version of that orchestration.
    pub fn orchestration_version(&self) -> &str {
        &self.facts.orchestration_version
    }

    /// The activity's own name.
    pub fn activity_name(&self) -> &str {
        &self.facts.name
    }

    /// The id of its `ActivityScheduled` event.
    pub fn activity_id(&self) -> u64 {
        self.facts.activity_id
    }

    /// Which attempt of the call this is, counted from 1: the attempts that its retry policy made before, and how
    /// often this one was begun, since a worker that dies in its middle is followed by another.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt()
    }

    /// A key that is the same for every attempt of this call and for no other call of this store, to be given to
    /// services that deduplicate requests. The attempts of a retry policy have one key, also when the instance is
    /// redriven between them.
    pub fn idempotency_key(&self) -> String {
        let ActivityFacts { instance, execution_id, activity_id, retried, .. } = &*self.facts;
        let (execution_id, id) = retried
            .map_or((*execution_id, *activity_id), |retried| (retried.first_execution_id, retried.first_id));
        format!("{instance}:{execution_id}:{id}")
    }

    /// The worker that runs it.
    pub fn worker_id(&self) -> &str {
        &self.facts.worker_id
    }

    /// The session it belongs to.
    pub fn session_id(&self) -> Option<&str> {
        self.facts.session_id.as_deref()
    }

    /// The tag it was scheduled with.
    pub fn tag(&self) -> Option<&str> {
        self.facts.tag.as_deref()
    }

    /// Whether nobody waits for the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Waits until nobody waits for the result any more.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The token behind [`Self::cancelled`], to hand on.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Records how far the activity is, for the next attempt if this one does not end. Each call replaces what was
    /// recorded before. It is not needed to keep the activity's lock: the runtime does that.
    ///
    /// ```
    /// # use duroxide::ActivityContext;
    /// async fn copy(ctx: ActivityContext, rows: String) -> Result<String, String> {
    ///     let rows: u64 = rows.parse().map_err(|_| "not a number".to_string())?;
    ///     let done = ctx.last_progress().and_then(|row| row.parse().ok()).unwrap_or(0);
    ///     for row in done..rows {
    ///         // Copy one row here; then it need not be copied again.
    ///         ctx.heartbeat((row + 1).to_string()).await.map_err(|error| error.to_string())?;
    ///     }
    ///     Ok(format!("{rows} rows"))
    /// }
    /// ```
    pub async fn heartbeat(&self, details: impl Into<String>) -> Result<(), HeartbeatError> {
        let details = details.into();
        if details.len() > MAX_PROGRESS_BYTES {
            return Err(HeartbeatError::TooLarge { bytes: details.len(), limit: MAX_PROGRESS_BYTES });
        }
        if self.cancelled.is_cancelled() {
            return Err(HeartbeatError::Cancelled);
        }
        match self.provider.record_progress(&self.facts.lock_token, &details).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ProviderErrorKind::LockLost => {
                self.cancelled.cancel();
                Err(HeartbeatError::Cancelled)
            }
            Err(error) => Err(HeartbeatError::Store(error)),
        }
    }

    /// What the latest attempt before this one recorded last; `None` if there was none or it recorded nothing.
    pub fn last_progress(&self) -> Option<&str> {
        self.facts.progress.as_deref()
    }

    /// A client of the store that the activity came from.
    pub fn get_client(&self) -> Client {
        Client::new(self.provider.clone())
    }

    /// Writes to the log, with fields that say which activity of which instance it is.
    pub fn trace(&self, level: impl AsRef<str>, message: impl Into<String>) {
        traces::of_activity(&self.facts, traces::level(level.as_ref()), &message.into());
    }

    /// Writes to the log at INFO.
    pub fn trace_info(&self, message: impl Into<String>) {
        traces::of_activity(&self.facts, Level::INFO, &message.into());
    }

    /// Writes to the log at WARN.
    pub fn trace_warn(&self, message: impl Into<String>) {
        traces::of_activity(&self.facts, Level::WARN, &message.into());
    }

    /// Writes to the log at ERROR.
    pub fn trace_error(&self, message: impl Into<String>) {
        traces::of_activity(&self.facts, Level::ERROR, &message.into());
    }

    /// Writes to the log at DEBUG.
    pub fn trace_debug(&self, message: impl Into<String>) {
        traces::of_activity(&self.facts, Level::DEBUG, &message.into());
    }
}

impl std::fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActivityContext")
            .field("instance", &self.facts.instance)
            .field("activity_id", &self.facts.activity_id)
            .field("name", &self.facts.name)
            .finish_non_exhaustive()
    }
}
