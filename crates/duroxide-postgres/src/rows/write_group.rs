//! Writing what almost every group of calls changes, by one statement: see the function `write_group` of the
//! schema.

use std::collections::HashMap;

use duroxide_provider::rules::{HistoryRow, InboxRow, InstanceRow, NewWork, TurnLock};
use tokio_postgres::Row;

use crate::connections::pipeline::{Pipeline, Value, values};
use crate::fetch::route_turn;
use crate::rows::one_statement::BEGIN_INSTANCE;
use crate::rows::working_set::{WorkingSet, reservations};
use crate::rows::write_one::Execution;
use crate::rows::write_pieces::{Piece, Pieces};
use crate::values::{Ms, from_column, from_text, owned_text, to_column};

/// As many parameters as [`WorkingSet::write_group`] gives.
pub(crate) const WRITE_GROUP: &str = "SELECT clock, work_ids, work_nonces FROM {s}.write_group($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, \
     $32, $33, $34, $35, $36, $37, $38)";

/// What stands for NULL among numbers.
const NONE: i64 = -i64::MAX;

/// Where the parameter stands that says whether the statement is the whole transaction.
const ALONE: usize = 2;

/// One column of many rows.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}
pub(crate) use column;

impl WorkingSet<'_> {
    /// Adds the statement, unless there is nothing to write.
    pub(crate) fn write_group(&self, pipeline: &mut Pipeline) -> Option<Written> {
        let writes = self.rows.changes();
        let mut rows: Vec<&InstanceRow> = self.rows.instances().filter(|row| row.pending.queue).collect();
        rows.sort_unstable_by_key(|row| row.key);
        let changed: Vec<_> = self.rows.executions().filter(|(_, row)| row.changed).collect();
        let nothing = rows.is_empty()
            && changed.is_empty()
            && writes.history.is_empty()
            && writes.inbox.is_empty()
            && writes.covered.is_empty()
            && writes.new_work.is_empty()
            && writes.deleted_work.is_empty();
        if nothing {
            return None;
        }
        if let Some(place) = self.write_one(pipeline, &rows, &changed) {
            let lock = writes.new_work.first().and_then(|work| work.lock);
            let is_end = rows.iter().any(|row| row.pending.end.is_some());
            // One that the transaction changes after this statement is not the one that this answers with.
            let ends = is_end && writes.custom_statuses.is_empty();
            return Some(Written::One { place, nonce: lock.map(|lock| lock.nonce), ends });
        }
        let (stored, new): (Vec<Execution<'_>>, Vec<Execution<'_>>) =
            changed.into_iter().partition(|(_, row)| row.is_stored);
        // Where rows were read, ids are reserved already.
        let reserved = match self.is_remembered {
            true => reservations(self.schema, "instance", self.rows.reserved()),
            false => Vec::new(),
        };
        let mut gone = column!(writes.deleted_work, (id, nonce) => [*id, nonce.unwrap_or(NONE)]);
        gone.sort_unstable();
        // What locks cover is gone already where messages were pulled back.
        let covered: &[_] = if writes.pulled_back.is_empty() { &writes.covered } else { &[] };
        let covered = column!(covered, (key, lock) => covered_numbers(*key, lock)).concat();
        let changes = Changed { reserved, rows, gone: gone.concat(), covered, new, stored };
        let mut pieces = Pieces::of(writes);
        let first = self.statement_values(&changes, &pieces.next().unwrap_or_default());
        let place = pipeline.add(WRITE_GROUP, first);
        for piece in pieces {
            pipeline.add(WRITE_GROUP, self.statement_values(&Changed::default(), &piece));
        }
        Some(Written::Group { place })
    }

    /// The parameters of one statement.
    fn statement_values(&self, changes: &Changed<'_>, added: &Piece<'_>) -> Vec<Value> {
        let rows = &changes.rows;
        let mut values = values![self.rows.now(), changes.reserved.clone(), false, changed_queues(rows)];
        values.extend(changed_routes(rows));
        values.extend(values![changes.gone.clone(), changes.covered.clone()]);
        values.extend(instance_values(rows));
        values.extend(message_values(added.messages));
        values.extend(event_values(added.events));
        values.extend(execution_values(&changes.new));
        values.extend(execution_values(&changes.stored));
        values.extend(self.work_values(added.work));
        let new = rows.iter().filter(|row| row.pending.created);
        values.extend(values![new.map(|row| row.pending.first_input).collect::<Vec<_>>()]);
        values
    }

    fn work_values(&self, rows: &[NewWork]) -> Vec<Value> {
        let numbers = column!(rows, row => [
            to_column(row.execution_id),
            to_column(row.activity_id),
            row.lock.map_or(self.rows.now(), |lock| lock.expires_at),
            row.lock.map_or(NONE, |lock| lock.nonce),
        ]);
        values![
            numbers.concat(),
            column!(rows, row => owned_text(&row.instance)),
            column!(rows, row => owned_text(&row.place.name)),
            column!(rows, row => owned_text(&row.place.tag)),
            column!(rows, row => row.place.session_id.as_deref().map(owned_text)),
            column!(rows, row => row.json.clone()),
        ]
    }
}

