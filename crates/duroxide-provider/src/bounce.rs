//! Giving fetched work back, and what a store tells about work that was.

use std::time::Duration;

use duroxide_core::BounceCause;

/// How fetched work is given back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GiveBack {
    /// How long it is not to be fetched again.
    pub delay: Option<Duration>,
    /// Whether the fetch's count is taken back.
    pub ignore_attempt: bool,
    /// Why it is given back. The store keeps it in place of the cause before; `None` leaves that one.
    pub cause: Option<BounceCause>,
}

impl GiveBack {
    /// As if it had not been fetched.
    pub fn uncounted(delay: Option<Duration>) -> Self {
        Self { delay, ignore_attempt: true, cause: None }
    }

    /// A counted attempt that this kept from being run.
    pub fn bounced(delay: Duration, cause: BounceCause) -> Self {
        Self { delay: Some(delay), ignore_attempt: false, cause: Some(cause) }
    }
}

/// What of an instance was given back for a cause and waits for its next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounces {
    /// Its next turn.
    pub turn: Option<Bounce>,
    /// Its activities, by execution and schedule.
    pub activities: Vec<ActivityBounce>,
}

/// The last time that a turn or an activity was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounce {
    /// Why.
    pub cause: BounceCause,
    /// When, by the store's clock, in ms since the epoch.
    pub at_ms: u64,
    /// How often it was fetched since it was queued. Those whose count was taken back are not among them.
    pub attempts: u32,
    /// From when on it may be fetched again, in ms since the epoch; `None` while an attempt is under way.
    pub next_try_ms: Option<u64>,
}

/// An activity that was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityBounce {
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The id of its `ActivityScheduled` event.
    pub activity_id: u64,
    /// Its name.
    pub name: String,
    /// The last time that it was given back.
    pub bounce: Bounce,
}
