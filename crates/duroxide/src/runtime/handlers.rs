//! What a node has handlers for, as its fetches and its heartbeats say it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use duroxide_core::{HandlerSet, HandlerVersions};

use super::registry::{ActivityRegistry, OrchestrationRegistry};

/// What a node has handlers for. Registries are fixed; the version policy may change.
#[derive(Debug)]
pub(super) struct Handlers {
    orchestrations: OrchestrationRegistry,
    /// Made anew when the policy has changed, so that equal sets are mostly the same.
    current: Mutex<Current>,
    activities: Arc<BTreeSet<String>>,
}

#[derive(Debug)]
struct Current {
    policy_version: u64,
    set: Arc<HandlerSet>,
}

impl Handlers {
    pub(super) fn new(orchestrations: OrchestrationRegistry, activities: &ActivityRegistry) -> Self {
        let policy_version = orchestrations.policy_version();
        let current = Mutex::new(Current { policy_version, set: Arc::new(set_of(&orchestrations)) });
        Self { orchestrations, current, activities: Arc::new(activities.list_names().into_iter().collect()) }
    }

    /// The orchestrations by the policy of this moment.
    pub(super) fn orchestrations(&self) -> Arc<HandlerSet> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Read first: a change that comes between the two is seen the next time.
        let policy_version = self.orchestrations.policy_version();
        if current.policy_version != policy_version {
            *current = Current { policy_version, set: Arc::new(set_of(&self.orchestrations)) };
        }
        current.set.clone()
    }

    pub(super) fn activities(&self) -> Arc<BTreeSet<String>> {
        self.activities.clone()
    }
}

fn set_of(registry: &OrchestrationRegistry) -> HandlerSet {
    let names = registry.list_names().into_iter();
    let orchestrations = names.map(|name| {
        let versions = registry.list_versions(&name).into_iter().collect();
        let unversioned = registry.resolve_version(&name);
        (name, HandlerVersions { versions, unversioned })
    });
    HandlerSet { orchestrations: orchestrations.collect() }
}
