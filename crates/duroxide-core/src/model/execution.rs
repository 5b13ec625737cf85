//! What a turn tells the store about its execution besides the events.

use semver::Version;

/// What the store writes into the rows of the instance and its execution. `None` leaves a column as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutionMetadata {
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    pub status: Option<String>,
    /// The output, or the error's text.
    pub output: Option<String>,
    /// The orchestration's name.
    pub orchestration_name: Option<String>,
    /// The version of the handler that runs it.
    pub orchestration_version: Option<String>,
    /// The instance that waits for the result.
    pub parent_instance_id: Option<String>,
    /// The build that started the execution.
    pub pinned_duroxide_version: Option<Version>,
}

/// Names one scheduled activity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduledActivityIdentifier {
    /// The instance that scheduled it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The id of its `ActivityScheduled` event.
    pub activity_id: u64,
}

/// Who waits for an instance's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentLink {
    /// The parent instance.
    pub instance: String,
    /// Its execution that scheduled the child.
    pub execution_id: u64,
    /// The id of its `SubOrchestrationScheduled` event.
    pub event_id: u64,
}

impl ParentLink {
    /// The link in the optional fields of a start, if they name a parent.
    pub fn from_fields(
        instance: Option<&str>,
        execution_id: Option<u64>,
        event_id: Option<u64>,
    ) -> Option<Self> {
        Some(Self {
            instance: instance?.to_string(),
            execution_id: execution_id.unwrap_or(super::INITIAL_EXECUTION_ID),
            event_id: event_id?,
        })
    }
}

/// The status words of instances and executions.
pub mod status {
    /// Not at its end; also an instance between two executions.
    pub const RUNNING: &str = "Running";
    /// Returned `Ok`.
    pub const COMPLETED: &str = "Completed";
    /// Failed, was cancelled or poisoned.
    pub const FAILED: &str = "Failed";
    /// An execution, never an instance, that was followed by the next one.
    pub const CONTINUED_AS_NEW: &str = "ContinuedAsNew";
}
