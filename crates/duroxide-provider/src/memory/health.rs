//! What the queues hold for an instance, what is overdue, and repairs.

use duroxide_core::health::{QueuedFor, QueuedMessage};
use duroxide_core::{ItemKind, WorkItem, columns_of};

use super::messages::check_message;
use super::rows::{ExecutionRow, Ms, Status, WorkKey, to_ms};
use super::state::{State, invalid};
use super::work::check_work;
use crate::{HealthFacts, Overdue, ProviderError, RepairInstance};

const REPAIR: &str = "repair";

impl State {
    pub(super) fn queued_for(&self, now: Ms, instance: &str) -> Option<QueuedFor> {
        let row = self.instances.get(instance).filter(|row| !row.status.ends_instance())?;
        let messages = row.inbox().values().map(|message| QueuedMessage {
            kind: message.kind,
            execution_id: message.execution_id,
            event_id: message.event_id,
        });
        let of_instance = self.work_by_key.keys().filter(|key| key.instance == instance);
        Some(QueuedFor {
            execution_id: row.current_execution_id,
            last_event_id: row.current_execution().map_or(0, ExecutionRow::last_event_id),
            is_locked: row.lock.as_ref().is_some_and(|lock| now < lock.until),
            work: of_instance.map(|key| (key.execution_id, key.event_id)).collect(),
            messages: messages.collect(),
        })
    }

    pub(super) fn health_facts(&self, now: Ms, overdue_ms: u64) -> HealthFacts {
        let before = now.saturating_sub(to_ms(overdue_ms));
        let mut facts = HealthFacts::default();
        for row in self.instances.values().filter(|row| !row.status.ends_instance()) {
            let Some(ready_at) = row.entry().map(|entry| entry.ready_at) else { continue };
            if ready_at <= before {
                let expired = row.lock.is_some();
                count(
                    if expired { &mut facts.expired_turn_locks } else { &mut facts.overdue_turns },
                    ready_at,
                );
            }
            let timers = row.inbox().iter().filter(|(_, message)| message.kind == ItemKind::Timer);
            for (key, _) in timers.filter(|(key, _)| key.visible_at <= before) {
                count(&mut facts.overdue_timers, key.visible_at);
            }
        }
        for row in self.work.values() {
            let ready_at = row.entry().ready_at;
            let running =
                self.instances.get(&row.key.instance).is_some_and(|row| !row.status.ends_instance());
            if !running {
                count(&mut facts.orphan_work, ready_at);
            }
            if ready_at <= before {
                let expired = row.lock.is_some();
                count(
                    if expired { &mut facts.expired_work_locks } else { &mut facts.overdue_work },
                    ready_at,
                );
            }
        }
        for kept_at in self.early_by_age.keys().map(|(kept_at, _)| *kept_at).filter(|at| *at <= before) {
            count(&mut facts.early_messages, kept_at);
        }
        facts
    }

    pub(super) fn repair(&mut self, now: Ms, request: RepairInstance) -> Result<u64, ProviderError> {
        let RepairInstance { instance, execution_id, last_event_id, activities, messages, note } = request;
        activities.iter().try_for_each(|item| check_work(REPAIR, item))?;
        messages.iter().chain([&note]).try_for_each(|item| check_message(REPAIR, item))?;
        let row = self
            .instances
            .get(&instance)
            .ok_or_else(|| ProviderError::not_found(REPAIR, format!("instance '{instance}'")))?;
        let last = row.current_execution().map_or(0, ExecutionRow::last_event_id);
        let locked = row.lock.as_ref().is_some_and(|lock| now < lock.until);
        let same = row.current_execution_id == execution_id && last == last_event_id;
        if row.status != Status::Running || locked || !same {
            return Err(invalid(REPAIR, format!("instance '{instance}' is not as it was looked at")));
        }
        let mut put_back = 0;
        for item in activities {
            if !self.work_by_key.contains_key(&work_key(&item)) {
                self.put_work(now, item);
                put_back += 1;
            }
        }
        for item in messages {
            if !self.is_delivered(&instance, &item) {
                self.deliver(now, item, None);
                put_back += 1;
            }
        }
        if put_back > 0 {
            self.deliver(now, note, None);
        }
        Ok(put_back)
    }

    /// Whether the message is in the inbox, or the instance that it starts exists.
    fn is_delivered(&self, instance: &str, item: &WorkItem) -> bool {
        let columns = columns_of(item);
        if columns.kind == ItemKind::Start {
            return self.instances.contains_key(columns.instance);
        }
        let Some(row) = self.instances.get(instance) else { return false };
        row.inbox().values().any(|message| {
            message.kind == columns.kind
                && message.execution_id == columns.execution_id
                && message.event_id == columns.event_id
        })
    }
}

fn count(overdue: &mut Overdue, ready_at: Ms) {
    let ready_at = u64::try_from(ready_at).unwrap_or(0);
    overdue.count += 1;
    overdue.oldest_ms = Some(overdue.oldest_ms.map_or(ready_at, |oldest| oldest.min(ready_at)));
}

fn work_key(item: &WorkItem) -> WorkKey {
    let columns = columns_of(item);
    WorkKey {
        instance: columns.instance.to_string(),
        execution_id: columns.execution_id.unwrap_or(0),
        event_id: columns.event_id.unwrap_or(0),
    }
}
