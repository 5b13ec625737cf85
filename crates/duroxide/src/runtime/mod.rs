//! The runtime: fetches work, runs it, and commits what came of it.
//!
//! Reading order: `lifecycle` starts the loops of `dispatch`, which hand each fetched instance to `turn` and each activity to
//! `activity`. Both ask `verdict` what to do, and bring what came of the work into the store with `save`.
//!
//! | module | its job |
//! |---|---|
//! | `lifecycle`, `node`, `options`, `process` | starting and stopping a node, what its tasks share, how it is set up |
//! | `dispatch` | the loops that fetch work |
//! | `turn` | one fetched instance: decide, run, commit |
//! | `obstacle` | what stands in the way of running a turn here |
//! | `end_instance` | ending an instance without its code |
//! | `drive_turn` | running a turn that asks for values of other instances |
//! | `verify_replay`, `verify` | replaying a turn at once and comparing |
//! | `poll_guard`, `turn_watch` | programs that wait for what is not durable, or do not yield |
//! | `live` | executions held between turns |
//! | `commit` | the commit of a turn, and what follows from it |
//! | `activity` | one fetched activity: decide, run, ack |
//! | `activity_work` | an item of the worker queue taken apart |
//! | `activity_run` | one attempt of an activity |
//! | `activity_handler`, `handler_task` | running its handler, on a task of its own |
//! | `activity_context` | what an activity can do and know |
//! | `activity_result`, `activity_notes` | the messages about an activity: its result, and the others |
//! | `ack` | the ack of an activity |
//! | `verdict` | every decision about work that may not go on, pure |
//! | `save` | bringing what came of work into the store, for turns and activities alike |
//! | `retry`, `store_call`, `backoff` | the loop that makes a call again; one call and its timeout; the pauses between |
//! | `give_back` | giving work back to its queue |
//! | `forgiven_attempts` | attempts that do not count because the store was at fault |
//! | `poison` | the errors of work that the runtime ends |
//! | `suspects`, `probation` | work that may have killed its process: what runs beside it, and for how long |
//! | `keeper` | renewing locks |
//! | `sessions`, `recent_sessions` | the claims of sessions |
//! | `handlers`, `registry` | what is registered here |
//! | `heartbeat`, `sweeper`, `health`, `retention`, `gauges` | what a node does beside its work |
//! | `threads`, `restart_on_panic` | where programs run; background tasks that outlive a panic |
//! | `life`, `traces`, `program_log`, `observability`, `name_labels` | counters, metrics and the log |
//! | `test_faults` | the faults that tests ask for |

mod ack;
mod activity;
mod activity_context;
mod activity_handler;
mod activity_notes;
mod activity_result;
mod activity_run;
mod activity_work;
mod backoff;
mod commit;
mod dispatch;
mod drive_turn;
mod end_instance;
mod forgiven_attempts;
mod gauges;
mod give_back;
mod handler_task;
mod handlers;
mod health;
mod heartbeat;
mod keeper;
mod life;
mod lifecycle;
mod live;
mod name_labels;
mod node;
pub mod observability;
mod obstacle;
mod options;
mod poison;
mod poll_guard;
mod probation;
#[doc(hidden)]
pub mod process;
pub(crate) mod program_log;
mod recent_sessions;
pub mod registry;
mod restart_on_panic;
mod retention;
mod retry;
mod save;
mod sessions;
mod store_call;
mod suspects;
mod sweeper;
mod test_faults;
mod threads;
mod traces;
mod turn;
mod turn_watch;
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
