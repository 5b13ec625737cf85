//! What happened, and what must happen at least once in a long run for the run to mean anything.

use std::collections::BTreeMap;

/// Without these a run of many seeds has not tested what it is for.
const IMPORTANT: [&str; 41] = [
    "call failed before the commit",
    "call done, answer lost",
    "call or answer delayed",
    "outage of one",
    "outage of the store",
    "crash before ack_orchestration_item",
    "crash after ack_orchestration_item",
    "crash before ack_work_item",
    "crash after ack_work_item",
    "lock expired",
    "taken over from another node",
    "stale ack refused",
    "cancel won",
    "completion won against a cancel",
    "poisoned",
    "turn compared with its replay",
    "lock that expires at once",
    "delivered twice",
    "delivered in another order",
    "fetch found nothing",
    "outage of minutes or hours",
    "node upgraded",
    "graceful restart",
    "the store's clock set back",
    "the store's clock set forward",
    "instance deleted by force",
    "finished instance deleted",
    "running instance survived a bulk deletion",
    "old executions removed",
    "activity begun after its lock was gone",
    "failed instance went on",
    "failed instance began anew",
    "cancelled child went on with its parent",
    "event for a failed instance kept",
    "unread event put back",
    "unread result put back",
    "redriven after poison",
    "redriven after nondeterminism",
    "failed again before the fix",
    "cancel put into an inbox",
    "later attempt of a retried call",
];

/// How often each thing happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    counts: BTreeMap<String, u64>,
}

impl Counters {
    pub(crate) fn count(&mut self, what: &str) {
        if let Some(count) = self.counts.get_mut(what) {
            *count += 1;
        } else {
            self.counts.insert(what.to_string(), 1);
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what.clone()).or_default() += count;
        }
    }

    /// How often this happened.
    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// What should have happened at least once and did not.
    pub fn never_happened(&self) -> Vec<&'static str> {
        IMPORTANT.into_iter().filter(|what| self.get(what) == 0).collect()
    }

    /// One line for each count.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.counts.iter().map(|(what, count)| format!("{count:>9}  {what}"))
    }
}
