//! What differs between two stores that agree: tokens and incarnations.

use std::collections::BTreeMap;

use duroxide::providers::{FetchedTurn, FetchedWork, HeldHistories, HeldHistory, ProviderError};

/// The answers of both stores to one call.
pub(crate) struct Both<T> {
    pub(crate) memory: T,
    pub(crate) other: T,
}

/// A token that both stores gave out for the same lock, with what it is for.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) memory: String,
    pub(crate) other: String,
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    /// The last event of a turn's history, or the activity's id.
    pub(crate) event_id: u64,
    /// Whether the lock was ended by a call.
    pub(crate) spent: bool,
}

/// An answer in words that both stores share: failures by their kind, since texts are free.
pub(crate) fn in_words<T: std::fmt::Debug>(answer: &Result<T, ProviderError>) -> String {
    match answer {
        Ok(value) => format!("Ok({value:#?})"),
        Err(error) => format!("Err({:?}, retryable: {})", error.kind(), error.is_retryable()),
    }
}

/// Which incarnation of one store is which of the other.
#[derive(Debug, Default)]
pub(crate) struct Incarnations {
    by_memory: BTreeMap<u64, u64>,
    by_other: BTreeMap<u64, u64>,
}

impl Incarnations {
    /// Whether the two can be the same instance: each has met no other partner before.
    fn agree(&mut self, memory: u64, other: u64) -> bool {
        *self.by_memory.entry(memory).or_insert(other) == other
            && *self.by_other.entry(other).or_insert(memory) == memory
    }

    /// Checks and removes what legitimately differs between two turns.
    pub(crate) fn reconcile(
        &mut self,
        memory: &mut FetchedTurn,
        other: &mut FetchedTurn,
    ) -> Result<(), String> {
        memory.lock_token.clear();
        other.lock_token.clear();
        let (Some(ours), Some(theirs)) = (&mut memory.facts, &mut other.facts) else { return Ok(()) };
        if !self.agree(ours.incarnation, theirs.incarnation) {
            return Err(format!("incarnations differ for '{}'", memory.item.instance));
        }
        ours.incarnation = 0;
        theirs.incarnation = 0;
        Ok(())
    }
}

/// Removes what legitimately differs between two work items.
pub(crate) fn without_token(mut work: FetchedWork) -> FetchedWork {
    work.lock_token.clear();
    work
}

/// The histories that a node holds of one store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(pub(crate) BTreeMap<String, HeldHistory>);

impl HeldHistories for Held {
    fn held(&self, instance: &str) -> Option<HeldHistory> {
        self.0.get(instance).copied()
    }
}
