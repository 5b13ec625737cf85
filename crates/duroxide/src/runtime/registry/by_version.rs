//! Handlers by name and version: what the registries of orchestrations and of activities have in common.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use duroxide_core::check_name;
use semver::Version;

use super::policy::{Policies, VersionPolicy};

/// The version of a handler that is registered without one.
pub(super) const DEFAULT_VERSION: Version = Version::new(1, 0, 0);

type Versions<H> = BTreeMap<Version, Arc<H>>;

/// The handlers that a node has, by name and version. Clones share the version policy.
///
/// [`OrchestrationRegistry`](super::OrchestrationRegistry) and [`ActivityRegistry`](super::ActivityRegistry) are the
/// two that there are.
pub struct Registry<H: ?Sized> {
    handlers: Arc<BTreeMap<String, Versions<H>>>,
    pub(super) policies: Arc<Policies>,
}

impl<H: ?Sized> Registry<H> {
    /// The latest version of the name, or the one that its policy chooses, with its handler.
    pub fn resolve_handler(&self, name: &str) -> Option<(Version, Arc<H>)> {
        let version = self.resolve_version(name)?;
        let handler = self.resolve_handler_exact(name, &version)?;
        Some((version, handler))
    }

    /// The handler of exactly this version.
    pub fn resolve_handler_exact(&self, name: &str, version: &Version) -> Option<Arc<H>> {
        self.handlers.get(name)?.get(version).cloned()
    }

    /// The latest version of the name, or the one that its policy chooses, if it is registered.
    pub fn resolve_version(&self, name: &str) -> Option<Version> {
        let versions = self.handlers.get(name)?;
        match self.policies.read().get(name) {
            None | Some(VersionPolicy::Latest) => versions.keys().next_back().cloned(),
            Some(VersionPolicy::Exact(version)) => versions.contains_key(version).then(|| version.clone()),
        }
    }

    /// The names, sorted.
    pub fn list_names(&self) -> Vec<String> {
        self.handlers.keys().cloned().collect()
    }

    /// The versions of a name, lowest first; none for a name that is not registered.
    pub fn list_versions(&self, name: &str) -> Vec<Version> {
        self.handlers.get(name).map(|versions| versions.keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether any version of the name is registered.
    pub fn has(&self, name: &str) -> bool {
        self.handlers.contains_key(name)
    }

    /// How many handlers are registered, every version counted.
    pub fn count(&self) -> usize {
        self.handlers.values().map(BTreeMap::len).sum()
    }
}

impl<H: ?Sized> Clone for Registry<H> {
    fn clone(&self) -> Self {
        Self { handlers: self.handlers.clone(), policies: self.policies.clone() }
    }
}

impl<H: ?Sized> Default for Registry<H> {
    fn default() -> Self {
        Self { handlers: Arc::default(), policies: Arc::default() }
    }
}

impl<H: ?Sized> std::fmt::Debug for Registry<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.handlers.iter().map(|(name, versions)| (name, versions.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

/// Gathers handlers. Mistakes are reported by [`Self::build_result`], or by a panic of [`Self::build`].
pub struct RegistryBuilder<H: ?Sized> {
    /// What the handlers are of, for the texts of errors.
    what: &'static str,
    handlers: BTreeMap<String, Versions<H>>,
    pub(super) policies: BTreeMap<String, VersionPolicy>,
    pub(super) errors: Vec<String>,
}

impl<H: ?Sized> RegistryBuilder<H> {
    pub(super) fn empty(what: &'static str) -> Self {
        Self { what, handlers: BTreeMap::new(), policies: BTreeMap::new(), errors: Vec::new() }
    }

    pub(super) fn holding(what: &'static str, registry: &Registry<H>) -> Self {
        Self {
            what,
            handlers: (*registry.handlers).clone(),
            policies: registry.policies.read().clone(),
            errors: Vec::new(),
        }
    }

    /// Adds all that `registry` holds.
    #[must_use]
    pub fn merge(mut self, registry: Registry<H>) -> Self {
        for (name, versions) in registry.handlers.iter() {
            for (version, handler) in versions {
                let present = self.handlers.entry(name.clone()).or_default();
                if present.contains_key(version) {
                    self.errors.push(format!("duplicate {} in merge: {name}@{version}", self.what));
                } else {
                    present.insert(version.clone(), handler.clone());
                }
            }
        }
        for (name, policy) in registry.policies.read().iter() {
            self.policies.entry(name.clone()).or_insert_with(|| policy.clone());
        }
        self
    }

    /// The registry.
    ///
    /// # Panics
    /// With all mistakes, if there are any.
    pub fn build(self) -> Registry<H> {
        match self.build_result() {
            Ok(registry) => registry,
            Err(errors) => panic!("{errors}"),
        }
    }

    /// The registry, or all mistakes joined by "; ".
    pub fn build_result(self) -> Result<Registry<H>, String> {
        if !self.errors.is_empty() {
            return Err(self.errors.join("; "));
        }
        Ok(Registry { handlers: Arc::new(self.handlers), policies: Arc::new(Policies::new(self.policies)) })
    }

    /// The latest version of a name so far.
    pub(super) fn latest(&self, name: &str) -> Option<&Version> {
        self.handlers.get(name).and_then(|versions| versions.keys().next_back())
    }

    pub(super) fn insert(mut self, name: String, version: Version, handler: Arc<H>) -> Self {
        let what = self.what;
        if let Err(cause) = check_name(&format!("{what} name"), &name) {
            self.errors.push(cause);
            return self;
        }
        let versions = self.handlers.entry(name.clone()).or_default();
        match versions.entry(version) {
            Entry::Vacant(vacant) => {
                vacant.insert(handler);
            }
            Entry::Occupied(taken) => {
                self.errors.push(format!("duplicate {what} registration: {name}@{}", taken.key()));
            }
        }
        self
    }
}
