//! Writing what a group changed when all of it is about one instance, which is how a store that is not busy is
//! written: by one statement with just the parts that are needed, and a parameter for each value.
//!
//! What a statement costs the server is mostly its beginning. This one begins faster than the function
//! `write_group`, which begins a statement for each kind of row.

use duroxide_provider::rules::{ExecutionRow, InboxRow, InstanceRow, NewWork, TurnLock};

use crate::connections::pipeline::{Pipeline, Value, values};
use crate::fetch::route_turn;
use crate::rows::one_statement::{BEGIN_INSTANCE, Instance, MAX_EVENTS, Shape};
use crate::rows::working_set::{WorkingSet, reservations};
use crate::values::{Ms, owned_text, to_column};

/// An execution that changed, with its instance's key and its number.
pub(crate) type Execution<'e> = (&'e (i64, u64), &'e ExecutionRow);

impl WorkingSet<'_> {
    /// Adds the statement, if all that is to be written is about one instance and there is a statement for it. The
    /// place of its answer: see [`crate::rows::write_group::Written`].
    pub(crate) fn write_one(
        &self,
        pipeline: &mut Pipeline,
        rows: &[&InstanceRow],
        executions: &[Execution<'_>],
    ) -> Option<usize> {
        // Whoever reads first spends the time there.
        let ([row], true) = (rows, self.is_remembered) else { return None };
        let writes = self.rows.changes();
        let is_its_own = writes.inbox.iter().all(|message| message.key == row.key)
            && writes.history.iter().all(|event| event.key == row.key)
            && writes.covered.iter().all(|(key, _)| *key == row.key)
            && executions.iter().all(|((key, _), _)| *key == row.key);
        let (sql, values) = match (is_its_own, row.pending.created) {
            (false, _) => return None,
            (true, true) => (BEGIN_INSTANCE, self.begin_instance(row, executions)?),
            (true, false) if self.rows.reserved().is_empty() => self.change_instance(row, executions)?,
            (true, false) => return None,
        };
        Some(pipeline.add(sql, values))
    }

    /// An instance that begins and whose id is to be reserved by the statement itself.
    fn begin_instance(&self, row: &InstanceRow, executions: &[Execution<'_>]) -> Option<Vec<Value>> {
        let writes = self.rows.changes();
        let nothing_else = writes.covered.is_empty()
            && writes.history.is_empty()
            && writes.new_work.is_empty()
            && writes.deleted_work.is_empty();
        let [message] = writes.inbox.as_slice() else { return None };
        let [((_, execution_id), execution)] = executions else { return None };
        let reserved = reservations(self.schema, "instance", self.rows.reserved());
        let ([reserved], true, false) = (reserved.as_slice(), nothing_else, execution.is_stored) else {
            return None;
        };
        let (name, version) = row.pending.route.as_ref().map(route_turn::stored).unwrap_or_default();
        let mut all = values![
            *reserved,
            owned_text(&row.instance),
            false,
            row.key,
            row.incarnation.cast_signed(),
            owned_text(&row.name),
            owned_text(&row.version),
            row.parent_instance.as_deref().map(owned_text),
            row.parent_execution_id,
            row.parent_event_id,
            self.rows.now(),
        ];
        all.extend(queue_values(row));
        all.extend(values![name, version]);
        all.extend(message_values(message));
        all.extend(values![to_column(*execution_id)]);
        all.extend(execution_values(execution));
        all.extend(values![row.pending.first_input]);
        Some(all)
    }

    fn change_instance(
        &self,
        row: &InstanceRow,
        executions: &[Execution<'_>],
    ) -> Option<(&'static str, Vec<Value>)> {
        let mut all = values![row.key, row.revision];
        all.extend(queue_values(row));
        let (name, version) = row.pending.route.as_ref().map(route_turn::stored).unzip();
        all.extend(values![name, version]);
        let shape = match self.rows.changes().covered.as_slice() {
            [] => self.message(row, executions, &mut all)?,
            [(_, lock)] => self.turn(row, lock, executions, &mut all)?,
            _ => return None,
        };
        Some((shape.text()?, all))
    }

    fn message(
        &self,
        row: &InstanceRow,
        executions: &[Execution<'_>],
        all: &mut Vec<Value>,
    ) -> Option<Shape> {
        let writes = self.rows.changes();
        let nothing_else = writes.history.is_empty()
            && writes.new_work.is_empty()
            && executions.is_empty()
            && !row.pending.description
            && row.pending.end.is_none();
        let ([message], [] | [_], true) =
            (writes.inbox.as_slice(), writes.deleted_work.as_slice(), nothing_else)
        else {
            return None;
        };
        for (id, nonce) in &writes.deleted_work {
            all.extend(values![*id, *nonce]);
        }
        all.extend(message_values(message));
        Some(Shape::Message { gone_work: !writes.deleted_work.is_empty() })
    }

    fn turn(
        &self,
        row: &InstanceRow,
        lock: &TurnLock,
        executions: &[Execution<'_>],
        all: &mut Vec<Value>,
    ) -> Option<Shape> {
        let writes = self.rows.changes();
        let [((_, id), execution)] = executions else { return None };
        let events = writes.history.len();
        let fits = (1..=MAX_EVENTS).contains(&events)
            && writes.history.iter().all(|event| event.execution_id == *id)
            && execution.is_stored
            && writes.inbox.len() <= 1
            && writes.new_work.len() <= 1
            && writes.deleted_work.is_empty();
        if !fits {
            return None;
        }
        all.extend(values![lock.visible_at, lock.position, lock.watermark, to_column(*id)]);
        all.extend(execution_values(execution));
        for event in &writes.history {
            all.extend(values![to_column(event.event_id), event.json.clone()]);
        }
        let instance = match (row.pending.end, row.pending.description) {
            (Some(_), _) => Instance::Ended,
            (None, true) => Instance::Described,
            (None, false) => Instance::Same,
        };
        if instance != Instance::Same {
            all.extend(values![
                owned_text(&row.name),
                owned_text(&row.version),
                row.parent_instance.as_deref().map(owned_text),
                row.pending.end.map(|status| status.code()),
                row.pending.end.map(|_| self.rows.now()),
            ]);
        }
        writes.inbox.iter().for_each(|message| all.extend(message_values(message)));
        writes.new_work.iter().for_each(|work| all.extend(work_values(work, self.rows.now())));
        let (message, work) = (!writes.inbox.is_empty(), !writes.new_work.is_empty());
        Some(Shape::Turn { events, instance, message, work })
    }
}

fn queue_values(row: &InstanceRow) -> Vec<Value> {
    let lock = |value: fn(&TurnLock) -> i64| row.lock.as_ref().map(value);
    values![
        row.is_ended(),
        row.updated_at,
        to_column(row.current_execution_id),
        row.pinned_key,
        row.has_kv,
        row.inbox_count,
        row.next_position,
        row.not_before,
        row.ready_at,
        row.suspect,
        row.suspect_before,
        lock(|lock| lock.nonce),
        lock(|lock| lock.visible_at),
        lock(|lock| lock.position),
        lock(|lock| lock.watermark),
        lock(|lock| lock.count),
    ]
}

fn message_values(row: &InboxRow) -> Vec<Value> {
    values![row.visible_at, row.position, row.kind.code(), row.execution_id, row.event_id, row.json.clone()]
}

fn execution_values(row: &ExecutionRow) -> Vec<Value> {
    values![
        row.status.code(),
        row.completed_at,
        row.pinned.map(|pinned| pinned.major),
        row.pinned.map(|pinned| pinned.minor),
        row.pinned.map(|pinned| pinned.patch),
        row.event_count,
        to_column(row.last_event_id),
        row.history_bytes,
        row.new_output.as_deref().map(owned_text),
        row.new_failure.clone(),
    ]
}

fn work_values(row: &NewWork, now: Ms) -> Vec<Value> {
    values![
        owned_text(&row.instance),
        to_column(row.execution_id),
        to_column(row.activity_id),
        owned_text(&row.place.name),
        owned_text(&row.place.tag),
        row.place.session_id.as_deref().map(owned_text),
        now,
        row.lock.map_or(now, |lock| lock.expires_at),
        row.lock.map(|lock| lock.nonce),
        row.lock.is_some(),
        i64::from(row.lock.is_some()),
        row.json.clone(),
    ]
}
