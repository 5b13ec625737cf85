//! Durable execution inside your process.
//!
//! Orchestrations are plain async functions that survive crashes by deterministic replay; activities do the side
//! effects. The store is SQLite inside the process, PostgreSQL for many processes, memory for tests, or anything that
//! implements [`providers::Provider`].
//!
#![cfg_attr(all(feature = "sqlite", feature = "macros"), doc = "```no_run,standalone_crate")]
#![cfg_attr(not(all(feature = "sqlite", feature = "macros")), doc = "```ignore")]
//! use duroxide::prelude::*;
//!
//! #[duroxide::activity]
//! async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! #[duroxide::orchestration]
//! async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
//!     Ok(ctx.call(greet, name).await?)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let app = Duroxide::open("sqlite:hello.db").await?;
//!     println!("{}", app.run(hello, "hello-1", "world".to_string()).await?);
//!     app.shutdown().await
//! }
//! ```
//!
//! [`Duroxide`] is the facade of a program, [`prelude`] has all that it uses every day. [`runtime`] and [`client`] are what is
//! below: handlers by name, with text in and out.
//!
//! | this crate owns | it must not have |
//! |---|---|
//! | the runtime, the client, the faults of tests | rules about what a turn does: `duroxide-core` |
//! | the choice of a store: features, [`open_store`] | SQL, or the traits of stores: `duroxide-provider` |
//!
//! | feature | what it adds |
//! |---|---|
//! | `sqlite`, default | `providers::sqlite`: the crate `duroxide-sqlite` |
//! | `postgres` | `providers::postgres`: the crate `duroxide-postgres` |
//! | `macros`, default | the attributes `activity` and `orchestration`, and the list of handlers that they fill; with `testing` also `test` |
//! | `logging`, default | [`runtime::observability::init_logging`] |
//! | `provider-test` | `provider_validation`: the contract of stores as tests |
//! | `test-hooks` | `testing`: a store that fails as told |
//! | `testing` | `testing::TestEnv`: tests of programs in virtual time |
//! | `test` | `provider-test` and `test-hooks` |
//! | `replay-version-test` | nothing: for programs that name it |

pub mod app;
pub mod client;
mod open;
pub mod prelude;
pub mod providers;
mod replay;
pub mod runtime;
#[cfg(feature = "test-hooks")]
pub mod testing;

pub use app::{Builder, Duroxide, Handlers, OpenError, Run, RunError, StartError};
pub use client::{
    Client, ClientError, Finding, FindingKind, HealthOptions, HealthReport, RedriveBulkResult, RedriveResult,
};
pub use duroxide_core::{
    AcceptedTags, AppError, AppErrorKind, BackoffStrategy, BounceCause, Call, CallError, CancelPolicy,
    Cancellable, Cancelled, CapabilityRouting, Child, CompensationFailed, ConfigErrorKind, ContinueAs,
    ContinuedAsNew, DispatcherCapabilityFilter, DurableFuture, Either2, Either3, Elapsed, ErrorDetails,
    Event, EventKind, EventName, Failure, FailureKind, FunctionName, FunctionNames, HandlerError,
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, JoinAll, Logger, MalformedPayload, MissingCapability, Need,
    NodeInfo, NodeRecord, OrchestrationContext, OrchestrationHandler, OrchestrationStatus, PoisonMessageType,
    QueueName, RecordedFailure, RetriedActivity, RetryPolicy, SUB_ORCH_AUTO_PREFIX, Saga, SagaStep,
    SemverRange, TryJoinAll, UnprocessableWork, build_child_instance_id, current_build_version,
    is_auto_generated_sub_orch_id,
};
#[cfg(all(feature = "macros", feature = "testing"))]
pub use duroxide_macros::test;
#[cfg(feature = "macros")]
pub use duroxide_macros::{activity, orchestration};
#[doc(hidden)]
pub use duroxide_provider::failpoint;
pub use duroxide_provider::{clock, metric};
#[cfg(feature = "provider-test")]
pub use duroxide_provider::{provider_validation, provider_validation_tests};
pub use open::{backup_store, inspect_store, open_store, open_store_with};
pub use providers::{
    Cursor, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstancePage, InstanceQuery,
    InstanceTree, ProviderAdmin, PruneOptions, PruneResult, QueueDepths, ScheduledActivityIdentifier,
    SendOutcome, SessionFetchConfig, StartOutcome, SystemMetrics, SystemStats, TagFilter, WaitingByTag,
};
pub use replay::{RecordedHistory, ReplayError};
pub use runtime::registry::{OrchestrationRegistry, OrchestrationRegistryBuilder};
pub use runtime::{ActivityContext, HeartbeatError, OrchestrationDescriptor, RuntimeOptions};

/// What handlers and typed programs return: any error turns into a [`Failure`] by `?`.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What the code that attributes make uses. No program names it.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use app::expansion as __private;

/// A store that is shared.
pub type ProviderRef = std::sync::Arc<dyn providers::Provider>;

/// The documents' examples compile.
#[cfg(doctest)]
mod documents {
    #[cfg(all(feature = "sqlite", feature = "macros", feature = "testing"))]
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[cfg(all(feature = "sqlite", feature = "macros", feature = "testing"))]
    #[doc = include_str!("../../../docs/from-text-to-types.md")]
    struct FromTextToTypes;
    #[cfg(all(feature = "sqlite", feature = "macros"))]
    #[doc = include_str!("../../../docs/orchestration-guide.md")]
    struct OrchestrationGuide;
    #[doc = include_str!("../../../docs/sagas.md")]
    struct Sagas;
    #[doc = include_str!("../../../docs/metrics.md")]
    struct MetricsAndLogs;
    #[cfg(all(feature = "macros", feature = "testing"))]
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/postgres.md")]
    struct Postgres;
    #[cfg(feature = "test-hooks")]
    #[doc = include_str!("../../../docs/reliability.md")]
    struct Reliability;
    #[cfg(feature = "provider-test")]
    #[doc = include_str!("../../../docs/provider-guide.md")]
    struct ProviderGuide;
}
