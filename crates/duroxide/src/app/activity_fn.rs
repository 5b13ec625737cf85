//! A plain function as an activity.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use duroxide_core::{ActivityParameter, AppError, HandlerError, decode_as, encode};
use serde::{Serialize, de::DeserializeOwned};

use super::shared::{SharedCell, handler_error};
use crate::runtime::ActivityContext;
use crate::runtime::registry::ActivityHandler;

impl ActivityParameter for ActivityContext {}

/// An activity that is a function.
pub(crate) struct ActivityFn<F, In, Out> {
    pub(crate) function: F,
    pub(crate) shared: SharedCell,
    pub(crate) types: PhantomData<fn(In) -> Out>,
}

#[async_trait]
impl<F, In, Out, E, Fut> ActivityHandler for ActivityFn<F, In, Out>
where
    F: Fn(ActivityContext, In) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Out, E>> + Send,
    In: DeserializeOwned + Send,
    Out: Serialize + Send,
    E: AppError,
{
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        self.run(ctx, input).await.map_err(|error| error.message)
    }

    async fn run(&self, ctx: ActivityContext, input: String) -> Result<String, HandlerError> {
        let decoded = decode_as(format_args!("input of activity '{}'", ctx.activity_name()), &input);
        let input = decoded.map_err(|cause| format!("malformed activity input: {cause}"))?;
        let states = self.shared.get().map(|shared| shared.states.clone()).unwrap_or_default();
        match (self.function)(ctx.with_states(states), input).await {
            Ok(output) => Ok(encode(&output)?),
            Err(error) => Err(handler_error(&error)),
        }
    }

    fn records_panics(&self) -> bool {
        true
    }
}
