//! A clock that is stepped, as real ones are.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::clock::{Clock, JumpListener};

/// Another clock's time, moved by steps. Like the system's clock here it does not run backwards: set back, it stands
/// still until the time has come again. And as with the system's clock, a store is not told of a step; of jumps of the other
/// clock it is.
pub struct SteppedClock {
    inner: Arc<dyn Clock>,
    offset_ms: AtomicI64,
    latest_ms: AtomicU64,
}

impl SteppedClock {
    /// The same time, until the first step.
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        Self { inner, offset_ms: AtomicI64::new(0), latest_ms: AtomicU64::new(0) }
    }

    /// Moves the time by so many milliseconds, forwards or backwards.
    pub fn step(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// How far the time is from the other clock's.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::SeqCst)
    }
}

impl Clock for SteppedClock {
    fn now_ms(&self) -> u64 {
        let now = self.inner.now_ms().saturating_add_signed(self.offset_ms());
        self.latest_ms.fetch_max(now, Ordering::SeqCst).max(now)
    }

    fn tell_of_jumps(&self, listener: Weak<dyn JumpListener>) {
        self.inner.tell_of_jumps(listener);
    }
}
