//! Replacing handlers by function.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use duroxide_core::{
    AppError, CallError, FunctionName, FunctionNames, OrchestrationContext, decode_as, encode,
    unnamed_activity, unnamed_orchestration,
};
use serde::{Serialize, de::DeserializeOwned};

use super::watched::HandlerId;
use crate::runtime::ActivityContext;

/// The first parameter of a handler that a test can replace: `ActivityContext` or `OrchestrationContext`.
#[diagnostic::on_unimplemented(
    message = "this function is neither an activity nor an orchestration: its first parameter is `{Self}`",
    label = "neither an activity nor an orchestration",
    note = "an activity is `async fn name(ctx: ActivityContext, input: In) -> Result<Out, E>`",
    note = "an orchestration is `async fn name(ctx: OrchestrationContext, input: In) -> Result<Out, E>`"
)]
pub trait Mockable: Sized + Send + 'static + sealed::Sealed {
    #[doc(hidden)]
    fn name_of<F: 'static>(names: &FunctionNames) -> Result<FunctionName, String>;

    #[doc(hidden)]
    fn any(mock: Mock<Self>) -> AnyMock;

    /// Why a call of this kind cannot fail like this; `None` if it can.
    #[doc(hidden)]
    fn cannot_fail_with(kind: &MockFailure) -> Option<&'static str>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::runtime::ActivityContext {}
    impl Sealed for duroxide_core::OrchestrationContext {}
}

impl Mockable for ActivityContext {
    fn name_of<F: 'static>(names: &FunctionNames) -> Result<FunctionName, String> {
        names.activity::<F>().cloned().ok_or_else(unnamed_activity::<F>)
    }

    fn any(mock: Mock<Self>) -> AnyMock {
        AnyMock::Activity(mock)
    }

    fn cannot_fail_with(_kind: &MockFailure) -> Option<&'static str> {
        None
    }
}

impl Mockable for OrchestrationContext {
    fn name_of<F: 'static>(names: &FunctionNames) -> Result<FunctionName, String> {
        names.orchestration::<F>().cloned().ok_or_else(unnamed_orchestration::<F>)
    }

    fn any(mock: Mock<Self>) -> AnyMock {
        AnyMock::Orchestration(mock)
    }

    fn cannot_fail_with(kind: &MockFailure) -> Option<&'static str> {
        match kind {
            MockFailure::TimedOut { .. } => Some("a child orchestration has no deadline of its own"),
            MockFailure::App { .. }
            | MockFailure::Cancelled { .. }
            | MockFailure::Panicked { .. }
            | MockFailure::Poisoned { .. }
            | MockFailure::Other { .. } => None,
        }
    }
}

/// The id of a function's handler.
pub(super) fn id_of<C: Mockable, F: 'static>(names: &FunctionNames) -> HandlerId {
    match C::name_of::<F>(names) {
        Ok(named) => HandlerId::of(&named),
        Err(text) => panic!("{text}"),
    }
}

/// How a mock failed.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum MockFailure {
    App { text: String, json: Option<String> },
    TimedOut { message: String },
    Cancelled { reason: String },
    Panicked { message: String },
    Poisoned { message: String },
    Other { message: String },
}

impl MockFailure {
    pub(super) fn of<E: AppError>(error: CallError<E>) -> Self {
        match error {
            CallError::App(error) => {
                Self::App { text: error.to_string(), json: serde_json::to_string(&error).ok() }
            }
            CallError::TimedOut { message } => Self::TimedOut { message },
            CallError::Cancelled { reason } => Self::Cancelled { reason },
            CallError::Panicked { message } => Self::Panicked { message },
            CallError::Poisoned { message } => Self::Poisoned { message },
            CallError::Other { message } => Self::Other { message },
            // A kind that this build does not know.
            unknown => Self::Other { message: unknown.to_string() },
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<String, MockFailure>> + Send>>;

/// What runs instead of a handler.
#[doc(hidden)]
pub struct Mock<C> {
    run: Arc<dyn Fn(C, String) -> Answer + Send + Sync>,
}

impl<C> Clone for Mock<C> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone() }
    }
}

impl<C: 'static> Mock<C> {
    /// A function of the same shape.
    pub(super) fn new<In, Out, E, Fut>(mock: impl Fn(C, In) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Out, E>> + Send + 'static,
        In: DeserializeOwned,
        Out: Serialize,
        E: AppError,
    {
        let run = move |ctx: C, input: String| -> Answer {
            match decode_as("input of a mock", &input) {
                Ok(input) => {
                    let answer = mock(ctx, input);
                    Box::pin(async move {
                        let output = answer.await.map_err(|error| MockFailure::of(CallError::App(error)))?;
                        encode(&output).map_err(|text| MockFailure::App { text, json: None })
                    })
                }
                Err(text) => Box::pin(async move { Err(MockFailure::App { text, json: None }) }),
            }
        };
        Self { run: Arc::new(run) }
    }

    /// Always the same failure.
    pub(super) fn failing(failure: MockFailure) -> Self {
        Self {
            run: Arc::new(move |_, _| {
                let failure = failure.clone();
                Box::pin(async move { Err(failure) })
            }),
        }
    }

    pub(super) fn run(&self, ctx: C, input: String) -> Answer {
        (self.run)(ctx, input)
    }
}

/// A mock of either kind.
#[doc(hidden)]
#[derive(Clone)]
pub enum AnyMock {
    Activity(Mock<ActivityContext>),
    Orchestration(Mock<OrchestrationContext>),
}

impl std::fmt::Debug for AnyMock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Activity(_) => "Activity",
            Self::Orchestration(_) => "Orchestration",
        })
    }
}

impl<C> std::fmt::Debug for Mock<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mock").finish_non_exhaustive()
    }
}
