//! Activities by name.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{HandlerError, SYSCALL_PREFIX, decode_as, encode};
use serde::{Serialize, de::DeserializeOwned};

use super::by_version::{DEFAULT_VERSION, Registry, RegistryBuilder};
use crate::runtime::ActivityContext;

/// An activity's code. Closures are registered as handlers; implement it to keep state of your own.
#[async_trait]
pub trait ActivityHandler: Send + Sync {
    /// Runs the activity. May be called again after a crash: make it idempotent.
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String>;

    /// The same, for handlers whose errors are more than a text. This is what a worker calls.
    async fn run(&self, ctx: ActivityContext, input: String) -> Result<String, HandlerError> {
        Ok(self.invoke(ctx, input).await?)
    }

    /// Whether a panic is recorded as one, beside its text, so that callers can tell it from an error of the handler.
    fn records_panics(&self) -> bool {
        false
    }
}

/// The activities that a node can run. Each has version 1.0.0.
pub type ActivityRegistry = Registry<dyn ActivityHandler>;

/// Gathers activities. Mistakes are reported by [`RegistryBuilder::build_result`], or by a panic of
/// [`RegistryBuilder::build`].
pub type ActivityRegistryBuilder = RegistryBuilder<dyn ActivityHandler>;

/// What the handlers are of.
const WHAT: &str = "activity";

impl Registry<dyn ActivityHandler> {
    /// An empty builder.
    pub fn builder() -> ActivityRegistryBuilder {
        ActivityRegistryBuilder::default()
    }

    /// A builder that holds what `registry` holds.
    pub fn builder_from(registry: &Self) -> ActivityRegistryBuilder {
        ActivityRegistryBuilder::from_registry(registry)
    }
}

impl Default for RegistryBuilder<dyn ActivityHandler> {
    fn default() -> Self {
        Self::empty(WHAT)
    }
}

impl RegistryBuilder<dyn ActivityHandler> {
    /// A builder that holds what `registry` holds.
    pub fn from_registry(registry: &ActivityRegistry) -> Self {
        Self::holding(WHAT, registry)
    }

    /// Registers an activity.
    #[must_use]
    pub fn register<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.add(name.into(), Arc::new(Plain(handler)))
    }

    /// Registers an activity with typed input and output.
    #[must_use]
    pub fn register_typed<In, Out, F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(ActivityContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        self.add(name.into(), Arc::new(Typed { handler, types: PhantomData }))
    }

    /// Registers an activity that implements [`ActivityHandler`] itself.
    #[must_use]
    pub fn register_handler(self, name: impl Into<String>, handler: Arc<dyn ActivityHandler>) -> Self {
        self.add(name.into(), handler)
    }

    /// Registers several activities.
    #[must_use]
    pub fn register_all<F, Fut>(self, activities: Vec<(&str, F)>) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        activities.into_iter().fold(self, |builder, (name, handler)| builder.register(name, handler))
    }

    fn add(mut self, name: String, handler: Arc<dyn ActivityHandler>) -> Self {
        if name.starts_with(SYSCALL_PREFIX) {
            self.errors.push(format!(
                "activity name '{name}' uses reserved prefix '{SYSCALL_PREFIX}': choose another name"
            ));
            return self;
        }
        self.insert(name, DEFAULT_VERSION, handler)
    }
}

struct Plain<F>(F);

#[async_trait]
impl<F, Fut> ActivityHandler for Plain<F>
where
    F: Fn(ActivityContext, String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, String>> + Send,
{
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        (self.0)(ctx, input).await
    }
}

struct Typed<In, Out, F> {
    handler: F,
    types: PhantomData<fn(In) -> Out>,
}

#[async_trait]
impl<In, Out, F, Fut> ActivityHandler for Typed<In, Out, F>
where
    In: DeserializeOwned + Send,
    Out: Serialize + Send,
    F: Fn(ActivityContext, In) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Out, String>> + Send,
{
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        let decoded = decode_as(format_args!("input of activity '{}'", ctx.activity_name()), &input);
        let input = decoded.map_err(|cause| format!("malformed activity input: {cause}"))?;
        let output = (self.handler)(ctx, input).await?;
        encode(&output)
    }
}
