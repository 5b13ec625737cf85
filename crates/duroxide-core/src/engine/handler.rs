//! What the engine runs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::{FunctionNames, OrchestrationContext};
use crate::model::CancelPolicy;

/// An orchestration's code. Closures are registered as handlers; implement it to keep state of your own.
#[async_trait]
pub trait OrchestrationHandler: Send + Sync {
    /// Runs the orchestration. Called again, with the same input, for every replay.
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String>;

    /// The same, for handlers whose errors are more than a text. This is what the engine calls.
    async fn run(&self, ctx: OrchestrationContext, input: String) -> Result<String, HandlerError> {
        Ok(self.invoke(ctx, input).await?)
    }

    /// Lets executions go on for a while after a cancel, to undo what they did: see
    /// [`OrchestrationContext::cancellable`]. Recorded when an execution begins. By default a cancel ends them.
    fn cancel_policy(&self) -> Option<CancelPolicy> {
        None
    }

    /// The names of the functions that the orchestration may call by function. None by default.
    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        None
    }
}

/// The error of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError {
    /// The text that logs, clients and programs of the text API see.
    pub message: String,
    /// The error itself as JSON, for callers that know its type. Recorded beside the text; dropped with a warning if
    /// it is above the limit of a payload.
    pub error: Option<String>,
}

impl From<String> for HandlerError {
    fn from(message: String) -> Self {
        Self { message, error: None }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HandlerError {}
