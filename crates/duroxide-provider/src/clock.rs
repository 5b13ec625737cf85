//! The only module that reads the system's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a store takes its time from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Asks the clock to tell `listener` of every jump. A store asks when it is opened, and then wakes the fetches that
    /// wait for a time. A clock that runs evenly has nothing to tell, which is the default; the fetches then sleep for
    /// as long as the time until then takes.
    fn tell_of_jumps(&self, _listener: Weak<dyn JumpListener>) {}
}

/// What hears that a clock has jumped.
pub trait JumpListener: Send + Sync {
    /// The clock shows another time, to which it did not run. Called by the thread that moved the clock: must not
    /// block, and must not move the clock.
    fn clock_jumped(&self);
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

/// A clock that stands still until it is moved, for tests. The stores in memory and in SQLite notice at once that it was
/// moved: a timer of an hour fires as soon as the clock was advanced by an hour, whatever the runtime's options.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicU64,
    /// Those that were dropped are removed when the next one is added.
    listeners: Mutex<Vec<Weak<dyn JumpListener>>>,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self { now_ms: AtomicU64::new(now_ms), listeners: Mutex::default() }
    }

    /// Moves the clock forward, and wakes what waits for a time in the stores on this clock.
    pub fn advance(&self, by: std::time::Duration) {
        self.now_ms.fetch_add(millis(by), Ordering::SeqCst);
        for listener in self.listeners() {
            listener.clock_jumped();
        }
    }

    /// Sets the clock, forward or back, and wakes what waits for a time in the stores on this clock.
    pub fn set(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
        for listener in self.listeners() {
            listener.clock_jumped();
        }
    }

    /// The listeners that still exist. The lock is released before one of them is called.
    fn listeners(&self) -> Vec<Arc<dyn JumpListener>> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn tell_of_jumps(&self, listener: Weak<dyn JumpListener>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(listener);
    }
}

/// A duration in milliseconds, at most `u64::MAX`.
#[doc(hidden)]
pub fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Jumps(AtomicU64);

    impl JumpListener for Jumps {
        fn clock_jumped(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn listen(clock: &ManualClock) -> Arc<Jumps> {
        let listener = Arc::new(Jumps::default());
        let weak: Weak<Jumps> = Arc::downgrade(&listener);
        clock.tell_of_jumps(weak);
        listener
    }

    #[test]
    fn a_manual_clock_tells_all_its_listeners_of_every_jump() {
        let clock = ManualClock::new(1);
        let (one, two) = (listen(&clock), listen(&clock));
        clock.advance(std::time::Duration::from_millis(1));
        clock.advance(std::time::Duration::from_millis(1));
        assert_eq!((one.0.load(Ordering::SeqCst), two.0.load(Ordering::SeqCst)), (2, 2));
        assert_eq!(clock.now_ms(), 3);
    }

    #[test]
    fn a_manual_clock_forgets_listeners_that_were_dropped() {
        let clock = ManualClock::new(1);
        for _ in 0..100 {
            drop(listen(&clock));
        }
        let last = listen(&clock);
        assert_eq!(clock.listeners.lock().unwrap().len(), 1);
        assert_eq!(Arc::strong_count(&last), 1, "the clock does not keep it");
    }
}
