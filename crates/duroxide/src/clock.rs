//! The only module that reads the system's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a store takes its time from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The system's clock, kept from running backwards within the process.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest_ms: AtomicU64,
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        self.latest_ms.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

/// A clock that stands still until it is moved, for tests.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self { now_ms: AtomicU64::new(now_ms) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: std::time::Duration) {
        self.now_ms.fetch_add(millis(by), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}

/// A duration in milliseconds, at most `u64::MAX`.
#[doc(hidden)]
pub fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
