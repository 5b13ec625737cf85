//! How a runtime behaves.

use std::time::Duration;

use duroxide_core::{CapabilityRouting, SemverRange};

use super::ObservabilityConfig;
use super::backoff::doubled;
use super::health::HealthPolicy;
use super::process::ProcessScope;
use super::retention::RetentionPolicy;
use super::sweeper::SweeperOptions;
use crate::providers::TagFilter;

/// How a runtime behaves. Every field has a default: `RuntimeOptions { max_attempts: 3, ..Default::default() }`.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// The least time between two fetches of a store that answers "nothing" at once. 100 ms.
    pub dispatcher_min_poll_interval: Duration,
    /// How long a fetch waits in the store for work. 30 s.
    pub dispatcher_long_poll_timeout: Duration,
    /// Turns in progress at the same time. 1 means at most one handler at a time; 0 makes this a node that runs no
    /// orchestrations, whatever is registered.
    pub orchestration_concurrency: usize,
    /// Activities in progress at the same time. 1 means at most one handler at a time; 0 makes this a node that runs no
    /// activities, whatever is registered.
    pub worker_concurrency: usize,
    /// How long the lock on an instance holds without renewal. 5 s.
    pub orchestrator_lock_timeout: Duration,
    /// How long before its end the lock on an instance is renewed. 2 s.
    pub orchestrator_lock_renewal_buffer: Duration,
    /// How long the lock on an activity holds without renewal. 30 s.
    pub worker_lock_timeout: Duration,
    /// How long before its end the lock on an activity is renewed. 5 s.
    pub worker_lock_renewal_buffer: Duration,
    /// Logging and gauges.
    pub observability: ObservabilityConfig,
    /// How long the program of a turn may run without yielding at an `.await`. 10 s.
    ///
    /// Above it the turn is reported at ERROR with its instance, and given up: its lock is left to expire, so that the
    /// attempt counts and the instance is poisoned after `max_attempts` of them. Its thread cannot be ended, but
    /// other turns get one of their own. On a current-thread runtime of tokio there is no other thread, and a program
    /// that never yields stops the process.
    pub max_turn_time: Duration,
    /// Fetches of one message or activity before it is poisoned. 10.
    pub max_attempts: u32,
    /// How long work without a handler here is left to other nodes.
    pub unregistered_backoff: UnregisteredBackoffConfig,
    /// What happens to a program that waits for something that is not durable, or is woken by it. Nothing.
    pub foreign_wakes: ForeignWakes,
    /// Whether every turn is replayed after it ran, and compared. Never.
    pub verify_replay: VerifyReplay,
    /// What happens to an execution whose history does not fit the code here. It fails.
    pub on_nondeterminism: OnNondeterminism,
    /// How long a cancelled activity may take to end by itself. 10 s.
    pub activity_cancellation_grace_period: Duration,
    /// The pinned versions that this node replays; without it, everything up to its own build.
    pub supported_replay_versions: Option<SemverRange>,
    /// How long a claim on a session holds without renewal. 30 s.
    pub session_lock_timeout: Duration,
    /// How long before its end a claim on a session is renewed. 5 s.
    pub session_lock_renewal_buffer: Duration,
    /// How long a session without activities is kept. 300 s.
    pub session_idle_timeout: Duration,
    /// How often orphaned sessions are removed. 300 s.
    pub session_cleanup_interval: Duration,
    /// Sessions of which this runtime runs activities at the same time, at most. Sessions that it owns and that have
    /// no activity in progress do not count. While it runs as many as this, activities of others wait, and go to
    /// another worker that has room. 0 means that it takes no activities of sessions. 10.
    pub max_sessions_per_runtime: usize,
    /// A name that stays the same when the process restarts, and that no other process has: it owns the sessions,
    /// so a process that comes back under it has them at once. With it the activities of one session run in
    /// parallel; without it they run one at a time, and the sessions move on when the process ends.
    pub worker_node_id: Option<String>,
    /// Which activities this runtime accepts, by tag.
    pub worker_tag_filter: TagFilter,
    /// How this runtime chooses what it fetches: by replay version alone, or also by what it has registered.
    pub capability_routing: CapabilityRouting,
    /// How often this runtime says that it lives and what it can do. Silent for three times as long, it counts as
    /// gone. 20 s.
    pub node_heartbeat_interval: Duration,
    /// Executions kept in memory between turns, least recently used dropped first. 10,000. They are fewer when their
    /// histories are long: 4,000,000 events and 1 GiB are the limit for all of them together.
    pub max_live_executions: usize,
    /// What to check automatically. `None`: nothing.
    pub health: Option<HealthPolicy>,
    /// How to look for work that no live node can do. By default every 60 s, and it is only reported; `None`: not at
    /// all.
    pub sweeper: Option<SweeperOptions>,
    /// What to remove automatically. `None`: nothing.
    pub retention: Option<RetentionPolicy>,
    /// The process that this runtime takes itself to be in; only simulations change it.
    #[doc(hidden)]
    pub process: ProcessScope,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            dispatcher_min_poll_interval: Duration::from_millis(100),
            dispatcher_long_poll_timeout: Duration::from_secs(30),
            // Enough turns in flight to fill a group commit several times over.
            orchestration_concurrency: 256,
            // A waiting activity costs memory, not a thread.
            worker_concurrency: 512,
            orchestrator_lock_timeout: Duration::from_secs(5),
            orchestrator_lock_renewal_buffer: Duration::from_secs(2),
            worker_lock_timeout: Duration::from_secs(30),
            worker_lock_renewal_buffer: Duration::from_secs(5),
            observability: ObservabilityConfig::default(),
            max_turn_time: Duration::from_secs(10),
            max_attempts: 10,
            unregistered_backoff: UnregisteredBackoffConfig::default(),
            foreign_wakes: ForeignWakes::default(),
            verify_replay: VerifyReplay::default(),
            on_nondeterminism: OnNondeterminism::default(),
            activity_cancellation_grace_period: Duration::from_secs(10),
            supported_replay_versions: None,
            session_lock_timeout: Duration::from_secs(30),
            session_lock_renewal_buffer: Duration::from_secs(5),
            session_idle_timeout: Duration::from_secs(300),
            session_cleanup_interval: Duration::from_secs(300),
            max_sessions_per_runtime: 10,
            worker_node_id: None,
            worker_tag_filter: TagFilter::default(),
            capability_routing: CapabilityRouting::default(),
            // Five statements each: with all else an idle node does, below one a second.
            node_heartbeat_interval: Duration::from_secs(20),
            max_live_executions: 10_000,
            health: None,
            sweeper: Some(SweeperOptions::default()),
            retention: None,
            process: ProcessScope::default(),
        }
    }
}

