//! Waiting longer after each failure, without ever overflowing or spinning.

use std::time::Duration;

use duroxide_core::test_fault;

/// The first wait after a failure of the store.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait: how late the end of an outage may be noticed.
const LONGEST: Duration = Duration::from_secs(2);
/// Doubling more often than this makes any wait longer than the longest one.
const MAX_DOUBLINGS: u32 = 16;

/// How long to wait after failures in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// What failed has succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed again; how long to wait.
    pub(super) fn next(&mut self) -> Duration {
        let delay = doubled(FIRST, self.failures, LONGEST);
        self.failures = self.failures.saturating_add(1);
        delay
    }
}

/// `first`, doubled so many times, but at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    test_fault!(BackoffNeverOverflows => return (first * 2_u32.pow(times)).min(longest));
    first.saturating_mul(1 << times.min(MAX_DOUBLINGS)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_never_overflows_and_never_spins() {
        let mut backoff = Backoff { failures: u32::MAX - 1 };
        for _ in 0..3 {
            assert_eq!(backoff.next(), LONGEST);
        }
        backoff.reset();
        let mut last = Duration::ZERO;
        for _ in 0..100_000 {
            let next = backoff.next();
            assert!(next >= FIRST && next >= last && next <= LONGEST);
            last = next;
        }
    }
}
