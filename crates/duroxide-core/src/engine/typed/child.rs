//! Calling a child orchestration by its function.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::{Serialize, de::DeserializeOwned};

use super::names::unnamed_orchestration;
use super::{AppError, CallError, OrchestrationParameter};
use crate::engine::behaviour::OutputOf;
use crate::engine::commands::{Command, Schedule};
use crate::engine::slot::{Failed, Slot};
use crate::engine::{DurableFuture, OrchestrationContext};
use crate::model::check_child_instance_id;

impl OrchestrationContext {
    /// Runs another orchestration as a child, in the version of the function. It is scheduled by this call.
    #[track_caller]
    pub fn child<F, C, In, Out, E, Fut>(&self, orchestration: F, input: In) -> Child<Out, E>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
        In: Serialize,
        Out: DeserializeOwned,
        E: AppError,
    {
        // The type tells which function it is.
        drop(orchestration);
        let Some(named) = self.names().orchestration::<F>() else {
            self.desk.push(Command::Unnamed { text: unnamed_orchestration::<F>() });
            return Child::new(
                self,
                "".into(),
                Running::Refused("the orchestration has no name".to_string()),
            );
        };
        match self.encode(&input) {
            Ok(input) => {
                let version = named.version.as_ref().map(ToString::to_string);
                Child::schedule(self, named.name.clone(), version, input)
            }
            Err(cause) => Child::new(self, named.name.clone(), Running::Refused(cause)),
        }
    }
}

/// A child orchestration, scheduled and to be awaited. Dropping it before its result was taken cancels it.
#[must_use = "a child that is dropped is cancelled; await it, or keep it"]
pub struct Child<T, E> {
    ctx: OrchestrationContext,
    name: Arc<str>,
    running: Running,
    types: PhantomData<fn() -> (T, E)>,
}

enum Running {
    /// The call itself was wrong.
    Refused(String),
    Scheduled {
        slot: Arc<Slot>,
        future: DurableFuture<Result<String, Failed>>,
    },
    Done,
}

impl<T, E> Child<T, E> {
    #[track_caller]
    fn schedule(ctx: &OrchestrationContext, name: Arc<str>, version: Option<String>, input: String) -> Self {
        let slot = Slot::new(false);
        let what = Schedule::Child { name: name.to_string(), version, instance: None, input };
        ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        let future = DurableFuture::scheduled(slot.clone(), ctx.desk.clone(), |result| result);
        Self::new(ctx, name, Running::Scheduled { slot, future })
    }

    fn new(ctx: &OrchestrationContext, name: Arc<str>, running: Running) -> Self {
        Self { ctx: ctx.clone(), name, running, types: PhantomData }
    }

    /// Gives the child an id of its own. Must directly follow the call.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn with_id(self, instance: impl Into<String>) -> Self {
        let instance = instance.into();
        let checked = check_child_instance_id(&instance);
        if let Running::Scheduled { slot, .. } = &self.running {
            let set = slot.set_call_option("with_id", |options| match checked {
                Ok(()) => options.child_id = Some(instance),
                Err(cause) => options.refused = Some(cause),
            });
            if let Err(cause) = set {
                panic!("{cause}");
            }
        }
        self
    }
}

impl<T: DeserializeOwned, E: AppError> Future for Child<T, E> {
    type Output = Result<T, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match std::mem::replace(&mut self.running, Running::Done) {
            Running::Refused(cause) => return Poll::Ready(Err(CallError::other(cause))),
            Running::Scheduled { slot, mut future } => match Pin::new(&mut future).poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => {
                    self.running = Running::Scheduled { slot, future };
                    return Poll::Pending;
                }
            },
            Running::Done => panic!("a child was polled after it had completed"),
        };
        Poll::Ready(result.map_err(CallError::from_failed).and_then(|text| {
            let decoded = self.ctx.behaviour().decode(OutputOf::child(&self.name), &text);
            decoded.map_err(CallError::other)
        }))
    }
}

// What is inside is never pinned: the slot is shared.
impl<T, E> Unpin for Child<T, E> {}

impl<T, E> std::fmt::Debug for Child<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").field("orchestration", &self.name).finish_non_exhaustive()
    }
}
