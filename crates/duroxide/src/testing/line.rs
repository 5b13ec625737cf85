//! The way to a store, which can be cut.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use super::Method;

/// Calls get through.
const OPEN: u8 = 0;
/// None does.
const CUT: u8 = 1;
/// Those that commit, renew or give back do not.
const CUT_FOR_COMMITS: u8 = 2;

/// The way to a store. Clones are the same line: everybody on it is cut off together.
#[derive(Debug, Clone, Default)]
pub struct Line {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    /// Wakes in the order of waiting, so that a simulation can be repeated.
    changed: Notify,
}

impl Line {
    /// From now on no call succeeds; those that wait fail.
    pub fn cut(&self) {
        self.set(CUT);
    }

    /// From now on fetches and enqueues succeed, but nothing that commits, renews or gives back what was fetched.
    pub fn cut_commits(&self) {
        self.set(CUT_FOR_COMMITS);
    }

    /// From now on calls succeed again.
    pub fn mend(&self) {
        self.set(OPEN);
    }

    fn set(&self, state: u8) {
        self.shared.state.store(state, Ordering::SeqCst);
        self.shared.changed.notify_waiters();
    }

    /// Whether a call cannot get through now.
    pub fn stops(&self, method: Method) -> bool {
        match self.shared.state.load(Ordering::SeqCst) {
            OPEN => false,
            CUT_FOR_COMMITS => method.is_of_holder(),
            _ => true,
        }
    }

    /// Resolves when a call can no longer get through.
    pub(super) async fn stopped(&self, method: Method) {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if self.stops(method) {
                return;
            }
            changed.await;
        }
    }
}
