//! Scheduling activities, timers and waits by name.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::behaviour::{Behaviour, OutputOf};
use super::commands::Schedule;
use super::context::{Text, decode_result};
use super::{DurableFuture, OrchestrationContext};

impl OrchestrationContext {
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
        let output = decode_result(self.behaviour(), OutputOf::activity(name.clone()));
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
        let output = decode_result(self.behaviour(), OutputOf::activity(name.clone()));
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
}

/// Whole milliseconds, as a timer counts them.
pub(super) fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
