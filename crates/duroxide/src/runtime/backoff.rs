//! Waiting longer after each failure of the store, without ever overflowing or spinning.

use std::time::Duration;

use duroxide_core::protection::Protection;

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait: how late the end of an outage may be noticed.
const LONGEST: Duration = Duration::from_secs(2);

/// How long to wait after failures in a row.
#[derive(Debug, Default)]
pub(super) struct OutageBackoff {
    failures: u32,
}

impl OutageBackoff {
    /// The store answered.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The store failed again; how long to wait.
    pub(super) fn next(&mut self) -> Duration {
        if Protection::BackoffNeverOverflows.is_off() {
            let delay = FIRST * 2u32.pow(self.failures);
            self.failures += 1;
            return delay.min(LONGEST);
        }
        let delay = FIRST.saturating_mul(1u32.checked_shl(self.failures.min(16)).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        delay.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_backoff_never_overflows_and_never_spins() {
        let mut backoff = OutageBackoff { failures: u32::MAX - 1 };
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
