//! Waiting for events and queue messages of a type.

use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::engine::{DurableFuture, OrchestrationContext};

/// The name of an event and the type of its data: `const APPROVED: EventName<Approval> = EventName::new("approved");`
pub struct EventName<T> {
    name: &'static str,
    data: PhantomData<fn() -> T>,
}

/// The name of a queue and the type of its messages: `const LINES: QueueName<Line> = QueueName::new("lines");`
pub struct QueueName<T> {
    name: &'static str,
    data: PhantomData<fn() -> T>,
}

/// The data of an event or message is not of the type that was waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed event: {message}")]
pub struct MalformedPayload {
    message: String,
}

macro_rules! name_of_a_type {
    ($name:ident, $what:literal) => {
        impl<T> $name<T> {
            #[doc = concat!("Names ", $what, ".")]
            pub const fn new(name: &'static str) -> Self {
                Self { name, data: PhantomData }
            }

            /// The name itself.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> Debug for $name<T> {
            fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.name).finish()
            }
        }
    };
}

name_of_a_type!(EventName, "an event");
name_of_a_type!(QueueName, "a queue");

impl OrchestrationContext {
    /// Waits for an event: the Nth wait for a name gets the Nth event of that name.
    ///
    /// Data of another type unwinds at the await; see [`Self::try_wait`].
    #[track_caller]
    pub fn wait<T: DeserializeOwned + 'static>(&self, event: EventName<T>) -> DurableFuture<T> {
        self.schedule_wait_typed(event.name)
    }

    /// [`Self::wait`] with an error where the data is of another type.
    #[track_caller]
    pub fn try_wait<T: DeserializeOwned + 'static>(
        &self,
        event: EventName<T>,
    ) -> DurableFuture<Result<T, MalformedPayload>> {
        let what = format!("data of event '{}'", event.name);
        let behaviour = self.behaviour();
        self.schedule_wait(event.name)
            .map(move |data| behaviour.decode(&what, &data).map_err(|message| MalformedPayload { message }))
    }

    /// Takes the next message of a queue, first in, first out.
    ///
    /// Data of another type unwinds at the await; see [`Self::try_dequeue`].
    #[track_caller]
    pub fn dequeue<T: DeserializeOwned + 'static>(&self, queue: QueueName<T>) -> DurableFuture<T> {
        self.dequeue_event_typed(queue.name)
    }

    /// [`Self::dequeue`] with an error where the data is of another type. The message is taken all the same.
    #[track_caller]
    pub fn try_dequeue<T: DeserializeOwned + 'static>(
        &self,
        queue: QueueName<T>,
    ) -> DurableFuture<Result<T, MalformedPayload>> {
        let what = format!("message of queue '{}'", queue.name);
        let behaviour = self.behaviour();
        self.dequeue_event(queue.name)
            .map(move |data| behaviour.decode(&what, &data).map_err(|message| MalformedPayload { message }))
    }
}
