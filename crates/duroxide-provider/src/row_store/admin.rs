//! The management calls: scans of the maps.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::health::{QueuedFor, QueuedMessage};
use duroxide_core::{BounceCause, DispatcherCapabilityFilter, Event, can_replay, unpack_version};

use super::store::RowStore;
use super::tables::{Execution, Instance, Tables};
use crate::listing::{Place, id_cursor};
use crate::rules::values::{Ms, count, from_column};
use crate::rules::{Answer, Call, EncodedRepair};
use crate::status_code::Status;
use crate::{
    ActivityBounce, Bounce, Bounces, DeleteInstanceResult, ExecutionInfo, FilteredOut, InstanceFilter,
    InstanceInfo, InstancePage, InstanceQuery, OldestReady, ProviderAdmin, ProviderError, PruneOptions,
    PruneResult, QueueDepths, RepairInstance, SystemMetrics, WaitingByTag,
};

#[async_trait]
impl ProviderAdmin for RowStore {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        Ok(self.look(|tables| tables.latest_first().map(|one| one.row.instance.clone()).collect()))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        Ok(self.look(|tables| {
            let found = tables.latest_first().filter(|one| one.row.status.word() == status);
            found.map(|one| one.row.instance.clone()).collect()
        }))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        self.look(|tables| {
            Ok(tables.known("list_executions", instance)?.executions.keys().copied().collect())
        })
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        const OPERATION: &str = "read_history_with_execution_id";
        self.look(|tables| {
            tables.known_execution(OPERATION, instance, execution_id)?;
            tables.read(OPERATION, instance, Some(execution_id))
        })
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.look(|tables| {
            tables.known("read_history", instance)?;
            tables.read("read_history", instance, None)
        })
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        self.look(|tables| Ok(tables.known("latest_execution_id", instance)?.row.current_execution_id))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        self.look(|tables| Ok(tables.known("get_instance_info", instance)?.info()))
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        self.look(|tables| {
            let execution = tables.known_execution("get_execution_info", instance, execution_id)?;
            Ok(ExecutionInfo {
                execution_id,
                status: execution.row.status.word().to_string(),
                output: execution.output.clone(),
                started_at: from_column(execution.started_at),
                completed_at: execution.row.completed_at.map(from_column),
                event_count: usize::try_from(execution.row.event_count).unwrap_or(0),
            })
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        Ok(self.look(Tables::metrics))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        Ok(self.look(|tables| {
            let timer_queue = tables.instances.values().map(Instance::timer_count).sum();
            let messages: usize = tables.instances.values().map(|one| one.inbox.len()).sum();
            let orchestrator_queue = messages - timer_queue;
            QueueDepths { orchestrator_queue, worker_queue: tables.work.len(), timer_queue }
        }))
    }

    async fn list_children(&self, instance: &str) -> Result<Vec<String>, ProviderError> {
        self.look(|tables| {
            tables.known("list_children", instance)?;
            Ok(tables.children(instance).into_iter().map(|key| tables.id_of(key)).collect())
        })
    }

    async fn get_parent_id(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        self.look(|tables| Ok(tables.known("get_parent_id", instance)?.row.parent_instance.clone()))
    }

    async fn delete_instances_atomic(
        &self,
        instances: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let deleted = self.transact(|tables, _| tables.delete_atomic(instances, force));
        self.wake_all();
        deleted
    }

    async fn delete_instance(
        &self,
        instance: &str,
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let deleted = self.transact(|tables, _| tables.delete_tree(instance, force));
        self.wake_all();
        deleted
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let deleted = self.transact(|tables, _| tables.delete_bulk(&filter));
        self.wake_all();
        Ok(deleted)
    }

    async fn prune_executions(
        &self,
        instance: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.transact(|tables, _| tables.prune(instance, &options))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        Ok(self.transact(|tables, _| tables.prune_bulk(&filter, &options)))
    }

    async fn list_instances_page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        self.look(|tables| tables.page(query))
    }

