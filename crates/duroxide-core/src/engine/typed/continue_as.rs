//! The next execution by function, and starts that nothing waits for.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Serialize;

use super::OrchestrationParameter;
use super::names::unnamed_orchestration;
use crate::engine::OrchestrationContext;
use crate::engine::commands::Command;
use crate::model::encode;

impl OrchestrationContext {
    /// Ends this execution and starts the next one with a fresh history, in the version of the function. The function must
    /// have the name of this orchestration.
    ///
    /// Takes effect when called; the future never resolves.
    #[track_caller]
    pub fn continue_as<F, C, In, Out, Fut>(&self, orchestration: F, input: In) -> ContinueAs<Out>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Out>,
        In: Serialize,
    {
        // The type tells which function it is.
        drop(orchestration);
        let own_name = self.orchestration_name();
        match (self.names().orchestration::<F>(), encode(&input)) {
            (None, _) => self.desk.push(Command::Unnamed { text: unnamed_orchestration::<F>() }),
            (Some(_), Err(message)) => self.desk.push(Command::Violate { message }),
            (Some(named), Ok(_)) if *named.name != *own_name => {
                let message = format!(
                    "continue_as was given '{}' in an execution of '{own_name}': an instance keeps its orchestration; \
                     start '{}' as a child, or detached",
                    named.name, named.name
                );
                self.desk.push(Command::Violate { message });
            }
            (Some(named), Ok(input)) => {
                let version = named.version.as_ref().map(ToString::to_string);
                // It takes effect when called; what it returns never resolves.
                let _never = self.next_execution(input, version);
            }
        }
        ContinueAs { output: PhantomData }
    }

    /// Starts an instance in the version of the function, and does not wait for it. If the id exists, nothing happens.
    #[track_caller]
    pub fn start<F, C, In, Out, Fut>(&self, orchestration: F, instance: impl Into<String>, input: In)
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Out>,
        In: Serialize,
    {
        // The type tells which function it is.
        drop(orchestration);
        let Some(named) = self.names().orchestration::<F>() else {
            self.desk.push(Command::Unnamed { text: unnamed_orchestration::<F>() });
            return;
        };
        let version = named.version.as_ref().map(ToString::to_string);
        self.schedule_orchestration_versioned_typed(&*named.name, version, instance, &input);
    }
}

/// What [`OrchestrationContext::continue_as`] returns: never resolves, because the execution ends where it was called.
#[derive(Debug)]
pub struct ContinueAs<T> {
    output: PhantomData<fn() -> T>,
}

impl<T> Future for ContinueAs<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<T> {
        Poll::Pending
    }
}
