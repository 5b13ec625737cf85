//! Which version a start without one gets.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use semver::Version;
use tokio::sync::watch;

/// Which version a start without one gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VersionPolicy {
    /// The highest that is registered.
    #[default]
    Latest,
    /// This one.
    Exact(Version),
}

/// The version policies by name, and how often they changed.
#[derive(Default)]
pub(super) struct Policies {
    by_name: RwLock<BTreeMap<String, VersionPolicy>>,
    changes: watch::Sender<u64>,
}

impl Policies {
    pub(super) fn new(by_name: BTreeMap<String, VersionPolicy>) -> Self {
        Self { by_name: RwLock::new(by_name), changes: watch::Sender::default() }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, VersionPolicy>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, name: &str, policy: VersionPolicy) {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_string(), policy);
        drop(by_name);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// How often a policy has changed.
    pub(super) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Tells of changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
