//! Logging and counters. Nothing global is installed unless `init_logging` is called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide_core::ErrorDetails;

use crate::metric::{self, SharedString};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Several lines, for people.
    #[default]
    Pretty,
    /// One line, for people.
    Compact,
}

/// Logging and gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservabilityConfig {
    /// How log lines look. [`LogFormat::Pretty`].
    pub log_format: LogFormat,
    /// The level, or a filter such as `info,duroxide=debug`.
    pub log_level: String,
    /// The service's name.
    pub service_name: String,
    /// The service's version.
    pub service_version: Option<String>,
    /// How often gauges are computed. 60 s; zero means never.
    pub gauge_poll_interval: Duration,
}

impl Default for ObservabilityConfig {
    fn default() -> Self {
        Self {
            log_format: LogFormat::default(),
            log_level: "info".to_string(),
            service_name: "duroxide".to_string(),
            service_version: None,
            gauge_poll_interval: Duration::from_secs(60),
        }
    }
}

/// Installs a global subscriber that writes to standard error.
///
/// Fails when the level is not a valid filter or the program has installed a subscriber already. Feature `logging`.
#[cfg(feature = "logging")]
pub fn init_logging(config: &ObservabilityConfig) -> Result<(), String> {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_new(&config.log_level)
        .map_err(|cause| format!("log_level '{}' is not a filter: {cause}", config.log_level))?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Json => builder.json().try_init(),
        LogFormat::Pretty => builder.pretty().try_init(),
        LogFormat::Compact => builder.compact().try_init(),
    }
    .map_err(|cause| format!("a log subscriber is installed already: {cause}"))
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a runtime has counted since it started.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct MetricsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)*
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($name: self.$name.get(),)* }
            }
        }
    };
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn increment(&self) {
        self.add(1);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Executions begun by a start.
    orch_starts,
    /// Instances that returned `Ok`.
    orch_completions,
    /// Instances that failed, for whatever reason.
    orch_failures,
    /// Of these, failures of the program.
    orch_application_errors,
    /// Of these, failures of the store or machine.
    orch_infrastructure_errors,
    /// Of these, code that does not fit the history.
    orch_configuration_errors,
    /// Of these, poisoned.
    orch_poison,
    /// Activities that returned `Ok`.
    activity_success,
    /// Activities that failed in the program.
    activity_app_errors,
    /// Activities that failed in the store or machine.
    activity_infra_errors,
    /// Activities that failed because the code does not fit.
    activity_config_errors,
    /// Activities that were poisoned.
    activity_poison,
    /// Instances fetched for a turn.
    orch_dispatcher_items_fetched,
    /// Activities fetched.
    worker_dispatcher_items_fetched,
    /// Executions that continued as new.
    orch_continue_as_new,
    /// Children scheduled.
    suborchestration_calls,
    /// Calls of the store that failed.
    provider_errors,
    /// Turns given back because their orchestration is not registered here.
    unregistered_orch_backoff,
    /// Activities given back because they are not registered here.
    unregistered_activity_backoff,
}

impl Counters {
    /// Counts an instance's failure, once in total and once in its category, under the label of its name.
    pub(super) fn orchestration_failed(&self, details: &ErrorDetails, label: SharedString) {
        self.orch_failures.increment();
        metric::orchestration_failures(details.category(), label).increment(1);
        match details {
            ErrorDetails::Application { .. } => self.orch_application_errors.increment(),
            ErrorDetails::Infrastructure { .. } => self.orch_infrastructure_errors.increment(),
            ErrorDetails::Configuration { .. } => self.orch_configuration_errors.increment(),
            ErrorDetails::Poison { .. } => {
                self.orch_poison.increment();
                metric::poison_detected("orchestration").increment(1);
            }
        }
    }

    /// Counts an activity's failure in its category, under the label of its name.
    pub(super) fn activity_failed(&self, details: &ErrorDetails, label: SharedString) {
        metric::activity_failures(details.category(), label).increment(1);
        match details {
            ErrorDetails::Application { .. } => self.activity_app_errors.increment(),
            ErrorDetails::Infrastructure { .. } => self.activity_infra_errors.increment(),
            ErrorDetails::Configuration { .. } => self.activity_config_errors.increment(),
            ErrorDetails::Poison { .. } => {
                self.activity_poison.increment();
                metric::poison_detected("activity").increment(1);
            }
        }
    }
}

/// A runtime's counters, for whoever exports them.
#[derive(Debug, Clone)]
pub struct ObservabilityHandle {
    pub(super) counters: std::sync::Arc<Counters>,
}

impl ObservabilityHandle {
    /// What the runtime has counted so far.
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        self.counters.snapshot()
    }
}