impl RuntimeOptions {
    pub(super) fn runs_orchestrations(&self) -> bool {
        self.orchestration_concurrency > 0
    }

    pub(super) fn runs_activities(&self) -> bool {
        self.worker_concurrency > 0
    }

    /// # Panics
    /// With the option's name, when a value makes no sense.
    pub(super) fn check(&self) {
        assert!(self.max_attempts > 0, "max_attempts must be at least 1");
        assert!(!self.orchestrator_lock_timeout.is_zero(), "orchestrator_lock_timeout must be above zero");
        assert!(!self.max_turn_time.is_zero(), "max_turn_time must be above zero");
        assert!(!self.worker_lock_timeout.is_zero(), "worker_lock_timeout must be above zero");
        assert!(!self.session_lock_timeout.is_zero(), "session_lock_timeout must be above zero");
        assert!(
            self.node_heartbeat_interval >= Duration::from_millis(1),
            "node_heartbeat_interval must be at least 1 ms"
        );
        if let Some(sweeper) = &self.sweeper {
            assert!(!sweeper.interval.is_zero(), "sweeper.interval must be above zero");
            assert!(
                sweeper.end_after.is_none_or(|time| !time.is_zero()),
                "sweeper.end_after must be above zero: None ends nothing"
            );
        }
        if let Some(node_id) = &self.worker_node_id
            && let Err(cause) = duroxide_core::check_node_id(node_id)
        {
            panic!("worker_node_id: {cause}");
        }
        assert!(!self.session_cleanup_interval.is_zero(), "session_cleanup_interval must be above zero");
        assert!(
            self.retention.as_ref().is_none_or(|policy| !policy.interval.is_zero()),
            "retention.interval must be above zero"
        );
        assert!(
            self.health.as_ref().is_none_or(|policy| !policy.interval.is_zero()),
            "health.interval must be above zero"
        );
        assert!(
            self.session_idle_timeout
                > self.worker_lock_timeout.saturating_sub(self.worker_lock_renewal_buffer),
            "session_idle_timeout ({:?}) must be longer than worker_lock_timeout - worker_lock_renewal_buffer ({:?}), \
             or a session could expire while its activity runs",
            self.session_idle_timeout,
            self.worker_lock_timeout.saturating_sub(self.worker_lock_renewal_buffer),
        );
    }
}

