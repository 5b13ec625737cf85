//! The management calls.

use async_trait::async_trait;
use duroxide_core::health::QueuedFor;
use duroxide_core::{DispatcherCapabilityFilter, Event};

use super::MemoryProvider;
use super::read::{count, decoded_events};
use super::rows::{ExecutionRow, InstanceRow, Ms, Status};
use super::state::State;
use crate::{
    Bounces, DeleteInstanceResult, ExecutionInfo, FilteredOut, HealthFacts, InstanceFilter, InstanceInfo,
    InstancePage, InstanceQuery, InstanceTree, OldestReady, ProviderAdmin, ProviderError, PruneOptions,
    PruneResult, QueueDepths, RepairInstance, SystemMetrics, WaitingByTag,
};

#[async_trait]
impl ProviderAdmin for MemoryProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        Ok(self.with_state(|state, _| state.created.values().rev().cloned().collect()))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        Ok(self.with_state(|state, _| {
            let has_status =
                |id: &&String| state.instances.get(*id).is_some_and(|row| row.status.word() == status);
            state.created.values().rev().filter(has_status).cloned().collect()
        }))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        self.with_state(|state, _| {
            Ok(state.known("list_executions", instance)?.executions.keys().copied().collect())
        })
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        const OPERATION: &str = "read_history_with_execution_id";
        self.with_state(|state, _| {
            let execution = known_execution(state, OPERATION, instance, execution_id)?;
            decoded_events(OPERATION, instance, execution_id, execution)
        })
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.with_state(|state, _| {
            state.known("read_history", instance)?;
            state.read("read_history", instance, None)
        })
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        self.with_state(|state, _| Ok(state.known("latest_execution_id", instance)?.current_execution_id))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        self.with_state(|state, _| Ok(instance_info(instance, state.known("get_instance_info", instance)?)))
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        self.with_state(|state, _| {
            let execution = known_execution(state, "get_execution_info", instance, execution_id)?;
            Ok(ExecutionInfo {
                execution_id,
                status: execution.status.word().to_string(),
                output: execution.output.clone(),
                started_at: to_time(execution.started_at),
                completed_at: execution.completed_at.map(to_time),
                event_count: execution.events.len(),
            })
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        Ok(self.with_state(|state, _| {
            let mut metrics = SystemMetrics::default();
            for row in state.instances.values() {
                metrics.total_instances += 1;
                metrics.total_executions += count(row.executions.len());
                metrics.total_events +=
                    row.executions.values().map(|execution| count(execution.events.len())).sum::<u64>();
                match row.status {
                    Status::Running | Status::ContinuedAsNew => metrics.running_instances += 1,
                    Status::Completed => metrics.completed_instances += 1,
                    Status::Failed => metrics.failed_instances += 1,
                }
            }
            metrics
        }))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        Ok(self.with_state(|state, _| {
            let timer_queue = state.instances.values().map(InstanceRow::timer_count).sum();
            let messages: usize = state.instances.values().map(|row| row.inbox().len()).sum();
            QueueDepths {
                orchestrator_queue: messages - timer_queue,
                worker_queue: state.work.len(),
                timer_queue,
            }
        }))
    }

    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        Ok(self.with_state(|state, now| state.waiting_by_tag(now)))
    }

    async fn filtered_out(
        &self,
        filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        Ok(self.with_state(|state, now| state.filtered_out(now, filter)))
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        self.with_state(|state, _| {
            state.known("list_children", instance)?;
            Ok(state.children_of(instance))
        })
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        self.with_state(|state, _| Ok(state.known("get_parent_id", instance)?.parent_instance.clone()))
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.with_state(|state, _| state.delete_atomic(instances, force))
    }

    async fn get_instance_tree(&self, instance: &str) -> Result<InstanceTree, ProviderError> {
        self.with_state(|state, _| {
            state.known("get_instance_tree", instance)?;
            Ok(InstanceTree { root_id: instance.to_string(), all_ids: state.tree(instance) })
        })
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.with_state(|state, _| state.delete_tree(instance, force))
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        Ok(self.with_state(|state, _| state.delete_bulk(&filter)))
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.with_state(|state, _| state.prune(instance, &options))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        Ok(self.with_state(|state, _| state.prune_bulk(&filter, &options)))
    }

    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        self.with_state(|state, _| state.page(query))
    }

    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        Ok(self.with_state(|state, _| state.to_prune(keep_last, limit)))
    }

    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        Ok(self.with_state(|state, _| {
            let turns = state.instances.values().filter_map(|row| Some(row.entry()?.ready_at));
            let work = state.work.values().map(|row| row.entry().ready_at);
            OldestReady { turn_ms: turns.min().map(to_time), work_ms: work.min().map(to_time) }
        }))
    }

    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        Ok(self.with_state(|state, now| state.queued_for(now, instance)))
    }

    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        self.with_state(|state, now| state.bounces(now, instance))
    }

    async fn health_facts(&self, overdue_ms: u64) -> Result<Option<HealthFacts>, ProviderError> {
        Ok(Some(self.with_state(|state, now| state.health_facts(now, overdue_ms))))
    }

    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        self.with_state(|state, now| state.repair(now, request))
    }

    async fn now_ms(&self) -> Result<u64, ProviderError> {
        Ok(self.with_state(|_, now| to_time(now)))
    }
}

fn known_execution<'a>(
    state: &'a State,
    operation: &str,
    instance: &str,
    execution_id: u64,
) -> Result<&'a ExecutionRow, ProviderError> {
    let row = state.known(operation, instance)?;
    row.executions.get(&execution_id).ok_or_else(|| {
        ProviderError::not_found(operation, format!("execution {execution_id} of instance '{instance}'"))
    })
}

pub(super) fn instance_info(instance: &str, row: &InstanceRow) -> InstanceInfo {
    InstanceInfo {
        instance_id: instance.to_string(),
        orchestration_name: row.name.clone(),
        orchestration_version: row.version.clone(),
        current_execution_id: row.current_execution_id,
        status: row.status.word().to_string(),
        output: row.current_execution().and_then(|execution| execution.output.clone()),
        created_at: to_time(row.created_at),
        updated_at: to_time(row.updated_at),
        parent_instance_id: row.parent_instance.clone(),
    }
}

fn to_time(ms: Ms) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
