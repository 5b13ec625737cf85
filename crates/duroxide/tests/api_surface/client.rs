//! Starting, sending, waiting and managing.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::{Provider, ProviderError};
use duroxide::{
    Client, ClientError, DeleteInstanceResult, Event, ExecutionInfo, InstanceFilter, InstanceInfo,
    InstanceTree, OrchestrationStatus, PruneOptions, PruneResult, QueueDepths, SystemMetrics, SystemStats,
};

use crate::notation::{D, In, Out, S, methods, traits, variants};

type Answer<T> = Result<T, ClientError>;

pub(crate) fn checked() -> Vec<&'static str> {
    [sending(), watching(), managing(), errors()].concat()
}

#[expect(deprecated, reason = "the older spelling is kept")]
fn sending() -> Vec<&'static str> {
    let methods = methods!(Client {
        fn new(Arc<dyn Provider>) -> Client;
        async fn start_orchestration(&self, S, S, S) -> Answer<()>;
        async fn start_orchestration_typed<In>(&self, S, S, In) -> Answer<()>;
        async fn start_orchestration_versioned(&self, S, S, S, S) -> Answer<()>;
        async fn start_orchestration_versioned_typed<In>(&self, S, S, S, In) -> Answer<()>;
        async fn raise_event(&self, S, S, S) -> Answer<()>;
        async fn raise_event_typed<In>(&self, S, S, &In) -> Answer<()>;
        async fn raise_event_persistent(&self, S, S, S) -> Answer<()>;
        async fn enqueue_event(&self, S, S, S) -> Answer<()>;
        async fn enqueue_event_typed<In>(&self, S, S, &In) -> Answer<()>;
        async fn cancel_instance(&self, S, S) -> Answer<()>;
    });
    let traits = traits! {
        Client: Clone, Send, Sync;
    };
    [methods, traits].concat()
}

fn watching() -> Vec<&'static str> {
    methods!(Client {
        async fn get_orchestration_status(&self, &str) -> Answer<OrchestrationStatus>;
        async fn wait_for_orchestration(&self, &str, D) -> Answer<OrchestrationStatus>;
        async fn wait_for_orchestration_typed<Out>(&self, &str, D) -> Answer<Result<Out, String>>;
        async fn wait_for_status_change(&self, &str, u64, D, D) -> Answer<OrchestrationStatus>;
        async fn get_kv_value(&self, &str, &str) -> Answer<Option<String>>;
        async fn get_kv_value_typed<Out>(&self, &str, &str) -> Answer<Option<Out>>;
        async fn get_kv_all_values(&self, &str) -> Answer<HashMap<String, String>>;
        async fn wait_for_kv_value(&self, &str, &str, D) -> Answer<String>;
        async fn wait_for_kv_value_typed<Out>(&self, &str, &str, D) -> Answer<Out>;
        async fn get_orchestration_stats(&self, &str) -> Answer<Option<SystemStats>>;
    })
}

fn managing() -> Vec<&'static str> {
    methods!(Client {
        fn has_management_capability(&self) -> bool;
        async fn list_all_instances(&self) -> Answer<Vec<String>>;
        async fn list_instances_by_status(&self, &str) -> Answer<Vec<String>>;
        async fn get_instance_info(&self, &str) -> Answer<InstanceInfo>;
        async fn get_execution_info(&self, &str, u64) -> Answer<ExecutionInfo>;
        async fn list_executions(&self, &str) -> Answer<Vec<u64>>;
        async fn read_execution_history(&self, &str, u64) -> Answer<Vec<Event>>;
        async fn get_system_metrics(&self) -> Answer<SystemMetrics>;
        async fn get_queue_depths(&self) -> Answer<QueueDepths>;
        async fn get_instance_tree(&self, &str) -> Answer<InstanceTree>;
        async fn delete_instance(&self, &str, bool) -> Answer<DeleteInstanceResult>;
        async fn delete_instance_bulk(&self, InstanceFilter) -> Answer<DeleteInstanceResult>;
        async fn prune_executions(&self, &str, PruneOptions) -> Answer<PruneResult>;
        async fn prune_executions_bulk(&self, InstanceFilter, PruneOptions) -> Answer<PruneResult>;
    })
}

fn errors() -> Vec<&'static str> {
    let unavailable = ClientError::Provider(ProviderError::retryable("op", "away"));
    let refused = ClientError::Provider(ProviderError::permanent("op", "no"));
    assert!(unavailable.is_retryable() && !refused.is_retryable());
    let variants = variants!(closed ClientError {
        Provider(ProviderError),
        ManagementNotAvailable,
        InvalidInput { message: String },
        Timeout,
        InstanceStillRunning { instance_id: String },
        CannotDeleteSubOrchestration { instance_id: String },
        InstanceNotFound { instance_id: String },
    });
    let methods = methods!(ClientError {
        fn is_retryable(&self) -> bool;
    });
    let traits = traits! {
        ClientError: std::error::Error, From<ProviderError>;
    };
    [variants, methods, traits].concat()
}
