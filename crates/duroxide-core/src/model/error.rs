//! Why an orchestration or an activity failed: the error that is stored in history.

use serde::{Deserialize, Serialize};

use super::error_text::error_within_limit;

/// The stored reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorDetails {
    /// The store or the machine failed, not the program.
    Infrastructure {
        /// What was being done.
        operation: String,
        /// What went wrong.
        message: String,
        /// Whether doing it again may help.
        retryable: bool,
    },
    /// The deployed code does not fit the stored work.
    Configuration {
        /// Which mismatch it is.
        kind: ConfigErrorKind,
        /// What does not fit, usually an orchestration's name.
        resource: String,
        /// The mismatch in words.
        message: Option<String>,
    },
    /// The program itself failed.
    Application {
        /// In which way it failed.
        kind: AppErrorKind,
        /// The program's own error text.
        message: String,
        /// Whether doing it again may help.
        retryable: bool,
    },
    /// A message was fetched more often than `max_attempts` allows.
    Poison {
        /// How often it was fetched.
        attempt_count: u32,
        /// How often it might have been fetched.
        max_attempts: u32,
        /// What kind of message it is and whose.
        message_type: PoisonMessageType,
        /// Why it came to that, as far as it is known, and the messages themselves as JSON:
        /// `cause: orchestration Order 2.0.0 is registered on no live node; messages: [...]`.
        message: String,
    },
}

/// Which way the deployed code does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigErrorKind {
    /// The code did something other than what its history says it did.
    Nondeterminism,
    /// The execution is pinned to a version that the runtime does not replay.
    UnsupportedReplayVersion,
}

/// Which way the program failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppErrorKind {
    /// An activity returned an error.
    ActivityFailed,
    /// The orchestration returned an error or broke a limit.
    OrchestrationFailed,
    /// The handler panicked.
    Panicked,
    /// Somebody cancelled the instance.
    Cancelled {
        /// The reason that was given.
        reason: String,
    },
}

/// What a poisoned message was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoisonMessageType {
    /// The inbox of an instance.
    Orchestration {
        /// Whose inbox.
        instance: String,
        /// The execution it was for.
        execution_id: u64,
    },
    /// One activity.
    Activity {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The activity's name.
        activity_name: String,
        /// The id of its `ActivityScheduled` event.
        activity_id: u64,
    },
    /// A history, message or work item that cannot be decoded.
    FailedDeserialization {
        /// Whose it is.
        instance: String,
        /// The execution it belongs to.
        execution_id: u64,
        /// Where decoding failed and why.
        error: String,
    },
}

