//! Looking at the rows, and making them undecodable, for tests.

use std::collections::BTreeMap;

use duroxide_core::{Event, ItemKind, WorkItem};
use serde::de::DeserializeOwned;

use super::store::RowStore;
use super::tables::{Execution, Instance, Tables};
use crate::memory::{
    Counters, ExecutionSnapshot, Inspection, InstanceSnapshot, MessageSnapshot, SessionSnapshot, Snapshot,
    Stored, WorkSnapshot,
};
use crate::rules::Token;
use crate::rules::values::from_json;

impl RowStore {
    /// The whole state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let dropped = self.dropped();
        let counters =
            Counters { dropped: dropped.dropped, set_aside: dropped.set_aside, expired: dropped.expired };
        self.look(|tables| tables.snapshot(counters))
    }

    /// Looks at one instance at this moment. `None` if it does not exist.
    pub fn inspect<T>(&self, instance: &str, look: impl FnOnce(&Inspection<'_>) -> T) -> Option<T> {
        self.look(|tables| tables.inspect(instance, look))
    }

    /// Makes the last event of the current execution undecodable; how many there are.
    pub fn corrupt_history(&self, instance: &str) -> usize {
        self.transact(|tables, _| {
            let current = tables.by_id(instance).map(|one| (one.row.key, one.row.current_execution_id));
            let execution = current.and_then(|(key, execution_id)| {
                tables.instances.get_mut(&key)?.executions.get_mut(&execution_id)
            });
            let last = execution.and_then(|execution| execution.history.values_mut().next_back());
            last.map(corrupt).into_iter().count()
        })
    }

    /// Makes the messages of one kind in an inbox undecodable; how many there are.
    pub fn corrupt_messages(&self, instance: &str, kind: ItemKind) -> usize {
        self.transact(|tables, _| {
            let key = tables.keys.get(instance).copied();
            let found = key.and_then(|key| tables.instances.get_mut(&key));
            let messages = found.into_iter().flat_map(|one| one.inbox.values_mut());
            messages.filter(|one| one.kind == kind).map(|one| corrupt(&mut one.json)).count()
        })
    }

    /// Makes the queued work items of an instance undecodable; how many there are.
    pub fn corrupt_work(&self, instance: &str) -> usize {
        self.transact(|tables, _| {
            let work = tables.work.values_mut().filter(|work| work.row.instance == instance);
            work.map(|work| corrupt(&mut work.json)).count()
        })
    }

    /// The highest attempt count in an instance's inbox, 0 when that is empty.
    pub fn max_attempt_count(&self, instance: &str) -> u32 {
        self.look(|tables| tables.by_id(instance).map_or(0, Instance::max_attempts))
    }
}

fn corrupt(json: &mut String) {
    *json = "{".to_string();
}

fn stored<T: DeserializeOwned>(json: &str) -> Stored<T> {
    match from_json(json) {
        Ok(value) => Stored::Value(value),
        Err(cause) => Stored::Undecodable { cause },
    }
}

impl Tables {
    fn inspect<T>(&self, id: &str, look: impl FnOnce(&Inspection<'_>) -> T) -> Option<T> {
        let found = self.by_id(id)?;
        let history = found.current().map(|execution| &execution.history);
        let events: Vec<Event> =
            history.into_iter().flat_map(BTreeMap::values).filter_map(|json| from_json(json).ok()).collect();
        let inbox: Vec<WorkItem> =
            found.inbox.values().filter_map(|message| from_json(&message.json).ok()).collect();
        let queued = self.queued.keys().filter(|(of, _, _)| of == id);
        let children = self
            .instances
            .values()
            .filter(|child| child.row.parent_instance.as_deref() == Some(id) && !child.row.is_ended());
        let inspection = Inspection {
            status: found.row.status.word(),
            current_execution_id: found.row.current_execution_id,
            event_count: history.map_or(0, BTreeMap::len),
            events: events.iter().collect(),
            inbox: inbox.iter().collect(),
            queued: queued.map(|(_, execution_id, activity_id)| (*execution_id, *activity_id)).collect(),
            running_children: children
                .filter_map(|child| Some((child.row.instance.as_str(), child.parent()?)))
                .collect(),
        };
        Some(look(&inspection))
    }

    fn snapshot(&self, counters: Counters) -> Snapshot {
        let mut early: BTreeMap<String, Vec<WorkItem>> = BTreeMap::new();
        for ((id, _), one) in &self.early {
            early.entry(id.clone()).or_default().extend(from_json::<WorkItem>(&one.json).ok());
        }
        let work = self.work.values().map(|work| WorkSnapshot {
            instance: work.row.instance.clone(),
            execution_id: work.row.execution_id,
            activity_id: work.row.activity_id,
            ready_at: work.row.ready_at,
            attempts: u32::try_from(work.row.attempts).unwrap_or(u32::MAX),
            suspect: work.suspect,
            lock: work.row.nonce.map(|nonce| (token(work.row.id, nonce), work.row.ready_at)),
            item: stored(&work.json),
        });
        let sessions = self.sessions.iter().map(|(id, session)| {
            let (locked_until, last_activity_at) = (session.locked_until, session.last_activity_at);
            (id.clone(), SessionSnapshot { owner: session.owner.clone(), locked_until, last_activity_at })
        });
        Snapshot {
            instances: self
                .instances
                .values()
                .map(|one| (one.row.instance.clone(), one.snapshot()))
                .collect(),
            work: work.collect(),
            sessions: sessions.collect(),
            early,
            set_aside: Vec::new(),
            counters,
        }
    }
}

impl Instance {
    fn snapshot(&self) -> InstanceSnapshot {
        let row = &self.row;
        let inbox = self.inbox.iter().map(|((visible_at, position), message)| {
            let locked = row.lock.is_some_and(|lock| lock.covers(*visible_at, *position));
            MessageSnapshot {
                kind: message.kind,
                visible_at: *visible_at,
                attempts: message.attempts + u32::from(locked),
                locked,
                item: stored(&message.json),
            }
        });
        InstanceSnapshot {
            incarnation: row.incarnation,
            name: row.name.clone(),
            version: row.version.clone(),
            current_execution_id: row.current_execution_id,
            status: row.status.word(),
            parent_instance: row.parent_instance.clone(),
            parent: self.parent(),
            custom_status: self.custom_status.clone(),
            custom_status_version: self.custom_status_version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            not_before: row.not_before,
            ready_at: row.ready_at,
            suspect: row.suspect,
            lock: row.lock.zip(row.ready_at).map(|(lock, until)| (token(row.key, lock.nonce), until)),
            executions: self.executions.iter().map(|(id, one)| (*id, one.snapshot())).collect(),
            kv: self.kv.clone(),
            inbox: inbox.collect(),
        }
    }
}

impl Execution {
    fn snapshot(&self) -> ExecutionSnapshot {
        ExecutionSnapshot {
            status: self.row.status.word(),
            output: self.output.clone(),
            failure: self.failure_details(),
            pinned: self.row.pinned.map(|pinned| {
                let number = crate::rules::values::from_column;
                semver::Version::new(number(pinned.major), number(pinned.minor), number(pinned.patch))
            }),
            started_at: self.started_at,
            completed_at: self.row.completed_at,
            events: self.history.values().map(|json| stored(json)).collect(),
        }
    }
}

fn token(key: i64, nonce: i64) -> String {
    Token { key, nonce }.text()
}
