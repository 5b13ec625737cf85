//! The commit of a turn.

use std::sync::Arc;

use duroxide_core::{
    Event, ExecutionMetadata, ItemKind, KvChange, ScheduledActivityIdentifier, WorkItem, cancel_reaches,
    columns_of, route_after_turn, state_changes,
};

use super::messages::{DropReason, check_message};
use super::rows::{ExecutionRow, InstanceRow, Ms, Status, Stored, Suspicion, WorkKey};
use super::state::{State, invalid, numbered};
use super::work::check_work;
use crate::{KvEntry, ProviderError};

/// What a turn commits besides its lock token.
#[derive(Debug)]
pub(super) struct TurnCommit {
    pub(super) execution_id: u64,
    pub(super) history_delta: Vec<Event>,
    pub(super) worker_items: Vec<WorkItem>,
    pub(super) orchestrator_items: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled_activities: Vec<ScheduledActivityIdentifier>,
}

const OPERATION: &str = "ack_orchestration_item";

impl State {
    pub(super) fn ack_turn(&mut self, now: Ms, token: &str, commit: TurnCommit) -> Result<(), ProviderError> {
        let instance = self.holder_of_turn(now, OPERATION, token)?;
        let status = check_commit(&commit)?;
        let Some(row) = self.instances.get_mut(&instance) else {
            return Err(ProviderError::lock_lost(OPERATION));
        };
        let events = numbered(OPERATION, row.executions.get(&commit.execution_id), commit.history_delta)?;

        // From here on nothing can fail.
        let taken = row.lock.take().map(|lock| lock.messages).unwrap_or_default();
        row.keep_messages(&taken, &events);
        for key in taken {
            row.take_message(key);
        }
        row.suspicion = Suspicion::Clean;
        row.not_before = 0;
        row.bounce = None;
        row.updated_at = now;
        if commit.execution_id >= row.current_execution_id {
            let continues = status == Some(Status::ContinuedAsNew);
            let began = state_changes(&events).began;
            let route = route_after_turn(&instance, began, continues, &commit.orchestrator_items);
            row.route = route.map_or_else(|| row.route.clone(), Arc::new);
        }
        append(row, now, commit.execution_id, events);
        write_metadata(row, now, commit.execution_id, status, &commit.metadata);
        let old_parent = row.parent_instance.clone();
        if let Some(parent) = commit.metadata.parent_instance_id {
            row.parent_instance = Some(parent);
        }
        self.move_child(&instance, old_parent);
        for item in commit.worker_items {
            self.put_work(now, item);
        }
        for cancelled in commit.cancelled_activities {
            let key = WorkKey {
                instance: cancelled.instance,
                execution_id: cancelled.execution_id,
                event_id: cancelled.activity_id,
            };
            if let Some(seq) = self.work_by_key.get(&key).copied() {
                self.remove_work(seq);
            }
        }
        self.deliver_all(now, &instance, commit.orchestrator_items);
        if let Some(row) = self.instances.get_mut(&instance)
            && row.status.ends_instance()
        {
            let dropped = row.drop_inbox();
            self.count_dropped(DropReason::FinishedInstance, dropped);
        }
        self.reindex_turn(&instance);
        self.wakes.instances.insert(instance);
        Ok(())
    }

    /// Sends what the turn sends. What it gives back to its own inbox goes before all that waits there.
    fn deliver_all(&mut self, now: Ms, instance: &str, items: Vec<WorkItem>) {
        let front = self.instances.get(instance).map_or(0, |row| {
            let first = row.inbox().first_key_value().map_or(0, |(key, _)| key.visible_at);
            first.min(0).saturating_sub(1)
        });
        let running = self.instances.get(instance).is_some_and(|row| !row.status.ends_instance());
        for item in items {
            let columns = columns_of(&item);
            if running && columns.kind.goes_before_inbox() && columns.instance == instance {
                self.put_message(front, item);
                // First in its own inbox, but not before the other instances.
                if let Some(row) = self.instances.get_mut(instance) {
                    row.not_before = now;
                }
            } else if columns.kind == ItemKind::Cancel && !self.is_own_child(instance, columns.instance) {
                self.count_dropped(DropReason::UnknownInstance, 1);
            } else if !running && columns.kind != ItemKind::Start && columns.instance == instance {
                self.count_dropped(DropReason::FinishedInstance, 1);
            } else {
                self.deliver(now, item, None);
            }
        }
    }

