//! Stores: the trait that every store implements, and the stores that come with the crate.

#[cfg(feature = "postgres")]
pub use duroxide_postgres as postgres;
#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub use duroxide_provider::row_store;
#[doc(hidden)]
pub use duroxide_provider::support;
pub use duroxide_provider::{
    ActivityBounce, Bounce, BounceCause, Bounces, CallerTransaction, Cursor, DeleteInstanceResult,
    DispatcherCapabilityFilter, Enqueued, ExecutionInfo, ExecutionMetadata, ExpiredLock, FetchedTurn,
    FetchedWork, FilteredOut, GiveBack, HandlerSet, HandlerVersions, HealthFacts, HeldHistories, HeldHistory,
    HistoryPart, Inspection, InstanceFilter, InstanceInfo, InstancePage, InstanceQuery, InstanceTree,
    KvEntry, LockHolder, MissingCapability, Need, NodeInfo, NodeRecord, NothingHeld, OldestReady, OpenMode,
    OrchestrationItem, OrchestrationRef, Overdue, Provider, ProviderAdmin, ProviderError, ProviderErrorKind,
    PruneOptions, PruneResult, QueueDepths, RedriveInstance, RepairInstance, Route, RoutingKey,
    ScheduledActivityIdentifier, SemverRange, SendOutcome, SessionFetchConfig, SessionLimits, SessionOverlap,
    StartOutcome, StoreFacts, StoreSetting, Suspects, SweepRequest, SystemMetrics, SystemStats, TagFilter,
    TurnFacts, TurnRequest, UnprocessableWork, WaitUntil, WaitingByTag, WorkItem, WorkRequest, error,
    management, memory,
};
#[cfg(feature = "sqlite")]
pub use duroxide_sqlite as sqlite;