/// What happens to a program that waits for something that is not durable: a task, a timer or a socket of tokio, a
/// channel that another thread sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForeignWakes {
    /// It may hang, and its replay may do something else.
    #[default]
    Ignore,
    /// Its turn is nondeterministic, with a text that names its last command and what to use instead. Programs are polled
    /// where tokio has neither timers nor I/O, so that these fail where they are used.
    Fail,
}

/// Whether every turn is replayed from the first event after it ran, without reading the store. A turn that does something
/// else then is nondeterministic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyReplay {
    /// No turn.
    #[default]
    Never,
    /// In builds with debug assertions.
    Debug,
    /// Every turn of a short history, and some of a long one.
    Always,
}

impl VerifyReplay {
    /// Whether turns are replayed in this build.
    pub fn is_on(self) -> bool {
        match self {
            Self::Never => false,
            Self::Debug => cfg!(debug_assertions),
            Self::Always => true,
        }
    }
}

/// What happens to an execution whose history does not fit the code of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNondeterminism {
    /// It fails at once.
    #[default]
    Fail,
    /// It is handed back with `unregistered_backoff`, because a node with older code may still fit, and fails when
    /// it does not fit at attempt `max_attempts` either. Nothing of a turn that did not fit is kept.
    HandBack,
}

/// How long work without a handler here is left to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnregisteredBackoffConfig {
    /// The first delay. 1 s.
    pub base_delay: Duration,
    /// The longest delay. 60 s.
    pub max_delay: Duration,
}

impl Default for UnregisteredBackoffConfig {
    fn default() -> Self {
        Self { base_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) }
    }
}

impl UnregisteredBackoffConfig {
    /// The delay after this attempt, counted from 1: `base * 2^min(attempt - 1, 6)`, capped.
    pub fn delay(&self, attempt_count: u32) -> Duration {
        const MAX_EXPONENT: u32 = 6;
        let exponent = attempt_count.saturating_sub(1).min(MAX_EXPONENT);
        doubled(self.base_delay, exponent, self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(base_ms: u64, max_ms: u64) -> UnregisteredBackoffConfig {
        UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(base_ms),
            max_delay: Duration::from_millis(max_ms),
        }
    }

    fn delays_ms<const N: usize>(config: &UnregisteredBackoffConfig, attempts: [u32; N]) -> [u128; N] {
        attempts.map(|attempt| config.delay(attempt).as_millis())
    }

    #[test]
    fn test_backoff_calculation_exponential() {
        let delays = delays_ms(&UnregisteredBackoffConfig::default(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    }

    #[test]
    fn test_backoff_caps_at_max() {
        assert_eq!(delays_ms(&UnregisteredBackoffConfig::default(), [7, 8, 100, u32::MAX]), [60_000; 4]);
        // Below the cap the exponent has a limit of its own: 64 times the base.
        assert_eq!(delays_ms(&config(1, 1_000_000), [6, 7, 8, u32::MAX]), [32, 64, 64, 64]);
        let longest = UnregisteredBackoffConfig { base_delay: Duration::MAX, max_delay: Duration::MAX };
        assert_eq!(longest.delay(u32::MAX), Duration::MAX, "nothing overflows");
    }

    #[test]
    fn test_backoff_respects_custom_config() {
        assert_eq!(delays_ms(&config(100, 500), [0, 1, 2, 3, 4, 5]), [100, 100, 200, 400, 500, 500]);
        assert_eq!(delays_ms(&config(50, 10), [1, 2]), [10, 10], "the cap is the stronger one");
        assert_eq!(delays_ms(&config(0, 500), [1, 10]), [0, 0]);
    }
}