    /// Whether a turn of `sender` may cancel `target`.
    fn is_own_child(&self, sender: &str, target: &str) -> bool {
        let parent = self.instances.get(target).and_then(|row| row.parent_instance.as_deref());
        cancel_reaches(sender, target, parent)
    }

    /// Keeps the index of children in step with the parent column.
    fn move_child(&mut self, instance: &str, old_parent: Option<String>) {
        let Some(row) = self.instances.get(instance) else { return };
        if row.parent_instance == old_parent {
            return;
        }
        let (seq, new_parent) = (row.seq, row.parent_instance.clone());
        self.forget_child(old_parent.as_deref(), seq);
        if let Some(parent) = new_parent {
            self.children.entry(parent).or_default().insert(seq);
        }
    }
}

/// Everything that can be wrong with a commit by itself; the status that it sets.
fn check_commit(commit: &TurnCommit) -> Result<Option<Status>, ProviderError> {
    for item in &commit.worker_items {
        check_work(OPERATION, item)?;
    }
    for item in &commit.orchestrator_items {
        check_message(OPERATION, item)?;
    }
    let Some(word) = &commit.metadata.status else { return Ok(None) };
    let status =
        Status::from_word(word).ok_or_else(|| invalid(OPERATION, format!("unknown status '{word}'")))?;
    Ok(Some(status))
}

/// Appends events, creating the execution if need be, and makes the changes that they stand for.
pub(super) fn append(row: &mut InstanceRow, now: Ms, execution_id: u64, events: Vec<Event>) {
    let changes = state_changes(&events);
    if let Some(change) = &changes.custom_status {
        row.custom_status = change.status.map(str::to_string);
        row.custom_status_version += change.times;
    }
    for change in &changes.kv {
        match change {
            KvChange::Set { key, value, last_updated_at_ms } => {
                let entry = KvEntry { value: (*value).to_string(), last_updated_at_ms: *last_updated_at_ms };
                row.kv.insert((*key).to_string(), entry);
            }
            KvChange::Clear { key } => {
                row.kv.remove(*key);
            }
            KvChange::ClearAll => row.kv.clear(),
        }
    }
    for event_id in &changes.cancelled_timers {
        row.drop_timers(execution_id, Some(*event_id));
    }
    if changes.drops_all_timers {
        row.drop_timers(execution_id, None);
    }
    row.current_execution_id = row.current_execution_id.max(execution_id);
    let execution = row.executions.entry(execution_id).or_insert_with(|| ExecutionRow::started(now));
    if let Some(failure) = changes.failure {
        execution.failure = Some(failure.clone());
    }
    execution.events.extend(events.into_iter().map(|event| (event.event_id, Stored::Value(event))));
}

fn write_metadata(
    row: &mut InstanceRow,
    now: Ms,
    execution_id: u64,
    status: Option<Status>,
    metadata: &ExecutionMetadata,
) {
    if let Some(name) = &metadata.orchestration_name {
        row.name.clone_from(name);
    }
    if let Some(version) = &metadata.orchestration_version {
        row.version.clone_from(version);
    }
    if let Some(execution) = row.executions.get_mut(&execution_id) {
        if let Some(output) = &metadata.output {
            execution.output = Some(output.clone());
        }
        if let Some(pinned) = &metadata.pinned_duroxide_version {
            execution.pinned = Some(pinned.clone());
        }
        if let Some(status) = status {
            execution.status = status;
            execution.completed_at = match status {
                Status::Running => None,
                Status::Completed | Status::Failed | Status::ContinuedAsNew => Some(now),
            };
        }
    }
    match status {
        Some(ended @ (Status::Completed | Status::Failed)) => {
            row.status = ended;
            row.ended_at = Some(now);
        }
        Some(Status::ContinuedAsNew) => {
            row.drop_timers(execution_id, None);
            row.executions.entry(execution_id + 1).or_insert_with(|| ExecutionRow::started(now));
            row.current_execution_id = row.current_execution_id.max(execution_id + 1);
        }
        Some(Status::Running) | None => {}
    }
}
