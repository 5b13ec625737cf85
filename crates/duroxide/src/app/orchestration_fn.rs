//! A plain function as an orchestration.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{AppError, FunctionNames, OrchestrationContext, OrchestrationHandler, decode_as, encode};
use serde::{Serialize, de::DeserializeOwned};

use super::shared::SharedCell;

/// An orchestration that is a function.
pub(crate) struct OrchestrationFn<F, In, Out> {
    pub(crate) function: F,
    pub(crate) shared: SharedCell,
    pub(crate) types: PhantomData<fn(In) -> Out>,
}

#[async_trait]
impl<F, In, Out, E, Fut> OrchestrationHandler for OrchestrationFn<F, In, Out>
where
    F: Fn(OrchestrationContext, In) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Out, E>> + Send,
    In: DeserializeOwned + Send,
    Out: Serialize + Send,
    E: AppError,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        let what = format!("input of orchestration '{}'", ctx.orchestration_name());
        let input =
            decode_as(&what, &input).map_err(|cause| format!("malformed orchestration input: {cause}"))?;
        let output = (self.function)(ctx, input).await;
        encode(&output.map_err(|error| error.to_string())?)
    }

    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        self.shared.get().map(|shared| shared.names.clone())
    }
}

/// A text-based orchestration in a program with functions: it may call them, too.
pub(crate) struct Naming {
    pub(crate) handler: Arc<dyn OrchestrationHandler>,
    pub(crate) shared: SharedCell,
}

#[async_trait]
impl OrchestrationHandler for Naming {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        self.handler.invoke(ctx, input).await
    }

    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        self.shared.get().map(|shared| shared.names.clone())
    }
}