/// What a statement changes besides adding rows. The first one of a transaction changes all, and so locks and checks the rows
/// before anything is added.
#[derive(Default)]
struct Changed<'a> {
    reserved: Vec<i64>,
    rows: Vec<&'a InstanceRow>,
    gone: Vec<i64>,
    covered: Vec<i64>,
    new: Vec<Execution<'a>>,
    stored: Vec<Execution<'a>>,
}

fn message_values(rows: &[InboxRow]) -> Vec<Value> {
    let numbers = column!(rows, row => [
        row.key,
        row.visible_at,
        row.position,
        row.kind.code(),
        row.execution_id.unwrap_or(NONE),
        row.event_id.unwrap_or(NONE),
    ]);
    values![numbers.concat(), column!(rows, row => row.json.clone())]
}

fn event_values(rows: &[HistoryRow]) -> Vec<Value> {
    let numbers = column!(rows, row => [row.key, to_column(row.execution_id), to_column(row.event_id)]);
    values![numbers.concat(), column!(rows, row => row.json.clone())]
}

/// Where the answer of the statement stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Written {
    /// Of many rows: the time, and the ids and the locks of new work items that are locked.
    Group { place: usize },
    /// Of one instance: the time, and the id of the new work item, which has this lock. If the instance ends, its
    /// custom status, too.
    One { place: usize, nonce: Option<i64>, ends: bool },
}

/// The custom status of an instance, and how often it was set.
#[derive(Debug, Default)]
pub(crate) struct CustomStatus {
    pub(crate) status: Option<String>,
    pub(crate) version: u64,
}

impl Written {
    /// The server's time, or `None` if nothing was written; and the ids of new work items by their locks.
    pub(crate) fn answer(self, answers: &[Vec<Row>]) -> Option<(Option<Ms>, HashMap<i64, i64>)> {
        let row = |place: usize| answers.get(place).and_then(|rows| rows.first());
        match self {
            Self::Group { place } => {
                let row = row(place)?;
                let numbers = |column: usize| row.get::<_, Option<Vec<i64>>>(column).unwrap_or_default();
                Some((row.get(0), numbers(2).into_iter().zip(numbers(1)).collect()))
            }
            Self::One { place, nonce, ends: _ } => {
                let row = row(place)?;
                Some((row.get(0), nonce.zip(row.get(1)).into_iter().collect()))
            }
        }
    }

    /// Whether the answer tells what is seen of an instance that ends.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Self::One { ends: true, .. })
    }

    /// The custom status of the instance that ended.
    pub(crate) fn custom_status(self, answers: &[Vec<Row>]) -> Option<CustomStatus> {
        let Self::One { place, ends: true, .. } = self else { return None };
        let row = answers.get(place)?.first()?;
        let status = row.get::<_, Option<String>>(2).map(from_text);
        Some(CustomStatus { status, version: row.get::<_, Option<i64>>(3).map_or(0, from_column) })
    }
}

/// Tells the statement that it is the whole transaction, if it must know that.
pub(crate) fn set_alone(sql: &str, params: &mut [Value]) {
    if (sql == WRITE_GROUP || sql == BEGIN_INSTANCE)
        && let Some(value) = params.get_mut(ALONE)
    {
        *value = Box::new(true);
    }
}

