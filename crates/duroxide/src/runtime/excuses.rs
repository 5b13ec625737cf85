//! Attempts that the store spoiled, not the work.
//!
//! A turn or result that could not be committed leaves its attempt counted when the lock expires. Such attempts
//! are remembered here and do not count towards poison, however long the outage lasts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work with excused attempts remembered at most; beyond it the oldest names go first.
const MAX_REMEMBERED: usize = 100_000;

/// Excused attempts by the name of the work.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    attempts: Mutex<BTreeMap<String, u32>>,
}

impl Excuses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempts that count.
    pub(super) fn counted(&self, work: &str, attempts: u32) -> u32 {
        attempts.saturating_sub(self.lock().get(work).copied().unwrap_or(0))
    }

    /// The store spoiled an attempt.
    pub(super) fn excuse(&self, work: &str) {
        let mut attempts = self.lock();
        if attempts.len() >= MAX_REMEMBERED && !attempts.contains_key(work) {
            attempts.pop_first();
        }
        let excused = attempts.entry(work.to_string()).or_default();
        *excused = excused.saturating_add(1);
    }

    /// The work reached the store.
    pub(super) fn forget(&self, work: &str) {
        let mut attempts = self.lock();
        if !attempts.is_empty() {
            attempts.remove(work);
        }
    }
}
