//! Attempts that are forgiven because the store was at fault, not the work. `verdict` decides which.
//!
//! A turn or result that could not be committed leaves its attempt counted when the lock expires, and so do those
//! that other nodes made meanwhile: they could commit as little. So all attempts up to the next fetch are forgiven
//! here and do not count towards poison, however long the outage lasts and however many nodes tried.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::verdict::Charge;

/// Work with forgiven attempts remembered at most; beyond it the first names go first.
const MAX_REMEMBERED: usize = 100_000;

/// Forgiven attempts by the name of the work.
#[derive(Debug, Default)]
pub(super) struct ForgivenAttempts {
    forgiven: Mutex<BTreeMap<String, Forgiven>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgiven {
    /// Whatever is counted before the next fetch.
    UntilNextFetch,
    /// The attempts up to this one.
    UpTo(u32),
}

impl ForgivenAttempts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Forgiven>> {
        self.forgiven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempts that count, now that the work was fetched for the attempt of this number.
    pub(super) fn counted(&self, work: &str, attempt: u32) -> u32 {
        let mut forgiven = self.lock();
        match forgiven.get_mut(work) {
            None => attempt,
            Some(until @ Forgiven::UntilNextFetch) => {
                *until = Forgiven::UpTo(attempt.saturating_sub(1));
                attempt.min(1)
            }
            Some(Forgiven::UpTo(last)) if attempt > *last => attempt - *last,
            // Counted from one again: what was forgiven has reached the store elsewhere.
            Some(Forgiven::UpTo(_)) => {
                forgiven.remove(work);
                attempt
            }
        }
    }

    /// Remembers what becomes of the attempt of this work.
    pub(super) fn charge(&self, work: &str, charge: Charge) {
        match charge {
            Charge::Counts => {}
            Charge::Forgiven => self.forgive(work),
            Charge::Done => self.forget(work),
        }
    }

    fn forgive(&self, work: &str) {
        let mut forgiven = self.lock();
        if forgiven.len() >= MAX_REMEMBERED && !forgiven.contains_key(work) {
            forgiven.pop_first();
        }
        forgiven.insert(work.to_string(), Forgiven::UntilNextFetch);
    }

    fn forget(&self, work: &str) {
        let mut forgiven = self.lock();
        if !forgiven.is_empty() {
            forgiven.remove(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_spoiled_does_not_count_nor_what_others_tried_meanwhile() {
        let forgiven = ForgivenAttempts::default();
        assert_eq!(forgiven.counted("i", 3), 3);
        forgiven.charge("i", Charge::Forgiven);
        assert_eq!(forgiven.counted("i", 9), 1, "five others have tried it");
        assert_eq!(forgiven.counted("i", 9), 1, "given back uncounted and fetched again");
        forgiven.charge("i", Charge::Counts);
        assert_eq!(forgiven.counted("i", 11), 3, "these count");
        assert_eq!(forgiven.counted("other", 11), 11);
    }

    #[test]
    fn nothing_is_forgiven_once_the_work_is_in_the_store() {
        let forgiven = ForgivenAttempts::default();
        forgiven.charge("here", Charge::Forgiven);
        forgiven.charge("here", Charge::Done);
        assert_eq!(forgiven.counted("here", 5), 5);
        forgiven.charge("elsewhere", Charge::Forgiven);
        assert_eq!(forgiven.counted("elsewhere", 5), 1);
        for attempt in 1..=9 {
            assert_eq!(forgiven.counted("elsewhere", attempt), attempt, "another message of the same name");
        }
    }
}
