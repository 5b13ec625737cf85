//! Attempts that the store spoiled, not the work.
//!
//! A turn or result that could not be committed leaves its attempt counted when the lock expires, and so do those
//! that other nodes made meanwhile: they could commit as little. So all attempts up to the next fetch are excused
//! here and do not count towards poison, however long the outage lasts and however many nodes tried.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work with excused attempts remembered at most; beyond it the oldest names go first.
const MAX_REMEMBERED: usize = 100_000;

/// Excused attempts by the name of the work.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    excused: Mutex<BTreeMap<String, Excused>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excused {
    /// Whatever is counted before the next fetch.
    UntilNextFetch,
    /// The attempts up to this one.
    UpTo(u32),
}

impl Excuses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Excused>> {
        self.excused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempts that count, now that the work was fetched for the attempt of this number.
    pub(super) fn counted(&self, work: &str, attempt: u32) -> u32 {
        let mut excused = self.lock();
        match excused.get_mut(work) {
            None => attempt,
            Some(excuse @ Excused::UntilNextFetch) => {
                *excuse = Excused::UpTo(attempt.saturating_sub(1));
                attempt.min(1)
            }
            Some(Excused::UpTo(last)) if attempt > *last => attempt - *last,
            // Counted from one again: what was excused has reached the store elsewhere.
            Some(Excused::UpTo(_)) => {
                excused.remove(work);
                attempt
            }
        }
    }

    /// The store spoiled an attempt.
    pub(super) fn excuse(&self, work: &str) {
        let mut excused = self.lock();
        if excused.len() >= MAX_REMEMBERED && !excused.contains_key(work) {
            excused.pop_first();
        }
        excused.insert(work.to_string(), Excused::UntilNextFetch);
    }

    /// The work reached the store.
    pub(super) fn forget(&self, work: &str) {
        let mut excused = self.lock();
        if !excused.is_empty() {
            excused.remove(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_spoiled_does_not_count_nor_what_others_tried_meanwhile() {
        let excuses = Excuses::default();
        assert_eq!(excuses.counted("i", 3), 3);
        excuses.excuse("i");
        assert_eq!(excuses.counted("i", 9), 1, "five others have tried it");
        assert_eq!(excuses.counted("i", 9), 1, "given back uncounted and fetched again");
        assert_eq!(excuses.counted("i", 11), 3, "these count");
        assert_eq!(excuses.counted("other", 11), 11);
    }

    #[test]
    fn an_excuse_ends_when_the_work_reaches_the_store() {
        let excuses = Excuses::default();
        excuses.excuse("here");
        excuses.forget("here");
        assert_eq!(excuses.counted("here", 5), 5);
        excuses.excuse("elsewhere");
        assert_eq!(excuses.counted("elsewhere", 5), 1);
        for attempt in 1..=9 {
            assert_eq!(excuses.counted("elsewhere", attempt), attempt, "another message of the same name");
        }
    }
}
