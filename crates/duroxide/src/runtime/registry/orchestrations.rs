//! Orchestrations by name and version.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use duroxide_core::{OrchestrationContext, OrchestrationHandler, check_name, decode, encode};
use semver::Version;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::watch;

use super::checked;

/// The version of what is registered without one.
const DEFAULT_VERSION: Version = Version::new(1, 0, 0);

/// Which version a start without one gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VersionPolicy {
    /// The highest that is registered.
    #[default]
    Latest,
    /// This one.
    Exact(Version),
}

type Versions = BTreeMap<Version, Arc<dyn OrchestrationHandler>>;

/// The orchestrations that a node can run. Clones share the version policy.
#[derive(Clone, Default)]
pub struct OrchestrationRegistry {
    orchestrations: Arc<BTreeMap<String, Versions>>,
    policies: Arc<Policies>,
}

/// The version policies by name, and how often they changed.
#[derive(Default)]
struct Policies {
    by_name: RwLock<BTreeMap<String, VersionPolicy>>,
    changes: watch::Sender<u64>,
}

impl OrchestrationRegistry {
    /// An empty builder.
    pub fn builder() -> OrchestrationRegistryBuilder {
        OrchestrationRegistryBuilder::default()
    }

    /// A builder that holds what `registry` holds.
    pub fn builder_from(registry: &Self) -> OrchestrationRegistryBuilder {
        OrchestrationRegistryBuilder {
            orchestrations: (*registry.orchestrations).clone(),
            policies: registry.read_policies().clone(),
            errors: Vec::new(),
        }
    }

    /// The handler that the name's policy chooses.
    pub fn resolve_handler(&self, name: &str) -> Option<(Version, Arc<dyn OrchestrationHandler>)> {
        let version = self.resolve_version(name)?;
        let handler = self.resolve_handler_exact(name, &version)?;
        Some((version, handler))
    }

    /// The handler of exactly this version.
    pub fn resolve_handler_exact(
        &self,
        name: &str,
        version: &Version,
    ) -> Option<Arc<dyn OrchestrationHandler>> {
        self.orchestrations.get(name)?.get(version).cloned()
    }

    /// The version that the name's policy chooses, if it is registered.
    pub fn resolve_version(&self, name: &str) -> Option<Version> {
        let versions = self.orchestrations.get(name)?;
        match self.read_policies().get(name) {
            None | Some(VersionPolicy::Latest) => versions.keys().next_back().cloned(),
            Some(VersionPolicy::Exact(version)) => versions.contains_key(version).then(|| version.clone()),
        }
    }

    /// The names, sorted.
    pub fn list_names(&self) -> Vec<String> {
        self.orchestrations.keys().cloned().collect()
    }

    /// The versions of a name, lowest first.
    pub fn list_versions(&self, name: &str) -> Vec<Version> {
        self.orchestrations.get(name).map(|versions| versions.keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether any version of the name is registered.
    pub fn has(&self, name: &str) -> bool {
        self.orchestrations.contains_key(name)
    }

    /// How many orchestrations are registered, every version counted.
    pub fn count(&self) -> usize {
        self.orchestrations.values().map(BTreeMap::len).sum()
    }

    /// Changes which version later starts get, in all clones.
    pub fn set_version_policy(&self, name: &str, policy: VersionPolicy) {
        let mut by_name = self.policies.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_string(), policy);
        drop(by_name);
        self.policies.changes.send_modify(|changes| *changes += 1);
    }

    /// How often the policy has changed.
    pub(crate) fn policy_version(&self) -> u64 {
        *self.policies.changes.borrow()
    }

    /// Tells of changes of the policy from now on.
    pub(crate) fn policy_changes(&self) -> watch::Receiver<u64> {
        self.policies.changes.subscribe()
    }

    fn read_policies(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, VersionPolicy>> {
        self.policies.by_name.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for OrchestrationRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names =
            self.orchestrations.iter().map(|(name, versions)| (name, versions.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

/// Gathers orchestrations. Mistakes are reported by [`Self::build_result`], or by a panic of [`Self::build`].
#[derive(Default)]
pub struct OrchestrationRegistryBuilder {
    orchestrations: BTreeMap<String, Versions>,
    policies: BTreeMap<String, VersionPolicy>,
    errors: Vec<String>,
}

impl OrchestrationRegistryBuilder {
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

    /// Registers version 1.0.0 of several orchestrations.
    #[must_use]
    pub fn register_all<F, Fut>(self, orchestrations: Vec<(&str, F)>) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        orchestrations.into_iter().fold(self, |builder, (name, handler)| builder.register(name, handler))
    }

    /// Adds all that `registry` holds.
    #[must_use]
    pub fn merge(mut self, registry: OrchestrationRegistry) -> Self {
        for (name, versions) in registry.orchestrations.iter() {
            for (version, handler) in versions {
                let present = self.orchestrations.entry(name.clone()).or_default();
                if present.contains_key(version) {
                    self.errors.push(format!("duplicate orchestration in merge: {name}@{version}"));
                } else {
                    present.insert(version.clone(), handler.clone());
                }
            }
        }
        for (name, policy) in registry.read_policies().iter() {
            self.policies.entry(name.clone()).or_insert_with(|| policy.clone());
        }
        self
    }

    /// Sets which version a start without one gets.
    #[must_use]
    pub fn set_policy(mut self, name: impl Into<String>, policy: VersionPolicy) -> Self {
        self.policies.insert(name.into(), policy);
        self
    }

    /// The registry.
    ///
    /// # Panics
    /// With all mistakes, if there are any.
    pub fn build(self) -> OrchestrationRegistry {
        match self.build_result() {
            Ok(registry) => registry,
            Err(errors) => panic!("{errors}"),
        }
    }

    /// The registry, or all mistakes joined by "; ".
    pub fn build_result(self) -> Result<OrchestrationRegistry, String> {
        let registry = OrchestrationRegistry {
            orchestrations: Arc::new(self.orchestrations),
            policies: Arc::new(Policies {
                by_name: RwLock::new(self.policies),
                changes: watch::Sender::default(),
            }),
        };
        checked(registry, self.errors)
    }

    fn insert_later(self, name: String, version: &str, handler: Arc<dyn OrchestrationHandler>) -> Self {
        let version = match duroxide_core::check_version(version) {
            Ok(version) => version,
            Err(cause) => panic!("orchestration '{name}': {cause}"),
        };
        let latest = self.orchestrations.get(&name).and_then(|versions| versions.keys().next_back());
        if let Some(latest) = latest
            && *latest > version
        {
            panic!("non-monotonic orchestration version: {name}@{version} is not later than {name}@{latest}");
        }
        self.insert(name, version, handler)
    }

    fn insert(mut self, name: String, version: Version, handler: Arc<dyn OrchestrationHandler>) -> Self {
        if let Err(cause) = check_name("orchestration name", &name) {
            self.errors.push(cause);
            return self;
        }
        let versions = self.orchestrations.entry(name.clone()).or_default();
        match versions.entry(version) {
            Entry::Vacant(vacant) => {
                vacant.insert(handler);
            }
            Entry::Occupied(taken) => {
                self.errors.push(format!("duplicate orchestration registration: {name}@{}", taken.key()));
            }
        }
        self
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
        let input = decode(&input).map_err(|cause| format!("malformed orchestration input: {cause}"))?;
        let output = (self.handler)(ctx, input).await?;
        encode(&output)
    }
}
