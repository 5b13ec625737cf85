//! Failed instances that go on, and the messages kept for them.

use std::sync::Arc;

use duroxide_core::redrive::{kept_after_failure, kept_since_failure};
use duroxide_core::{Event, ItemKind, WorkItem, columns_of, route_after_turn, state_changes};

use super::messages::check_message;
use super::rows::{ExecutionRow, InstanceRow, MessageKey, Ms, Status, Stored, Suspicion};
use super::state::{State, invalid};
use super::work::check_work;
use crate::{ProviderError, ProviderErrorKind, RedriveInstance};

const OPERATION: &str = "redrive";

impl InstanceRow {
    /// Keeps what is in the inbox if the turn ends in a failure after which the instance may go on. `taken` are
    /// the messages that the turn had taken. Called before any of them is deleted.
    pub(super) fn keep_messages(&mut self, taken: &[MessageKey], history_delta: &[Event]) {
        let Some(mut kept) = kept_after_failure(history_delta) else { return };
        self.kept = self
            .inbox()
            .iter()
            .filter(|(key, message)| kept.keeps(message.kind, message.event_id, taken.contains(key)))
            .map(|(_, message)| message.item.clone())
            .collect();
    }

    /// The messages that are kept, without the first ones.
    fn decode_kept(
        &self,
        operation: &str,
        instance: &str,
        seen: usize,
    ) -> Result<Vec<WorkItem>, ProviderError> {
        let decoded = self.kept.iter().skip(seen).map(|item| match item.value() {
            Ok(item) => Ok(item.clone()),
            Err(cause) => {
                let text = format!("a message kept for instance '{instance}': {cause}");
                Err(ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, text))
            }
        });
        decoded.collect()
    }

    /// Whether a message of this kind is kept although the instance has ended.
    pub(super) fn keeps_since_failure(&self, kind: ItemKind) -> bool {
        let failure = self.current_execution().and_then(|execution| execution.failure.as_ref());
        self.status == Status::Failed && failure.is_some_and(|failure| kept_since_failure(kind, failure))
    }
}

impl State {
    pub(super) fn kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ProviderError> {
        let Some(row) = self.instances.get(instance) else { return Ok(Vec::new()) };
        row.decode_kept("kept_messages", instance, 0)
    }

    pub(super) fn redrive(&mut self, now: Ms, all: Vec<RedriveInstance>) -> Result<(), ProviderError> {
        RedriveInstance::check_named_once(&all)?;
        for one in &all {
            self.check_redrive(one)?;
        }
        let mut kept_since = Vec::with_capacity(all.len());
        for one in &all {
            let row = self.instances.get(&one.instance);
            kept_since.push(
                row.map_or(Ok(Vec::new()), |row| row.decode_kept(OPERATION, &one.instance, one.kept_seen))?,
            );
        }
        for (one, kept_since) in all.into_iter().zip(kept_since) {
            self.redrive_one(now, one, kept_since);
        }
        Ok(())
    }

    fn check_redrive(&self, one: &RedriveInstance) -> Result<(), ProviderError> {
        let RedriveInstance { instance, failed_execution_id, last_event_id, .. } = one;
        let row = self
            .instances
            .get(instance)
            .ok_or_else(|| ProviderError::not_found(OPERATION, format!("instance '{instance}'")))?;
        let last = row.current_execution().map_or(0, ExecutionRow::last_event_id);
        if row.status != Status::Failed
            || row.current_execution_id != *failed_execution_id
            || last != *last_event_id
        {
            return Err(invalid(OPERATION, format!("instance '{instance}' is not as it was looked at")));
        }
        one.activities.iter().try_for_each(|item| check_work(OPERATION, item))?;
        one.messages.iter().try_for_each(|item| check_message(OPERATION, item))
    }

    fn redrive_one(&mut self, now: Ms, one: RedriveInstance, kept_since: Vec<WorkItem>) {
        let RedriveInstance { instance, failed_execution_id, events, pinned, activities, messages, .. } = one;
        let Some(row) = self.instances.get_mut(&instance) else { return };
        let next = failed_execution_id + 1;
        let began = state_changes(&events).began;
        let route = route_after_turn(&instance, began, events.is_empty(), &messages);
        let mut execution = ExecutionRow::started(now);
        execution.pinned = pinned;
        execution.events = events.into_iter().map(|event| (event.event_id, Stored::Value(event))).collect();
        row.route = route.map_or_else(|| row.route.clone(), Arc::new);
        if execution.events.is_empty() {
            let asked = messages.first().and_then(|start| columns_of(start).version);
            row.version = asked.unwrap_or_default().to_string();
        }
        row.executions.insert(next, execution);
        row.current_execution_id = next;
        row.status = Status::Running;
        row.ended_at = None;
        row.updated_at = now;
        row.not_before = 0;
        row.suspicion = Suspicion::Clean;
        row.kept.clear();
        for item in activities {
            self.put_work(now, item);
        }
        for item in messages.into_iter().chain(kept_since) {
            self.deliver(now, item, None);
        }
        self.reindex_turn(&instance);
        self.wakes.instances.insert(instance);
    }
}
