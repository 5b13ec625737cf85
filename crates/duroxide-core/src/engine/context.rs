//! What an orchestration can do. Everything it does through the context is recorded and replayed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, de::DeserializeOwned};

use super::behaviour::Behaviour;
use super::slot::{Command, Desk, Failed, Schedule, Slot, Syscall};
use super::{DurableFuture, FunctionNames};
use crate::model::{check_child_instance_id, check_version, encode, encode_before_1_1};

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

    // ---- Activities ----

    /// Runs an activity somewhere in the cluster, at least once.
    #[track_caller]
    pub fn schedule_activity(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        let what = Schedule::Activity { name: name.into(), input: input.into(), session_id: None };
        self.schedule(what, |result| result)
    }

    /// [`Self::schedule_activity`] with typed input and output.
    #[track_caller]
    pub fn schedule_activity_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), output_of_activity(&name));
        match self.encode(input) {
            Ok(input) => self.schedule_activity(name, input).map(output),
            Err(cause) => DurableFuture::refused(cause, true, output),
        }
    }

    /// Runs an activity on the worker that owns the session.
    #[track_caller]
    pub fn schedule_activity_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        session_id: impl Into<String>,
    ) -> DurableFuture<Text> {
        let session_id = Some(session_id.into());
        self.schedule(Schedule::Activity { name: name.into(), input: input.into(), session_id }, |result| {
            result
        })
    }

    /// [`Self::schedule_activity_on_session`] with typed input and output.
    #[track_caller]
    pub fn schedule_activity_on_session_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
        session_id: impl Into<String>,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), output_of_activity(&name));
        match self.encode(input) {
            Ok(input) => self.schedule_activity_on_session(name, input, session_id).map(output),
            Err(cause) => DurableFuture::refused(cause, true, output),
        }
    }

    // ---- Time ----

    /// Waits for a while; the deadline survives crashes.
    #[track_caller]
    pub fn schedule_timer(&self, delay: Duration) -> DurableFuture<()> {
        self.schedule(Schedule::Timer { delay_ms: duration_ms(delay) }, |_| ())
    }

    // ---- Events ----

    /// Waits for an event: the Nth wait for a name gets the Nth event of that name.
    #[track_caller]
    pub fn schedule_wait(&self, name: impl Into<String>) -> DurableFuture<String> {
        self.schedule(Schedule::Wait { name: name.into() }, event_data)
    }

    /// [`Self::schedule_wait`] with typed data.
    ///
    /// Data of another type unwinds at the await, where `catch_unwind` can catch it.
    #[track_caller]
    pub fn schedule_wait_typed<T: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
    ) -> DurableFuture<T> {
        let name = name.into();
        let what = format!("data of event '{name}'");
        self.schedule_wait(name).map(decode_event(self.behaviour(), what))
    }

    /// Takes the next message of a queue, first in, first out.
    #[track_caller]
    pub fn dequeue_event(&self, queue: impl Into<String>) -> DurableFuture<String> {
        self.schedule(Schedule::Dequeue { queue: queue.into() }, event_data)
    }

    /// [`Self::dequeue_event`] with typed data.
    ///
    /// Data of another type unwinds at the await, where `catch_unwind` can catch it.
    #[track_caller]
    pub fn dequeue_event_typed<T: DeserializeOwned + 'static>(
        &self,
        queue: impl Into<String>,
    ) -> DurableFuture<T> {
        let queue = queue.into();
        let what = format!("message of queue '{queue}'");
        self.dequeue_event(queue).map(decode_event(self.behaviour(), what))
    }

    /// The older name of [`Self::dequeue_event`].
    #[deprecated(note = "use dequeue_event")]
    #[track_caller]
    pub fn schedule_wait_persistent(&self, queue: impl Into<String>) -> DurableFuture<String> {
        self.dequeue_event(queue)
    }

    /// The older name of [`Self::dequeue_event_typed`].
    #[deprecated(note = "use dequeue_event_typed")]
    #[track_caller]
    pub fn schedule_wait_persistent_typed<T: DeserializeOwned + 'static>(
        &self,
        queue: impl Into<String>,
    ) -> DurableFuture<T> {
        self.dequeue_event_typed(queue)
    }

    // ---- Children ----

    /// Runs another orchestration as a child and waits for its result.
    #[track_caller]
    pub fn schedule_sub_orchestration(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), None, None, input.into())
    }

    /// A child with an id of its own.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), None, Some(instance.into()), input.into())
    }

    /// A child of a given version; `None` leaves it to the version policy.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), version, None, input.into())
    }

    /// A child of a given version with an id of its own.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned_with_id(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), version, Some(instance.into()), input.into())
    }

    /// A child with typed input and output.
    #[track_caller]
    pub fn schedule_sub_orchestration_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), output_of_child(&name));
        match self.encode(input) {
            Ok(input) => self.schedule_sub_orchestration(name, input).map(output),
            Err(cause) => DurableFuture::refused(cause, false, output),
        }
    }

    /// A child with an id of its own and typed input and output.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), output_of_child(&name));
        match self.encode(input) {
            Ok(input) => self.schedule_sub_orchestration_with_id(name, instance, input).map(output),
            Err(cause) => DurableFuture::refused(cause, false, output),
        }
    }

    #[track_caller]
    pub(super) fn child_by_name(
        &self,
        name: String,
        version: Option<String>,
        instance: Option<String>,
        input: String,
    ) -> DurableFuture<Text> {
        // Both checks depend on the arguments alone, so a replay finds the same without a record.
        let checked = instance
            .as_deref()
            .map_or(Ok(()), check_child_instance_id)
            .and_then(|()| version.as_deref().map_or(Ok(()), |version| check_version(version).map(drop)));
        match checked {
            Ok(()) => self.schedule(Schedule::Child { name, version, instance, input }, |result| result),
            Err(cause) => DurableFuture::refused(cause, false, |result| result),
        }
    }

    // ---- Detached starts ----

    /// Starts an instance and does not wait for it. If the id exists, nothing happens.
    #[track_caller]
    pub fn schedule_orchestration(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.schedule_orchestration_versioned(name, None, instance, input);
    }

    /// [`Self::schedule_orchestration`] with typed input.
    #[track_caller]
    pub fn schedule_orchestration_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        self.schedule_orchestration_versioned_typed(name, None, instance, input);
    }

    /// Starts an instance of a given version and does not wait for it.
    #[track_caller]
    pub fn schedule_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.desk.push(Command::Detach {
            name: name.into(),
            version,
            instance: instance.into(),
            input: input.into(),
        });
    }

    /// [`Self::schedule_orchestration_versioned`] with typed input.
    #[track_caller]
    pub fn schedule_orchestration_versioned_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        match self.encode(input) {
            Ok(input) => self.schedule_orchestration_versioned(name, version, instance, input),
            Err(message) => self.desk.push(Command::Violate { message }),
        }
    }

    // ---- The next execution ----

    /// Ends this execution and starts the next one of the same instance with a fresh history.
    ///
    /// Takes effect when called, also without `.await`; the future never resolves.
    #[track_caller]
    pub fn continue_as_new(&self, input: impl Into<String>) -> ContinuedAsNew {
        self.next_execution(input.into(), None)
    }

    /// [`Self::continue_as_new`] with typed input.
    #[track_caller]
    pub fn continue_as_new_typed<In: Serialize>(&self, input: &In) -> ContinuedAsNew {
        match encode(input) {
            Ok(input) => self.next_execution(input, None),
            Err(message) => {
                self.desk.push(Command::Violate { message });
                ContinuedAsNew
            }
        }
    }

    /// [`Self::continue_as_new`] as another version.
    #[track_caller]
    pub fn continue_as_new_versioned(
        &self,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> ContinuedAsNew {
        self.next_execution(input.into(), Some(version.into()))
    }

    #[track_caller]
    pub(super) fn next_execution(&self, input: String, version: Option<String>) -> ContinuedAsNew {
        self.desk.change(|view, commands| {
            let custom_status = view.custom_status.clone();
            commands.push(Command::ContinueAsNew { input, version, custom_status });
        });
        ContinuedAsNew
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

/// What `continue_as_new` returns: never resolves, because the execution ends where it was called.
///
/// It may be dropped without being awaited.
#[derive(Debug)]
pub struct ContinuedAsNew;

impl Future for ContinuedAsNew {
    type Output = Text;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Text> {
        Poll::Pending
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
    what: String,
) -> impl FnOnce(Text) -> Result<T, String> + Send + 'static {
    move |result| behaviour.decode(&what, &result?)
}

/// Whole milliseconds, as a timer counts them.
pub(super) fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn output_of_activity(name: &str) -> String {
    format!("output of activity '{name}'")
}

pub(super) fn output_of_child(name: &str) -> String {
    format!("output of sub-orchestration '{name}'")
}

fn event_data(result: Text) -> String {
    result.expect("waits and queues are resolved with data, never with an error")
}

/// Decodes the data of an event or message, or unwinds with a text that says of which.
fn decode_event<T: DeserializeOwned>(
    behaviour: Behaviour,
    what: String,
) -> impl FnOnce(String) -> T + Send + 'static {
    move |data| match behaviour.decode(&what, &data) {
        Ok(value) => value,
        Err(cause) => panic!("malformed event: {cause}"),
    }
}
