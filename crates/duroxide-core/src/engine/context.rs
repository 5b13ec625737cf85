//! What an orchestration can do. Everything it does through the context is recorded and replayed.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, de::DeserializeOwned};

use super::behaviour::Behaviour;
use super::commands::{Command, Schedule, Syscall};
use super::desk::Desk;
use super::slot::{Failed, Slot};
use super::{DurableFuture, FunctionNames};
use crate::model::{encode, encode_before_1_1};

/// Who is running; fixed for an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) name: String,
    pub(super) version: String,
    /// The rules by which its history is recorded.
    pub(super) behaviour: Behaviour,
    /// The functions that it can call by themselves.
    pub(super) names: Arc<FunctionNames>,
}

/// An orchestration's way to the outside. Cheap to clone.
#[derive(Clone)]
pub struct OrchestrationContext {
    pub(super) desk: Arc<Desk>,
    identity: Arc<Identity>,
}

/// What an activity or a child gives.
pub(super) type Text = Result<String, String>;

impl OrchestrationContext {
    pub(super) fn new(desk: Arc<Desk>, identity: Arc<Identity>) -> Self {
        Self { desk, identity }
    }

    #[track_caller]
    pub(super) fn schedule<T>(
        &self,
        what: Schedule,
        finish: impl FnOnce(Text) -> T + Send + 'static,
    ) -> DurableFuture<T> {
        let slot = Slot::new(matches!(what, Schedule::Activity { .. }));
        self.desk.push(Command::Schedule { slot: slot.clone(), what });
        let finish = move |result: Result<String, Failed>| finish(result.map_err(|failed| failed.text));
        DurableFuture::scheduled(slot, self.desk.clone(), finish)
    }

    pub(super) fn names(&self) -> &FunctionNames {
        &self.identity.names
    }

    pub(super) fn behaviour(&self) -> Behaviour {
        self.identity.behaviour
    }

    /// A value as this execution records it.
    pub(super) fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<String, String> {
        if self.behaviour().values_come_back_as_they_were() {
            encode(value)
        } else {
            encode_before_1_1(value)
        }
    }

    // ---- Deterministic values ----

    /// A random UUID (version 4), the same at every replay.
    #[track_caller]
    pub fn new_guid(&self) -> DurableFuture<Text> {
        self.schedule(Schedule::Syscall(Syscall::NewGuid), |result| result)
    }

    /// The time of the turn that asks, the same at every replay.
    #[track_caller]
    pub fn utc_now(&self) -> DurableFuture<Result<SystemTime, String>> {
        self.schedule(Schedule::Syscall(Syscall::UtcNow), |result| {
            let text = result?;
            let ms: u64 =
                text.parse().map_err(|_| "the recorded time is not a number of milliseconds".to_string())?;
            UNIX_EPOCH
                .checked_add(Duration::from_millis(ms))
                .ok_or_else(|| "the recorded time lies beyond what this system can express".to_string())
        })
    }

    // ---- Log ----

    /// Writes to the log once, not again at a replay.
    pub fn trace(&self, level: impl Into<String>, message: impl Into<String>) {
        self.desk.trace(level.into(), message.into());
    }

    /// Writes to the log at INFO, once.
    pub fn trace_info(&self, message: impl Into<String>) {
        self.trace("info", message);
    }

    /// Writes to the log at WARN, once.
    pub fn trace_warn(&self, message: impl Into<String>) {
        self.trace("warn", message);
    }

    /// Writes to the log at ERROR, once.
    pub fn trace_error(&self, message: impl Into<String>) {
        self.trace("error", message);
    }

    /// Writes to the log at DEBUG, once.
    pub fn trace_debug(&self, message: impl Into<String>) {
        self.trace("debug", message);
    }

    // ---- Who am I ----

    /// Whether what runs now has run before.
    pub fn is_replaying(&self) -> bool {
        self.desk.is_replaying()
    }

    /// The instance's id.
    pub fn instance_id(&self) -> String {
        self.identity.instance.clone()
    }

    /// The number of this execution, counted from 1.
    pub fn execution_id(&self) -> u64 {
        self.desk.view(|view| view.execution_id)
    }

    /// The orchestration's name.
    pub fn orchestration_name(&self) -> String {
        self.identity.name.clone()
    }

    /// The version of the handler that runs.
    pub fn orchestration_version(&self) -> String {
        self.identity.version.clone()
    }
}

impl std::fmt::Debug for OrchestrationContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrchestrationContext").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Decodes a result. The error says what it was, such as `output of activity 'Charge'`.
pub(super) fn decode_result<T: DeserializeOwned>(
    behaviour: Behaviour,
    what: impl Display + Send + 'static,
) -> impl FnOnce(Text) -> Result<T, String> + Send + 'static {
    move |result| behaviour.decode(what, &result?)
}
