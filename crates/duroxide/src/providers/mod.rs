//! Stores: the trait that every store implements, and the stores that come with the crate.

mod admin;
mod bounce;
mod caller;
pub mod error;
mod fetch;
mod health;
mod holder;
mod listing;
pub mod management;
pub mod memory;
pub(crate) mod outcome;
mod plain_status;
mod provider;
mod redrive;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod status_code;
#[doc(hidden)]
pub mod support;
mod tag;
mod waiters;

pub use admin::ProviderAdmin;
pub use bounce::{ActivityBounce, Bounce, Bounces, GiveBack};
pub use caller::CallerTransaction;
pub use duroxide_core::{
    BounceCause, DispatcherCapabilityFilter, ExecutionMetadata, HandlerSet, HandlerVersions, KvEntry,
    MissingCapability, Need, NodeInfo, NodeRecord, Route, RoutingKey, ScheduledActivityIdentifier,
    SemverRange, SystemStats, UnprocessableWork, WorkItem,
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
pub use outcome::{Enqueued, SendOutcome, StartOutcome};
pub use provider::Provider;
pub use redrive::RedriveInstance;
pub use tag::TagFilter;
