//! What the engine runs.

use std::sync::Arc;

use async_trait::async_trait;

use super::{FunctionNames, OrchestrationContext};

/// An orchestration's code. Closures are registered as handlers; implement it to keep state of your own.
#[async_trait]
pub trait OrchestrationHandler: Send + Sync {
    /// Runs the orchestration. Called again, with the same input, for every replay.
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String>;

    /// The names of the functions that the orchestration may call by function. None by default.
    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        None
    }
}
