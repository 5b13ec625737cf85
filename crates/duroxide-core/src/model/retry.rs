//! How often, and after which delays, an activity that failed is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When an activity that failed is tried again.
///
/// The policy is recorded with the first attempt: an execution that has begun keeps the policy it began with,
/// also when the code changes.
///
/// ```
/// use duroxide_core::{BackoffStrategy, RetryPolicy};
/// use std::time::Duration;
///
/// let policy = RetryPolicy::new(5)
///     .with_timeout(Duration::from_secs(30))
///     .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) });
/// assert_eq!(policy.delay_for_attempt(1), Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How often the activity is tried at most, the first attempt included.
    pub max_attempts: u32,
    /// How long to wait between two attempts.
    pub backoff: BackoffStrategy,
    /// How long one attempt may take, the time in the queue included. An attempt that takes longer is given
    /// up with `timeout: activity timed out`. There is no further attempt, unless the call says
    /// [`retry_timeouts`](crate::RetriedActivity::retry_timeouts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, backoff: BackoffStrategy::default(), timeout: None }
    }
}

impl RetryPolicy {
    /// At most `max_attempts` attempts, with the default backoff and no timeout.
    ///
    /// # Panics
    /// If `max_attempts` is 0.
    pub fn new(max_attempts: u32) -> Self {
        assert!(max_attempts > 0, "max_attempts must be at least 1");
        Self { max_attempts, ..Self::default() }
    }

    /// Bounds each attempt. A timeout is not retried, unless the call says so.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The older name of [`Self::with_timeout`]: it bounds each attempt, not all of them together.
    ///
    /// For a bound over all attempts, `select2` the call with a timer.
    #[must_use]
    pub fn with_total_timeout(self, timeout: Duration) -> Self {
        self.with_timeout(timeout)
    }

    /// Sets how long to wait between two attempts.
    #[must_use]
    pub fn with_backoff(mut self, backoff: BackoffStrategy) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long to wait after the given attempt has failed. Attempts count from 1.
    pub fn delay_for_attempt(&self, attempt: u32) -> Duration {
        self.backoff.delay_for_attempt(attempt)
    }
}

/// A policy as `RetryPolicyRecorded` holds it: with what the call said beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedPolicy {
    #[serde(flatten)]
    pub(crate) policy: RetryPolicy,
    /// Whether a timeout is retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) retry_timeouts: bool,
}

impl RecordedPolicy {
    /// Empty for a policy that has no JSON form.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// How long to wait between two attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BackoffStrategy {
    /// Not at all.
    None,
    /// Always as long.
    Fixed {
        /// How long.
        delay: Duration,
    },
    /// `base` after the first attempt, twice `base` after the second, and so on, up to `max`.
    Linear {
        /// The first delay, and by how much it grows.
        base: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// `base` after the first attempt, then `multiplier` times as long each time, up to `max`.
    Exponential {
        /// The first delay.
        base: Duration,
        /// What each delay is multiplied by to give the next.
        multiplier: f64,
        /// The longest delay.
        max: Duration,
    },
}

impl Default for BackoffStrategy {
    fn default() -> Self {
        Self::Exponential { base: Duration::from_millis(100), multiplier: 2.0, max: Duration::from_secs(30) }
    }
}

impl BackoffStrategy {
    /// How long to wait after the given attempt has failed. Attempts count from 1; there is no delay after
    /// attempt 0. Delays too long to be computed are the longest one.
    pub fn delay_for_attempt(&self, attempt: u32) -> Duration {
        let Some(before) = attempt.checked_sub(1) else { return Duration::ZERO };
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed { delay } => *delay,
            Self::Linear { base, max } => base.saturating_mul(attempt).min(*max),
            Self::Exponential { base, .. } if base.is_zero() => Duration::ZERO,
            Self::Exponential { base, multiplier, max } => {
                let factor = multiplier.powi(i32::try_from(before).unwrap_or(i32::MAX));
                // Not a number, negative, or beyond what a duration can express: the longest delay.
                Duration::try_from_secs_f64(base.as_secs_f64() * factor).map_or(*max, |delay| delay.min(*max))
            }
        }
    }
}
