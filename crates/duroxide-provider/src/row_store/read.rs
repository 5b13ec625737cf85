//! What can be read of an instance without a lock.

use duroxide_core::{ErrorDetails, SystemStats};
use duroxide_core::{Event, OrchestrationStatus, WorkItem, carried_messages, unread_messages};

use super::tables::{Execution, Instance, Tables};
use crate::rules::values::{count, from_column, from_json};
use crate::status_code::Status;
use crate::{InstanceInfo, ProviderError, ProviderErrorKind};

impl Tables {
    pub(super) fn by_id(&self, instance: &str) -> Option<&Instance> {
        self.keys.get(instance).and_then(|key| self.instances.get(key))
    }

    pub(super) fn known(&self, operation: &str, instance: &str) -> Result<&Instance, ProviderError> {
        let found = self.by_id(instance);
        found.ok_or_else(|| ProviderError::not_found(operation, format!("instance '{instance}'")))
    }

    /// The events of an execution; of the latest without a number.
    pub(super) fn read(
        &self,
        operation: &str,
        instance: &str,
        execution_id: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let Some(found) = self.by_id(instance) else { return Ok(Vec::new()) };
        let execution_id = execution_id.unwrap_or(found.row.current_execution_id);
        let stored = found.executions.get(&execution_id).into_iter().flat_map(|one| &one.history);
        let decoded = stored.map(|(event_id, json)| {
            from_json(json).map_err(|cause| {
                let text = format!("event {event_id} of execution {execution_id} of '{instance}': {cause}");
                ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, text)
            })
        });
        decoded.collect()
    }

    pub(super) fn status(&self, instance: &str) -> OrchestrationStatus {
        let Some(found) = self.by_id(instance) else { return OrchestrationStatus::NotFound };
        let (custom_status, custom_status_version) =
            (found.custom_status.clone(), found.custom_status_version);
        let output = found.current().and_then(|one| one.output.clone()).unwrap_or_default();
        match found.row.status {
            Status::Running | Status::ContinuedAsNew => {
                OrchestrationStatus::Running { custom_status, custom_status_version }
            }
            Status::Completed => {
                OrchestrationStatus::Completed { output, custom_status, custom_status_version }
            }
            Status::Failed => {
                let details = found.current().and_then(Execution::failure_details);
                let details = details.unwrap_or_else(|| ErrorDetails::orchestration_failed(output));
                OrchestrationStatus::Failed { details, custom_status, custom_status_version }
            }
        }
    }

    pub(super) fn stats(&self, instance: &str) -> Option<SystemStats> {
        let found = self.by_id(instance)?;
        let current = found.current();
        let length = |length: usize| from_column(count(length));
        Some(SystemStats {
            history_event_count: current.map_or(0, |one| length(one.history.len())),
            history_size_bytes: current.map_or(0, |one| from_column(one.row.history_bytes)),
            queue_pending_count: length(found.inbox.len()) + found.unread_messages(),
            kv_user_key_count: length(found.kv.len()),
            kv_total_value_bytes: found.kv.values().map(|entry| length(entry.value.len())).sum(),
        })
    }

    pub(super) fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        let kept = self.by_id(instance).into_iter().flat_map(|found| &found.kept);
        let decoded = kept.map(|json| {
            from_json(json).map_err(|cause| {
                let text = format!("a message kept for instance '{instance}': {cause}");
                ProviderError::of_kind(ProviderErrorKind::Corrupt, "kept_messages", text)
            })
        });
        decoded.collect()
    }
}

impl Execution {
    pub(super) fn failure_details(&self) -> Option<ErrorDetails> {
        self.failure.as_ref().and_then(|json| from_json(json).ok())
    }
}

impl Instance {
    pub(super) fn info(&self) -> InstanceInfo {
        InstanceInfo {
            instance_id: self.row.instance.clone(),
            orchestration_name: self.row.name.clone(),
            orchestration_version: self.row.version.clone(),
            current_execution_id: self.row.current_execution_id,
            status: self.row.status.word().to_string(),
            output: self.current().and_then(|execution| execution.output.clone()),
            created_at: from_column(self.row.created_at),
            updated_at: from_column(self.row.updated_at),
            parent_instance_id: self.row.parent_instance.clone(),
        }
    }

    /// The messages that have arrived or are carried and that the program has not read.
    fn unread_messages(&self) -> u64 {
        match self.current().filter(|execution| !execution.history.is_empty()) {
            Some(execution) => {
                let events: Result<Vec<Event>, String> =
                    execution.history.values().map(|json| from_json(json)).collect();
                events.map_or(0, |events| unread_messages(&events))
            }
            None => {
                let first = self.inbox.values().next();
                first.and_then(|first| from_json(&first.json).ok()).map_or(0, |item| carried_messages(&item))
            }
        }
    }
}
