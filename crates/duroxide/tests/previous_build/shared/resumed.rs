//! A clock that goes on from the moment at which a store was kept.

use std::time::Instant;

use duroxide::clock::Clock;

/// Shows the moment at which the store was kept, and goes on from there: its timers are as far away as they were.
pub(crate) struct ResumedClock {
    kept_at_ms: u64,
    resumed: Instant,
}

impl ResumedClock {
    pub(crate) fn new(kept_at_ms: u64) -> Self {
        Self { kept_at_ms, resumed: Instant::now() }
    }
}

impl Clock for ResumedClock {
    fn now_ms(&self) -> u64 {
        self.kept_at_ms + u64::try_from(self.resumed.elapsed().as_millis()).expect("a test ends some day")
    }
}
