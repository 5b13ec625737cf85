//! The store's clock is tokio's: time moves only when every task waits.

use duroxide::clock::Clock;
use tokio::time::Instant;

/// Where virtual time begins, in ms since the epoch; any date far from zero would do.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// Shows tokio's paused time as a date.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualClock {
    begun: Instant,
}

impl VirtualClock {
    /// A clock that begins now.
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Milliseconds since the simulation began.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        EPOCH_MS + self.elapsed_ms()
    }
}
