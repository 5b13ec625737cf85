//! What a store commits when failed instances go on.

use std::collections::BTreeSet;

use duroxide_core::{Event, WorkItem};
use semver::Version;

use super::{ProviderError, ProviderErrorKind};

/// One failed instance that goes on, for [`Provider::redrive`](super::Provider::redrive).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveInstance {
    /// Which instance.
    pub instance: String,
    /// Its current execution, which has failed.
    pub failed_execution_id: u64,
    /// The last event of that execution, so that nothing else is taken for it.
    pub last_event_id: u64,
    /// The history of the next execution; empty if it begins anew.
    pub events: Vec<Event>,
    /// What the next execution is pinned to: the build that wrote its start.
    pub pinned: Option<Version>,
    /// Activities that have no result.
    pub activities: Vec<WorkItem>,
    /// The messages of its inbox, in their order, and the starts of children that do not exist.
    pub messages: Vec<WorkItem>,
    /// How many kept messages the caller has seen. Those that were kept since follow `messages`.
    pub kept_seen: usize,
}

impl RedriveInstance {
    /// Refuses a call that names an instance twice. A store asks this before anything else.
    pub fn check_named_once(all: &[Self]) -> Result<(), ProviderError> {
        let mut named = BTreeSet::new();
        match all.iter().find(|one| !named.insert(&one.instance)) {
            None => Ok(()),
            Some(twice) => Err(ProviderError::of_kind(
                ProviderErrorKind::Invalid,
                "redrive",
                format!("instance '{}' is named twice", twice.instance),
            )),
        }
    }
}
