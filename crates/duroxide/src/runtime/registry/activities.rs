//! Activities by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{SYSCALL_PREFIX, check_name, decode, encode};
use serde::{Serialize, de::DeserializeOwned};

use super::checked;
use crate::runtime::ActivityContext;

/// An activity's code. Closures are registered as handlers; implement it to keep state of your own.
#[async_trait]
pub trait ActivityHandler: Send + Sync {
    /// Runs the activity. May be called again after a crash: make it idempotent.
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String>;
}

/// The activities that a node can run.
#[derive(Clone, Default)]
pub struct ActivityRegistry {
    activities: Arc<BTreeMap<String, Arc<dyn ActivityHandler>>>,
}

impl ActivityRegistry {
    /// An empty builder.
    pub fn builder() -> ActivityRegistryBuilder {
        ActivityRegistryBuilder::default()
    }

    /// A builder that holds what `registry` holds.
    pub fn builder_from(registry: &Self) -> ActivityRegistryBuilder {
        ActivityRegistryBuilder::from_registry(registry)
    }

    /// The handler of a name.
    pub fn resolve_handler(&self, name: &str) -> Option<Arc<dyn ActivityHandler>> {
        self.activities.get(name).cloned()
    }

    /// The names, sorted.
    pub fn list_names(&self) -> Vec<String> {
        self.activities.keys().cloned().collect()
    }

    /// Whether the name is registered.
    pub fn has(&self, name: &str) -> bool {
        self.activities.contains_key(name)
    }

    /// How many activities are registered.
    pub fn count(&self) -> usize {
        self.activities.len()
    }
}

impl std::fmt::Debug for ActivityRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.activities.keys()).finish()
    }
}

/// Gathers activities. Mistakes are reported by [`Self::build_result`], or by a panic of [`Self::build`].
#[derive(Default)]
pub struct ActivityRegistryBuilder {
    activities: BTreeMap<String, Arc<dyn ActivityHandler>>,
    errors: Vec<String>,
}

impl ActivityRegistryBuilder {
    /// A builder that holds what `registry` holds.
    pub fn from_registry(registry: &ActivityRegistry) -> Self {
        Self { activities: (*registry.activities).clone(), errors: Vec::new() }
    }

    /// Registers an activity.
    #[must_use]
    pub fn register<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.insert(name.into(), Arc::new(Plain(handler)))
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
        self.insert(name.into(), Arc::new(Typed { handler, types: PhantomData }))
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

    /// Adds all that `registry` holds.
    #[must_use]
    pub fn merge(mut self, registry: ActivityRegistry) -> Self {
        for (name, handler) in registry.activities.iter() {
            if self.activities.contains_key(name) {
                self.errors.push(format!("duplicate activity in merge: {name}"));
            } else {
                self.activities.insert(name.clone(), handler.clone());
            }
        }
        self
    }

    /// The registry.
    ///
    /// # Panics
    /// With all mistakes, if there are any.
    pub fn build(self) -> ActivityRegistry {
        match self.build_result() {
            Ok(registry) => registry,
            Err(errors) => panic!("{errors}"),
        }
    }

    /// The registry, or all mistakes joined by "; ".
    pub fn build_result(self) -> Result<ActivityRegistry, String> {
        checked(ActivityRegistry { activities: Arc::new(self.activities) }, self.errors)
    }

    fn insert(mut self, name: String, handler: Arc<dyn ActivityHandler>) -> Self {
        if name.starts_with(SYSCALL_PREFIX) {
            self.errors
                .push(format!("activity name '{name}' starts with '{SYSCALL_PREFIX}', which is reserved"));
        } else if let Err(cause) = check_name("activity name", &name) {
            self.errors.push(cause);
        } else {
            match self.activities.entry(name) {
                Entry::Vacant(vacant) => {
                    vacant.insert(handler);
                }
                Entry::Occupied(taken) => {
                    self.errors.push(format!("duplicate activity registration: {}", taken.key()));
                }
            }
        }
        self
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
        let input = decode(&input).map_err(|cause| format!("malformed activity input: {cause}"))?;
        let output = (self.handler)(ctx, input).await?;
        encode(&output)
    }
}
