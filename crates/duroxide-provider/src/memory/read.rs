//! What can be read of an instance without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::{
    ErrorDetails, Event, OrchestrationStatus, carried_messages, route_after_turn, state_changes,
    unread_messages,
};

use super::ack::append;
use super::rows::{ExecutionRow, InstanceRow, Ms, Status};
use super::state::{State, numbered};
use crate::{ProviderError, ProviderErrorKind, SystemStats};

/// The events of one execution, or which of them does not decode.
pub(super) fn decoded_events(
    operation: &str,
    instance: &str,
    execution_id: u64,
    execution: &ExecutionRow,
) -> Result<Vec<Event>, ProviderError> {
    let mut events = Vec::with_capacity(execution.events.len());
    for (event_id, event) in &execution.events {
        let event = event.value().map_err(|cause| {
            let message = format!("event {event_id} of execution {execution_id} of '{instance}': {cause}");
            ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, message)
        })?;
        events.push(event.clone());
    }
    Ok(events)
}

impl State {
    /// `execution_id` `None` means the latest.
    pub(super) fn read(
        &self,
        operation: &str,
        instance: &str,
        execution_id: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let Some(row) = self.instances.get(instance) else { return Ok(Vec::new()) };
        let execution_id = execution_id.unwrap_or(row.current_execution_id);
        let Some(execution) = row.executions.get(&execution_id) else { return Ok(Vec::new()) };
        decoded_events(operation, instance, execution_id, execution)
    }

    pub(super) fn append(
        &mut self,
        now: Ms,
        instance: &str,
        execution_id: u64,
        events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        let row = self
            .instances
            .get_mut(instance)
            .ok_or_else(|| ProviderError::not_found(OPERATION, format!("instance '{instance}'")))?;
        let events = numbered(OPERATION, row.executions.get(&execution_id), events)?;
        if execution_id >= row.current_execution_id
            && let Some(route) = route_after_turn(instance, state_changes(&events).began, false, [])
        {
            row.route = Arc::new(route);
        }
        append(row, now, execution_id, events);
        self.reindex_turn(instance);
        self.wakes.instances.insert(instance.to_string());
        Ok(())
    }

    pub(super) fn custom_status(&self, instance: &str, last_seen: u64) -> Option<(Option<String>, u64)> {
        let row = self.instances.get(instance)?;
        (row.custom_status_version > last_seen)
            .then(|| (row.custom_status.clone(), row.custom_status_version))
    }

    pub(super) fn kv_value(&self, instance: &str, key: &str) -> Option<String> {
        Some(self.instances.get(instance)?.kv.get(key)?.value.clone())
    }

    pub(super) fn kv_values(&self, instance: &str) -> HashMap<String, String> {
        let kv = self.instances.get(instance).map(|row| &row.kv);
        kv.into_iter().flatten().map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    }

    pub(super) fn stats(&self, instance: &str) -> Option<SystemStats> {
        let row = self.instances.get(instance)?;
        let events = row.current_execution().map(|execution| &execution.events);
        Some(SystemStats {
            history_event_count: count(events.map_or(0, std::collections::BTreeMap::len)),
            history_size_bytes: row.current_execution().map_or(0, ExecutionRow::stored_bytes),
            queue_pending_count: pending_count(row),
            kv_user_key_count: count(row.kv.len()),
            kv_total_value_bytes: row.kv.values().map(|entry| count(entry.value.len())).sum(),
        })
    }

    pub(super) fn status(&self, instance: &str) -> OrchestrationStatus {
        let Some(row) = self.instances.get(instance) else { return OrchestrationStatus::NotFound };
        let custom_status = row.custom_status.clone();
        let custom_status_version = row.custom_status_version;
        let ended = row.current_execution();
        let output = ended.and_then(|execution| execution.output.clone()).unwrap_or_default();
        match row.status {
            Status::Running | Status::ContinuedAsNew => {
                OrchestrationStatus::Running { custom_status, custom_status_version }
            }
            Status::Completed => {
                OrchestrationStatus::Completed { output, custom_status, custom_status_version }
            }
            Status::Failed => {
                let details = ended
                    .and_then(|execution| execution.failure.clone())
                    .unwrap_or_else(|| ErrorDetails::orchestration_failed(output));
                OrchestrationStatus::Failed { details, custom_status, custom_status_version }
            }
        }
    }

    pub(super) fn known(&self, operation: &str, instance: &str) -> Result<&InstanceRow, ProviderError> {
        self.instances
            .get(instance)
            .ok_or_else(|| ProviderError::not_found(operation, format!("instance '{instance}'")))
    }
}

/// A length as it is reported.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The messages in the inbox, and those that have arrived or are carried and that the program has not read. A history
/// that does not decode has none of the latter: the turn that reads it tells.
fn pending_count(row: &InstanceRow) -> u64 {
    let execution = row.current_execution().filter(|execution| !execution.events.is_empty());
    let in_history = match execution {
        Some(execution) => {
            let events: Result<Vec<Event>, &str> =
                execution.events.values().map(|event| event.value().cloned()).collect();
            events.map_or(0, |events| unread_messages(&events))
        }
        // The start of the next execution stands before all else.
        None => {
            row.inbox().values().next().and_then(|first| first.item.value().ok()).map_or(0, carried_messages)
        }
    };
    count(row.inbox().len()) + in_history
}
