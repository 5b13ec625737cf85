//! What authors of stores implement and get.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::{
    ExecutionMetadata, KvEntry, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter, WorkItem,
};
use duroxide::{
    DeleteInstanceResult, DispatcherCapabilityFilter, ErrorDetails, Event, ExecutionInfo, InstanceFilter,
    InstanceInfo, InstanceTree, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use semver::Version;

use crate::notation::{D, S, defaults, fields, methods, says, traits};

type Answer<T> = Result<T, ProviderError>;

pub(crate) fn checked() -> Vec<&'static str> {
    [queues(), reads(), management(), items(), errors(), factory(), crate::plain_provider::checked()].concat()
}

fn queues() -> Vec<&'static str> {
    methods!(dyn Provider {
        fn name(&self) -> &str;
        fn version(&self) -> &str;
        async fn fetch_orchestration_item(&self, D, D, Option<&DispatcherCapabilityFilter>)
            -> Answer<Option<(OrchestrationItem, String, u32)>>;
        async fn ack_orchestration_item(
            &self, &str, u64, Vec<Event>, Vec<WorkItem>, Vec<WorkItem>, ExecutionMetadata,
            Vec<ScheduledActivityIdentifier>
        ) -> Answer<()>;
        async fn abandon_orchestration_item(&self, &str, Option<D>, bool) -> Answer<()>;
        async fn renew_orchestration_item_lock(&self, &str, D) -> Answer<()>;
        async fn fetch_work_item(&self, D, D, Option<&SessionFetchConfig>, &TagFilter)
            -> Answer<Option<(WorkItem, String, u32)>>;
        async fn ack_work_item(&self, &str, Option<WorkItem>) -> Answer<()>;
        async fn abandon_work_item(&self, &str, Option<D>, bool) -> Answer<()>;
        async fn renew_work_item_lock(&self, &str, D) -> Answer<()>;
        async fn renew_session_lock(&self, &[&str], D, D) -> Answer<usize>;
        async fn cleanup_orphaned_sessions(&self, D) -> Answer<usize>;
        async fn enqueue_for_orchestrator(&self, WorkItem, Option<D>) -> Answer<()>;
        async fn enqueue_for_worker(&self, WorkItem) -> Answer<()>;
    })
}

fn reads() -> Vec<&'static str> {
    let methods = methods!(dyn Provider {
        async fn read(&self, &str) -> Answer<Vec<Event>>;
        async fn read_with_execution(&self, &str, u64) -> Answer<Vec<Event>>;
        async fn append_with_execution(&self, &str, u64, Vec<Event>) -> Answer<()>;
        async fn get_custom_status(&self, &str, u64) -> Answer<Option<(Option<String>, u64)>>;
        async fn get_kv_value(&self, &str, &str) -> Answer<Option<String>>;
        async fn get_kv_all_values(&self, &str) -> Answer<HashMap<String, String>>;
        async fn get_instance_stats(&self, &str) -> Answer<Option<SystemStats>>;
        fn as_management_capability(&self) -> Option<&dyn ProviderAdmin>;
    });
    let traits = traits! {
        dyn Provider: Send, Sync, std::any::Any;
    };
    [methods, traits].concat()
}

fn management() -> Vec<&'static str> {
    methods!(dyn ProviderAdmin {
        async fn list_instances(&self) -> Answer<Vec<String>>;
        async fn list_instances_by_status(&self, &str) -> Answer<Vec<String>>;
        async fn list_executions(&self, &str) -> Answer<Vec<u64>>;
        async fn read_history_with_execution_id(&self, &str, u64) -> Answer<Vec<Event>>;
        async fn read_history(&self, &str) -> Answer<Vec<Event>>;
        async fn latest_execution_id(&self, &str) -> Answer<u64>;
        async fn get_instance_info(&self, &str) -> Answer<InstanceInfo>;
        async fn get_execution_info(&self, &str, u64) -> Answer<ExecutionInfo>;
        async fn get_system_metrics(&self) -> Answer<SystemMetrics>;
        async fn get_queue_depths(&self) -> Answer<QueueDepths>;
        async fn list_children(&self, &str) -> Answer<Vec<String>>;
        async fn get_parent_id(&self, &str) -> Answer<Option<String>>;
        async fn delete_instances_atomic(&self, &[String], bool) -> Answer<DeleteInstanceResult>;
        async fn get_instance_tree(&self, &str) -> Answer<InstanceTree>;
        async fn delete_instance(&self, &str, bool) -> Answer<DeleteInstanceResult>;
        async fn delete_instance_bulk(&self, InstanceFilter) -> Answer<DeleteInstanceResult>;
        async fn prune_executions(&self, &str, PruneOptions) -> Answer<PruneResult>;
        async fn prune_executions_bulk(&self, InstanceFilter, PruneOptions) -> Answer<PruneResult>;
    })
}

fn items() -> Vec<&'static str> {
    [
        fields!(OrchestrationItem {
            instance: String,
            orchestration_name: String,
            execution_id: u64,
            version: String,
            history: Vec<Event>,
            messages: Vec<WorkItem>,
            history_error: Option<String>,
            kv_snapshot: HashMap<String, KvEntry>,
        }),
        fields!(KvEntry { value: String, last_updated_at_ms: u64 }),
        fields!(ScheduledActivityIdentifier { instance: String, execution_id: u64, activity_id: u64 }),
        fields!(SessionFetchConfig { owner_id: String, lock_timeout: Duration }),
        fields!(ExecutionMetadata {
            status: Option<String>,
            output: Option<String>,
            orchestration_name: Option<String>,
            orchestration_version: Option<String>,
            parent_instance_id: Option<String>,
            pinned_duroxide_version: Option<Version>,
        }),
        defaults!(ExecutionMetadata {
            status: None,
            output: None,
            orchestration_name: None,
            orchestration_version: None,
            parent_instance_id: None,
            pinned_duroxide_version: None,
        }),
    ]
    .concat()
}

fn errors() -> Vec<&'static str> {
    use std::error::Error as _;
    let (again, never) = (ProviderError::retryable("op", "m"), ProviderError::permanent("op", "m"));
    assert_eq!((again.is_retryable(), never.is_retryable()), (true, false));
    assert_eq!((again.retryable, never.retryable), (true, false));
    assert_eq!(
        never.to_infrastructure_error(),
        ErrorDetails::Infrastructure {
            operation: "op".to_string(),
            message: "m".to_string(),
            retryable: false
        }
    );
    assert!(again.source().is_none() && again.with_source(never).source().is_some());
    [
        fields!(ProviderError has { operation: String, message: String, retryable: bool }),
        methods!(ProviderError {
            fn retryable(S, S) -> ProviderError;
            fn permanent(S, S) -> ProviderError;
            fn is_retryable(&self) -> bool;
            fn to_infrastructure_error(&self) -> ErrorDetails;
            fn kind(&self) -> duroxide::providers::ProviderErrorKind;
        }),
        traits! {
            ProviderError: Clone, std::error::Error;
        },
        vec![
            "ProviderError has a source",
            says("text: Invalid lock token", &ProviderError::lock_lost("op").message, "Invalid lock token"),
        ],
    ]
    .concat()
}

fn factory() -> Vec<&'static str> {
    methods!(dyn ProviderFactory {
        async fn create_provider(&self) -> Arc<dyn Provider>;
        fn lock_timeout(&self) -> D;
        fn short_poll_threshold(&self) -> D;
        async fn corrupt_instance_history(&self, &str);
        async fn get_max_attempt_count(&self, &str) -> u32;
    })
}
