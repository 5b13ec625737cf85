//! A plain function as an orchestration.

use std::any::TypeId;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{
    AppError, CancelPolicy, FunctionNames, HandlerError, OrchestrationContext, OrchestrationHandler,
    decode_as, encode,
};
use serde::{Serialize, de::DeserializeOwned};

use super::shared::{SharedCell, handler_error};
use crate::runtime::registry::InputOf;

/// An orchestration that is a function.
pub(crate) struct OrchestrationFn<F, In, Out> {
    pub(crate) function: F,
    pub(crate) shared: SharedCell,
    pub(crate) types: PhantomData<fn(In) -> Out>,
}

#[async_trait]
impl<F, In, Out, E, Fut> OrchestrationHandler for OrchestrationFn<F, In, Out>
where
    F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Out, E>> + Send,
    In: DeserializeOwned + Send,
    Out: Serialize + Send,
    E: AppError,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        self.run(ctx, input).await.map_err(|error| error.message)
    }

    async fn run(&self, ctx: OrchestrationContext, input: String) -> Result<String, HandlerError> {
        let decoded = decode_as(InputOf(&ctx), &input);
        let input = decoded.map_err(|cause| format!("malformed orchestration input: {cause}"))?;
        match (self.function)(ctx, input).await {
            Ok(output) => Ok(encode(&output)?),
            Err(error) => Err(handler_error(&error)),
        }
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        self.shared.get()?.cancel_policies.get(&TypeId::of::<F>()).copied()
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

    async fn run(&self, ctx: OrchestrationContext, input: String) -> Result<String, HandlerError> {
        self.handler.run(ctx, input).await
    }

    fn cancel_policy(&self) -> Option<CancelPolicy> {
        self.handler.cancel_policy()
    }

    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        self.shared.get().map(|shared| shared.names.clone())
    }
}