impl ErrorDetails {
    /// `infrastructure`, `configuration`, `application` or `poison`: the label of failure metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Infrastructure { .. } => "infrastructure",
            Self::Configuration { .. } => "configuration",
            Self::Application { .. } => "application",
            Self::Poison { .. } => "poison",
        }
    }

    /// Whether doing the same again may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Infrastructure { retryable, .. } | Self::Application { retryable, .. } => *retryable,
            Self::Configuration { .. } | Self::Poison { .. } => false,
        }
    }

    /// Why something was poisoned, without the messages in question. For display alone.
    pub fn poison_cause(&self) -> Option<&str> {
        let Self::Poison { message, .. } = self else { return None };
        let (cause, _messages) = message.strip_prefix("cause: ")?.split_once("; messages: [")?;
        Some(cause)
    }

    /// The text that a program sees where it awaits the failed thing.
    pub fn display_message(&self) -> String {
        match self {
            Self::Infrastructure { operation, message, .. } => {
                format!("infrastructure:{operation}: {message}")
            }
            Self::Configuration { kind: ConfigErrorKind::Nondeterminism, resource, message } => match message
            {
                Some(message) => format!("nondeterministic: {message}"),
                None => format!("nondeterministic in {resource}"),
            },
            Self::Configuration { kind: ConfigErrorKind::UnsupportedReplayVersion, resource, message } => {
                format!("unsupported replay version: {}", message.as_deref().unwrap_or(resource))
            }
            Self::Application { kind: AppErrorKind::Cancelled { reason }, .. } => {
                format!("canceled: {reason}")
            }
            Self::Application { kind: AppErrorKind::Panicked, message, .. } => {
                format!("orchestration panicked: {message}")
            }
            Self::Application {
                kind: AppErrorKind::ActivityFailed | AppErrorKind::OrchestrationFailed,
                message,
                ..
            } => message.clone(),
            Self::Poison { attempt_count, max_attempts, message_type, .. } => {
                display_poison(*attempt_count, *max_attempts, message_type)
            }
        }
    }

    /// The same with each of its texts cut to the limit of a payload: what an execution ends with.
    #[must_use]
    pub fn within_limit(self) -> Self {
        match self {
            Self::Infrastructure { operation, message, retryable } => Self::Infrastructure {
                operation: error_within_limit(operation),
                message: error_within_limit(message),
                retryable,
            },
            Self::Configuration { kind, resource, message } => {
                Self::Configuration { kind, resource, message: message.map(error_within_limit) }
            }
            Self::Application { kind: AppErrorKind::Cancelled { reason }, message, retryable } => {
                let kind = AppErrorKind::Cancelled { reason: error_within_limit(reason) };
                Self::Application { kind, message: error_within_limit(message), retryable }
            }
            Self::Application {
                kind:
                    kind @ (AppErrorKind::ActivityFailed
                    | AppErrorKind::OrchestrationFailed
                    | AppErrorKind::Panicked),
                message,
                retryable,
            } => Self::Application { kind, message: error_within_limit(message), retryable },
            Self::Poison { attempt_count, max_attempts, message_type, message } => Self::Poison {
                attempt_count,
                max_attempts,
                message_type: message_type.within_limit(),
                message: error_within_limit(message),
            },
        }
    }

    /// The failure of an orchestration that was cancelled.
    pub fn cancelled(reason: &str) -> Self {
        Self::Application {
            kind: AppErrorKind::Cancelled { reason: reason.to_string() },
            message: format!("canceled: {reason}"),
            retryable: false,
        }
    }

    /// The failure of an orchestration whose handler panicked.
    pub fn panicked(message: impl Into<String>) -> Self {
        Self::Application { kind: AppErrorKind::Panicked, message: message.into(), retryable: false }
    }

    /// The failure of an orchestration whose code does not fit its history.
    pub fn nondeterministic(orchestration: impl Into<String>, diff: impl Into<String>) -> Self {
        Self::Configuration {
            kind: ConfigErrorKind::Nondeterminism,
            resource: orchestration.into(),
            message: Some(diff.into()),
        }
    }

    /// The failure of an orchestration that no node with its versions has taken in so many attempts.
    pub fn unsupported_replay_version(orchestration: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Configuration {
            kind: ConfigErrorKind::UnsupportedReplayVersion,
            resource: orchestration.into(),
            message: Some(message.into()),
        }
    }

    /// The failure of an activity that returned an error or panicked; the next attempt may succeed.
    pub fn activity_failed(message: impl Into<String>) -> Self {
        Self::Application { kind: AppErrorKind::ActivityFailed, message: message.into(), retryable: true }
    }

    /// The failure of an activity that no further attempt can mend.
    pub fn activity_failed_for_good(message: impl Into<String>) -> Self {
        Self::Application { kind: AppErrorKind::ActivityFailed, message: message.into(), retryable: false }
    }

    /// The failure of work whose outcome the store does not accept; doing it again would not change that.
    pub fn not_accepted(operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Infrastructure { operation: operation.into(), message: message.into(), retryable: false }
    }

    /// The failure of an orchestration that broke a rule or a limit; doing it again would break it again.
    pub fn orchestration_failed(message: impl Into<String>) -> Self {
        Self::Application {
            kind: AppErrorKind::OrchestrationFailed,
            message: message.into(),
            retryable: false,
        }
    }
}

impl PoisonMessageType {
    fn within_limit(self) -> Self {
        match self {
            Self::FailedDeserialization { instance, execution_id, error } => {
                let error = error_within_limit(error);
                Self::FailedDeserialization { instance, execution_id, error }
            }
            Self::Orchestration { .. } | Self::Activity { .. } => self,
        }
    }
}

fn display_poison(attempts: u32, max: u32, message_type: &PoisonMessageType) -> String {
    match message_type {
        PoisonMessageType::Orchestration { instance, .. } => {
            format!("poison: orchestration {instance} exceeded {attempts} attempts (max {max})")
        }
        PoisonMessageType::Activity { activity_name, activity_id, .. } => {
            format!("poison: activity {activity_name}#{activity_id} exceeded {attempts} attempts (max {max})")
        }
        PoisonMessageType::FailedDeserialization { instance, error, .. } => format!(
            "poison: orchestration {instance} history deserialization failed after {attempts} attempts \
             (max {max}): {error}"
        ),
    }
}

impl std::fmt::Display for ErrorDetails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.display_message())
    }
}
