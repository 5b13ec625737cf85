//! The runtime: fetches work, runs it, and commits what came of it.
//!
//! Reading order: `lifecycle` starts the loops of `dispatch`, which hand each fetched instance to `turn` (decided
//! in `verdict`) and each activity to `activity`. `give_back` gives back what is not done, `poison` ends what never will be. `keeper` renews locks,
//! `threads` runs turns and activities apart from tokio's workers, `turn_watch` gives up turns that do not yield,
//! `sessions` claims, `heartbeat` tells other nodes what this one can do (`handlers`), and `live` holds executions between turns.

mod ack;
mod activity;
mod activity_context;
mod activity_notes;
mod activity_result;
mod backoff;
mod commit;
mod dispatch;
mod excuses;
mod gauges;
mod give_back;
mod handler_task;
mod handlers;
mod health;
mod heartbeat;
mod insist;
mod keeper;
mod lasting;
mod life;
mod lifecycle;
mod live;
mod name_labels;
mod node;
pub mod observability;
mod options;
mod poison;
mod poll_guard;
mod probation;
#[doc(hidden)]
pub mod process;
pub(crate) mod program_log;
mod questions;
mod recent_sessions;
pub mod registry;
mod retention;
mod sessions;
mod suspects;
mod sweeper;
mod threads;
mod traces;
mod turn;
mod turn_watch;
mod unprotected;
mod verdict;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub mod verify;
mod verify_replay;

pub use activity_context::{ActivityContext, HeartbeatError};
pub use duroxide_core::limits;
pub use duroxide_core::{CapabilityRouting, OrchestrationStatus};
pub use health::HealthPolicy;
pub use lifecycle::Runtime;
pub use observability::{LogFormat, MetricsSnapshot, ObservabilityConfig, ObservabilityHandle};
pub use options::{ForeignWakes, OnNondeterminism, RuntimeOptions, UnregisteredBackoffConfig, VerifyReplay};
pub use registry::VersionPolicy;
pub use retention::RetentionPolicy;
pub use sweeper::SweeperOptions;

/// What an instance runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestrationDescriptor {
    /// The orchestration's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The instance that waits for the result.
    pub parent_instance: Option<String>,
    /// The parent's `SubOrchestrationScheduled` event.
    pub parent_id: Option<u64>,
}