/// The numbers of a row of `queues`, but for its key and its revision.
fn queue_numbers(row: &InstanceRow) -> [i64; 16] {
    let lock = |value: fn(&TurnLock) -> i64| row.lock.as_ref().map_or(NONE, value);
    [
        i64::from(row.is_ended()),
        row.updated_at,
        to_column(row.current_execution_id),
        row.pinned_key,
        i64::from(row.has_kv),
        row.inbox_count,
        row.next_position,
        row.not_before,
        row.ready_at.unwrap_or(NONE),
        i64::from(row.suspect),
        i64::from(row.suspect_before),
        lock(|lock| lock.nonce),
        lock(|lock| lock.visible_at),
        lock(|lock| lock.position),
        lock(|lock| lock.watermark),
        lock(|lock| lock.count),
    ]
}

fn changed_queues(rows: &[&InstanceRow]) -> Vec<i64> {
    let mut numbers = Vec::new();
    for row in rows.iter().filter(|row| !row.pending.created) {
        numbers.extend([row.key, row.revision]);
        numbers.extend(queue_numbers(row));
    }
    numbers
}

/// The routes of the rows that change; nothing if all stay.
fn changed_routes(rows: &[&InstanceRow]) -> Vec<Value> {
    let changed = || rows.iter().filter(|row| !row.pending.created);
    if changed().all(|row| row.pending.route.is_none()) {
        return values![Vec::<String>::new(), Vec::<String>::new()];
    }
    let route = |row: &&&InstanceRow| row.pending.route.as_ref().map(route_turn::stored);
    let (names, versions): (Vec<_>, Vec<_>) = changed().map(|row| route(&row).unzip()).unzip();
    values![names, versions]
}

fn covered_numbers(key: i64, lock: &TurnLock) -> [i64; 4] {
    [key, lock.visible_at, lock.position, lock.watermark]
}

/// Instances that are new, that have another description, and that ended.
fn instance_values(rows: &[&InstanceRow]) -> Vec<Value> {
    let new: Vec<_> = rows.iter().filter(|row| row.pending.created).collect();
    let stored = || rows.iter().filter(|row| !row.pending.created);
    let described: Vec<_> = stored().filter(|row| row.pending.description).collect();
    let ended: Vec<_> = stored().filter_map(|row| Some([row.key, row.pending.end?.code()])).collect();
    let mut queues = Vec::new();
    for row in &new {
        queues.push(row.key);
        queues.extend(queue_numbers(row));
    }
    let routes = column!(new, row => row.pending.route.as_ref().map(route_turn::stored).unwrap_or_default());
    let numbers = column!(new, row => [
        row.key,
        row.incarnation.cast_signed(),
        row.parent_execution_id.unwrap_or(NONE),
        row.parent_event_id.unwrap_or(NONE),
    ]);
    values![
        queues,
        numbers.concat(),
        column!(new, row => owned_text(&row.instance)),
        column!(new, row => owned_text(&row.name)),
        column!(new, row => owned_text(&row.version)),
        column!(new, row => row.parent_instance.as_deref().map(owned_text)),
        column!(routes, (name, _) => name.clone()),
        column!(routes, (_, version) => version.clone()),
        column!(described, row => row.key),
        column!(described, row => owned_text(&row.name)),
        column!(described, row => owned_text(&row.version)),
        column!(described, row => row.parent_instance.as_deref().map(owned_text)),
        ended.concat(),
    ]
}

fn execution_values(rows: &[Execution<'_>]) -> Vec<Value> {
    let numbers = column!(rows, ((key, id), row) => [
        *key,
        to_column(*id),
        row.status.code(),
        row.completed_at.unwrap_or(NONE),
        row.pinned.map_or(NONE, |pinned| pinned.major),
        row.pinned.map_or(NONE, |pinned| pinned.minor),
        row.pinned.map_or(NONE, |pinned| pinned.patch),
        row.event_count,
        to_column(row.last_event_id),
        row.history_bytes,
    ]);
    values![
        numbers.concat(),
        column!(rows, (_, row) => row.new_output.as_deref().map(owned_text)),
        column!(rows, (_, row) => row.new_failure.clone()),
    ]
}
