//! The contract between duroxide and its stores.
//!
//! A store is a crate that depends on this one and implements [`Provider`]; the runtime and the client call it through
//! that trait alone. [`memory`] is the contract in its plainest form: the other stores are compared with it.
//!
//! | this crate owns | it must not have |
//! |---|---|
//! | the traits, their types and errors, the clock | the runtime, the client |
//! | the store in memory, the tests of the contract | a database |
//!
//! | module | what it does |
//! |---|---|
//! | `provider`, `admin` | the traits |
//! | `fetch`, `holder`, `outcome`, `bounce`, `tag`, `caller` | what the calls of the queues take and return |
//! | `management`, `listing`, `health`, `redrive` | what the calls of operators take and return |
//! | `opening` | what opening a store may change, and what a store is |
//! | [`error`] | why a call failed |
//! | [`memory`] | the store in memory |
//! | [`clock`] | the only module that reads the system's clock |
//! | `random` | the only module that draws random numbers |
//! | [`metric`] | every metric |
//! | `support`, `plain_status`, `status_code`, `waiters` | what the stores of this repository share |
//! | `room`, `send_gate`, `stored_bytes` | how many bytes a fetch brings, and how many are sent at a time |
//! | [`rules`] | the contract as pure rules, for stores that keep rows |
//! | `row_store` | a store on plain maps that follows those rules, with the feature `test-hooks` |
//! | `provider_validation` | the contract as tests, with the feature `provider-test` |
//! | `failpoint`, `drop_after` | for tests: a process that dies at a point, a caller that goes away |

mod admin;
mod bounce;
mod caller;
pub mod clock;
#[cfg(any(feature = "provider-test", feature = "test-hooks"))]
#[doc(hidden)]
pub mod drop_after;
pub mod error;
#[doc(hidden)]
pub mod failpoint;
mod fetch;
mod health;
mod holder;
mod listing;
pub mod management;
pub mod memory;
pub mod metric;
mod opening;
mod outcome;
mod plain_status;
mod provider;
#[cfg(feature = "provider-test")]
pub mod provider_validation;
#[doc(hidden)]
pub mod random;
mod redrive;
mod room;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub mod row_store;
#[doc(hidden)]
pub mod rules;
mod send_gate;
mod status_code;
mod stored_bytes;
#[doc(hidden)]
pub mod support;
mod tag;
mod waiters;

pub use admin::ProviderAdmin;
pub use bounce::{ActivityBounce, Bounce, Bounces, GiveBack};
pub use caller::CallerTransaction;
pub use duroxide_core::{
    BounceCause, DispatcherCapabilityFilter, Event, EventKind, ExecutionMetadata, HandlerSet,
    HandlerVersions, KvEntry, MissingCapability, Need, NodeInfo, NodeRecord, OrchestrationStatus, Route,
    RoutingKey, ScheduledActivityIdentifier, SemverRange, SystemStats, UnprocessableWork, WorkItem,
};
pub use error::{ProviderError, ProviderErrorKind};
pub use fetch::{
    FetchedTurn, FetchedWork, HeldHistories, HeldHistory, HistoryPart, NothingHeld, OrchestrationItem,
    OrchestrationRef, SessionFetchConfig, SessionLimits, SessionOverlap, Suspects, SweepRequest, TurnFacts,
    TurnRequest, WaitUntil, WorkRequest,
};
pub use health::{HealthFacts, Overdue, RepairInstance};
pub use holder::{ExpiredLock, LockHolder};
pub use listing::{Cursor, InstancePage, InstanceQuery};
pub use management::{
    DeleteInstanceResult, ExecutionInfo, FilteredOut, InstanceFilter, InstanceInfo, InstanceTree,
    OldestReady, PruneOptions, PruneResult, QueueDepths, SystemMetrics, WaitingByTag,
};
#[doc(hidden)]
pub use opening::older_schema;
pub use opening::{Inspection, OpenMode, StoreFacts, StoreSetting};
pub use outcome::{Enqueued, SendOutcome, StartOutcome};
pub use provider::Provider;
pub use redrive::RedriveInstance;
pub use tag::TagFilter;