    async fn list_instances_to_prune(
        &self,
        keep_last: u32,
        limit: u32,
    ) -> Result<Vec<String>, ProviderError> {
        Ok(self.look(|tables| {
            let continued = |one: &Instance| {
                let executions = one.executions.values();
                executions.filter(|execution| execution.row.status == Status::ContinuedAsNew).count()
            };
            let is_long = |one: &&Instance| continued(one) >= size(keep_last.max(1));
            let found = tables.instances.values().filter(is_long).take(size(limit));
            found.map(|one| one.row.instance.clone()).collect()
        }))
    }

    async fn oldest_ready(&self) -> Result<OldestReady, ProviderError> {
        Ok(self.look(|tables| {
            let turns = tables.instances.values().filter_map(|one| one.row.ready_at);
            let work = tables.work.values().map(|one| one.row.ready_at);
            OldestReady { turn_ms: turns.min().map(from_column), work_ms: work.min().map(from_column) }
        }))
    }

    async fn queued_for(&self, instance: &str) -> Result<Option<QueuedFor>, ProviderError> {
        Ok(self.transact(|tables, now| tables.queued_for(now, instance)))
    }

    async fn bounces(&self, instance: &str) -> Result<Bounces, ProviderError> {
        self.transact(|tables, now| tables.bounces(now, instance))
    }

    async fn repair(&self, request: RepairInstance) -> Result<u64, ProviderError> {
        let encoded = EncodedRepair::new(request);
        match self.call("repair", encoded.map(|request| Call::Repair(Box::new(request))))? {
            Answer::PutBack(count) => Ok(count),
            Answer::Done | Answer::Enqueued(_) => {
                Err(ProviderError::permanent("repair", "the rules did not tell how much was put back"))
            }
        }
    }

    async fn filtered_out(
        &self,
        filter: &DispatcherCapabilityFilter,
    ) -> Result<Vec<FilteredOut>, ProviderError> {
        Ok(self.transact(|tables, now| {
            let mut by_version: BTreeMap<Option<i64>, usize> = BTreeMap::new();
            let is_ready = |one: &&Instance| one.row.ready_at.is_some_and(|at| at <= now);
            for one in tables.instances.values().filter(is_ready) {
                if !can_replay(Some(filter), one.pinned()) {
                    *by_version.entry(one.pinned()).or_default() += 1;
                }
            }
            let counted = by_version.into_iter().map(|(pinned, instances)| FilteredOut {
                pinned_version: pinned.map(unpack_version),
                instances,
            });
            counted.collect()
        }))
    }

    async fn now_ms(&self) -> Result<u64, ProviderError> {
        Ok(self.transact(|_, now| from_column(now)))
    }

