//! Orchestrations by name and version.

use std::fmt::{Display, Formatter};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{OrchestrationContext, OrchestrationHandler, decode_as, encode};
use semver::Version;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::watch;

use super::VersionPolicy;
use super::by_version::{DEFAULT_VERSION, Registry, RegistryBuilder};

/// The orchestrations that a node can run. Clones share the version policy.
pub type OrchestrationRegistry = Registry<dyn OrchestrationHandler>;

/// Gathers orchestrations. Mistakes are reported by [`RegistryBuilder::build_result`], or by a panic of
/// [`RegistryBuilder::build`].
pub type OrchestrationRegistryBuilder = RegistryBuilder<dyn OrchestrationHandler>;

/// What the handlers are of.
const WHAT: &str = "orchestration";

impl Registry<dyn OrchestrationHandler> {
    /// An empty builder.
    pub fn builder() -> OrchestrationRegistryBuilder {
        OrchestrationRegistryBuilder::default()
    }

    /// A builder that holds what `registry` holds.
    pub fn builder_from(registry: &Self) -> OrchestrationRegistryBuilder {
        RegistryBuilder::holding(WHAT, registry)
    }

    /// Changes which version later starts get, in all clones.
    pub fn set_version_policy(&self, name: &str, policy: VersionPolicy) {
        self.policies.set(name, policy);
    }

    /// How often the policy has changed.
    pub(crate) fn policy_version(&self) -> u64 {
        self.policies.version()
    }

    /// Tells of changes of the policy from now on.
    pub(crate) fn policy_changes(&self) -> watch::Receiver<u64> {
        self.policies.changes()
    }
}

impl Default for RegistryBuilder<dyn OrchestrationHandler> {
    fn default() -> Self {
        Self::empty(WHAT)
    }
}

impl RegistryBuilder<dyn OrchestrationHandler> {
    /// Registers version 1.0.0 of an orchestration.
    #[must_use]
    pub fn register<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.insert(name.into(), DEFAULT_VERSION, Arc::new(Plain(handler)))
    }

    /// Registers version 1.0.0 of an orchestration with typed input and output.
    #[must_use]
    pub fn register_typed<In, Out, F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        self.insert(name.into(), DEFAULT_VERSION, Arc::new(Typed { handler, types: PhantomData }))
    }

    /// Registers one version of an orchestration.
    ///
    /// # Panics
    /// When the version is not valid semver, or not later than the latest one of this name.
    #[must_use]
    pub fn register_versioned<F, Fut>(
        self,
        name: impl Into<String>,
        version: impl AsRef<str>,
        handler: F,
    ) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.insert_later(name.into(), version.as_ref(), Arc::new(Plain(handler)))
    }

    /// Registers one version of an orchestration with typed input and output.
    ///
    /// # Panics
    /// When the version is not valid semver, or not later than the latest one of this name.
    #[must_use]
    pub fn register_versioned_typed<In, Out, F, Fut>(
        self,
        name: impl Into<String>,
        version: impl AsRef<str>,
        handler: F,
    ) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        self.insert_later(name.into(), version.as_ref(), Arc::new(Typed { handler, types: PhantomData }))
    }

    /// Registers one version of an orchestration that implements [`OrchestrationHandler`] itself.
    #[must_use]
    pub fn register_handler(
        self,
        name: impl Into<String>,
        version: Version,
        handler: Arc<dyn OrchestrationHandler>,
    ) -> Self {
        self.insert(name.into(), version, handler)
    }

    /// Registers version 1.0.0 of several orchestrations.
    #[must_use]
    pub fn register_all<F, Fut>(self, orchestrations: Vec<(&str, F)>) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        orchestrations.into_iter().fold(self, |builder, (name, handler)| builder.register(name, handler))
    }

    /// Sets which version a start without one gets.
    #[must_use]
    pub fn set_policy(mut self, name: impl Into<String>, policy: VersionPolicy) -> Self {
        self.policies.insert(name.into(), policy);
        self
    }

    fn insert_later(self, name: String, version: &str, handler: Arc<dyn OrchestrationHandler>) -> Self {
        let version = match duroxide_core::check_version(version) {
            Ok(version) => version,
            Err(cause) => panic!("orchestration '{name}': {cause}"),
        };
        if let Some(latest) = self.latest(&name)
            && *latest > version
        {
            panic!("non-monotonic orchestration version: {name}@{version} is not later than {name}@{latest}");
        }
        self.insert(name, version, handler)
    }
}

struct Plain<F>(F);

#[async_trait]
impl<F, Fut> OrchestrationHandler for Plain<F>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, String>> + Send,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        (self.0)(ctx, input).await
    }
}

struct Typed<In, Out, F> {
    handler: F,
    types: PhantomData<fn(In) -> Out>,
}

#[async_trait]
impl<In, Out, F, Fut> OrchestrationHandler for Typed<In, Out, F>
where
    In: DeserializeOwned + Send,
    Out: Serialize + Send,
    F: Fn(OrchestrationContext, In) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Out, String>> + Send,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        let decoded = decode_as(InputOf(&ctx), &input);
        let input = decoded.map_err(|cause| format!("malformed orchestration input: {cause}"))?;
        let output = (self.handler)(ctx, input).await?;
        encode(&output)
    }
}

/// What an input is of, for the error of one that does not decode.
pub(crate) struct InputOf<'a>(pub(crate) &'a OrchestrationContext);

impl Display for InputOf<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "input of orchestration '{}'", self.0.orchestration_name())
    }
}
