//! Durable execution inside your process.
//!
//! Orchestrations are plain async functions that survive crashes by deterministic replay; activities do the side
//! effects. The store is SQLite inside the process, memory for tests, or anything that implements
//! [`providers::Provider`].
//!
//! | this crate owns | `duroxide-core` owns |
//! |---|---|
//! | stores, tasks, time, the network of calls | what is stored, and what a turn does |

pub mod client;
pub mod clock;
#[cfg(any(feature = "provider-test", feature = "test-hooks"))]
mod drop_after;
#[doc(hidden)]
pub mod failpoint;
pub mod metric;
#[cfg(feature = "provider-test")]
pub mod provider_validation;
pub mod providers;
pub mod runtime;
#[cfg(feature = "test-hooks")]
pub mod testing;

pub use client::{
    Client, ClientError, Finding, FindingKind, HealthOptions, HealthReport, RedriveBulkResult, RedriveResult,
};
pub use duroxide_core::{
    AcceptedTags, AppErrorKind, BackoffStrategy, BounceCause, CapabilityRouting, ConfigErrorKind,
    ContinuedAsNew, DispatcherCapabilityFilter, DurableFuture, Either2, Either3, ErrorDetails, Event,
    EventKind, FailureKind, HandlerError, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, MissingCapability, Need,
    NodeInfo, NodeRecord, OrchestrationContext, OrchestrationHandler, OrchestrationStatus, PoisonMessageType,
    RecordedFailure, RetriedActivity, RetryPolicy, SUB_ORCH_AUTO_PREFIX, SemverRange, UnprocessableWork,
    build_child_instance_id, current_build_version, is_auto_generated_sub_orch_id,
};
pub use providers::{
    Cursor, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstancePage, InstanceQuery,
    InstanceTree, ProviderAdmin, PruneOptions, PruneResult, QueueDepths, ScheduledActivityIdentifier,
    SendOutcome, SessionFetchConfig, StartOutcome, SystemMetrics, SystemStats, TagFilter, WaitingByTag,
};
pub use runtime::registry::{OrchestrationRegistry, OrchestrationRegistryBuilder};
pub use runtime::{ActivityContext, HeartbeatError, OrchestrationDescriptor, RuntimeOptions};

/// A store that is shared.
pub type ProviderRef = std::sync::Arc<dyn providers::Provider>;

/// The documents' examples compile.
#[cfg(doctest)]
mod documents {
    #[cfg(feature = "sqlite")]
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/orchestration-guide.md")]
    struct OrchestrationGuide;
    #[doc = include_str!("../../../docs/sagas.md")]
    struct Sagas;
    #[doc = include_str!("../../../docs/metrics.md")]
    struct MetricsAndLogs;
    #[cfg(feature = "test-hooks")]
    #[doc = include_str!("../../../docs/reliability.md")]
    struct Reliability;
    #[cfg(feature = "provider-test")]
    #[doc = include_str!("../../../docs/provider-guide.md")]
    struct ProviderGuide;
}