    async fn waiting_by_tag(&self) -> Result<Vec<WaitingByTag>, ProviderError> {
        Ok(self.transact(|tables, now| {
            let mut by_tag: BTreeMap<Option<String>, (usize, Ms)> = BTreeMap::new();
            let waits = |locked: bool, ready_at: Ms| !locked || ready_at <= now;
            for one in tables.work.values().filter(|one| waits(one.row.nonce.is_some(), one.row.ready_at)) {
                let tag = (!one.row.place.tag.is_empty()).then(|| one.row.place.tag.clone());
                let (waiting, oldest) = by_tag.entry(tag).or_insert((0, one.queued_at));
                *waiting += 1;
                *oldest = one.queued_at.min(*oldest);
            }
            let counted = by_tag.into_iter().map(|(tag, (waiting, oldest))| {
                let oldest_age = Duration::from_millis(from_column(now.saturating_sub(oldest)));
                WaitingByTag { tag, waiting, oldest_age }
            });
            counted.collect()
        }))
    }
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Tables {
    /// The instances, latest first: keys are given in the order of creation.
    fn latest_first(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values().rev()
    }

    fn known_execution(
        &self,
        operation: &str,
        instance: &str,
        execution_id: u64,
    ) -> Result<&Execution, ProviderError> {
        let found = self.known(operation, instance)?.executions.get(&execution_id);
        found.ok_or_else(|| {
            ProviderError::not_found(operation, format!("execution {execution_id} of instance '{instance}'"))
        })
    }

    fn metrics(&self) -> SystemMetrics {
        let mut metrics = SystemMetrics::default();
        for one in self.instances.values() {
            metrics.total_instances += 1;
            metrics.total_executions += from_column(count(one.executions.len()));
            let events: usize = one.executions.values().map(|execution| execution.history.len()).sum();
            metrics.total_events += from_column(count(events));
            match one.row.status {
                Status::Running | Status::ContinuedAsNew => metrics.running_instances += 1,
                Status::Completed => metrics.completed_instances += 1,
                Status::Failed => metrics.failed_instances += 1,
            }
        }
        metrics
    }

    fn page(&self, query: &InstanceQuery) -> Result<InstancePage, ProviderError> {
        let mut found: Vec<(Place, &Instance)> = self
            .instances
            .values()
            .map(|one| (Place { created_at: one.row.created_at, number: one.row.key }, one))
            .collect();
        if query.id_prefix.is_some() {
            let behind = query.begins_behind_id()?;
            found.retain(|(_, one)| behind.is_none_or(|id| one.row.instance.as_str() > id));
            found.sort_by_key(|(_, one)| &one.row.instance);
        } else {
            let behind = query.begins_behind()?;
            found.retain(|(place, _)| *place < behind);
            found.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        }
        let mut page = InstancePage::default();
        for (place, one) in found {
            let mut info = one.info();
            if !query.matches(&info) {
                continue;
            }
            info.output = info.output.filter(|_| query.with_output);
            page.instances.push(info);
            if page.instances.len() == query.page_size() {
                let by_id = query.id_prefix.is_some();
                page.next = Some(if by_id { id_cursor(&one.row.instance) } else { place.cursor() });
                break;
            }
        }
        Ok(page)
    }

    fn queued_for(&self, now: Ms, instance: &str) -> Option<QueuedFor> {
        let found = self.by_id(instance).filter(|one| !one.row.is_ended())?;
        let messages = found.inbox.values().map(|message| QueuedMessage {
            kind: message.kind,
            execution_id: message.execution_id.map(from_column),
            event_id: message.event_id.map(from_column),
        });
        let work = self.queued.keys().filter(|(of, _, _)| of == instance);
        Some(QueuedFor {
            execution_id: found.row.current_execution_id,
            last_event_id: found.current().map_or(0, |execution| execution.row.last_event_id),
            is_locked: found.row.lock.is_some() && found.row.ready_at.is_some_and(|until| now < until),
            work: work.map(|(_, execution_id, activity_id)| (*execution_id, *activity_id)).collect(),
            messages: messages.collect(),
        })
    }

    fn bounces(&self, now: Ms, instance: &str) -> Result<Bounces, ProviderError> {
        let found = self.known("bounces", instance)?;
        if found.row.is_ended() {
            return Ok(Bounces::default());
        }
        let bounce = |kept: &Option<(Ms, String)>, attempts: u32, locked: bool, ready_at: Option<Ms>| {
            let (at, cause) = kept.as_ref()?;
            let next = ready_at.filter(|ready_at| !locked || *ready_at <= now);
            Some(Bounce {
                cause: BounceCause::from_stored(cause)?,
                at_ms: from_column(*at),
                attempts,
                next_try_ms: next.map(from_column),
            })
        };
        let row = &found.row;
        let turn = bounce(&found.bounce, found.max_attempts(), row.lock.is_some(), row.ready_at);
        let work = self.queued.iter().filter(|((of, _, _), _)| of == instance);
        let activities = work.filter_map(|((_, execution_id, activity_id), id)| {
            let work = self.work.get(id)?;
            let attempts = u32::try_from(work.row.attempts).unwrap_or(u32::MAX);
            Some(ActivityBounce {
                execution_id: *execution_id,
                activity_id: *activity_id,
                name: work.row.place.name.clone(),
                bounce: bounce(&work.bounce, attempts, work.row.nonce.is_some(), Some(work.row.ready_at))?,
            })
        });
        Ok(Bounces { turn, activities: activities.collect() })
    }
}

impl Instance {
    /// The highest attempt count in its inbox, the attempt under way included.
    pub(super) fn max_attempts(&self) -> u32 {
        let attempts = self.inbox.iter().map(|((visible_at, position), message)| {
            let locked = self.row.lock.is_some_and(|lock| lock.covers(*visible_at, *position));
            message.attempts + u32::from(locked)
        });
        attempts.max().unwrap_or(0)
    }
}
