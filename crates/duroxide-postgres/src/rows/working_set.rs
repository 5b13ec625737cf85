//! The rows that a group of calls is about: locked and read in one round trip, changed in memory by the rules, written in
//! another. Every change of an instance is made by who holds its row of `queues`, so that what was read stays true until
//! the commit.

use std::collections::HashMap;

use duroxide_core::limits;
use duroxide_provider::rules::{Answer, Call, Early, ExecutionRow, InstanceRow, Need, Rows, Stop, Wanted};
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::fetch::horizon::WrittenRows;
use crate::group::memory::Memory;
use crate::rows::execution_row;
use crate::rows::instance_row::{self, instance_columns};
use crate::rows::work;
use crate::values::{Ms, count, from_column, from_text, lock_number, new_key, owned_text, to_column};

/// The rows of a transaction.
pub(crate) struct WorkingSet<'a> {
    /// The schema, quoted.
    pub(crate) schema: &'a str,
    pub(crate) rows: Rows,
    /// Whether the rows were not read but remembered: nothing is locked, and no transaction has begun.
    pub(crate) is_remembered: bool,
    /// Keys for instances to come that the rows do not have, the smallest last.
    pub(crate) spare_keys: Vec<i64>,
}

/// Why a call was not carried out in this transaction.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The call fails, or the transaction does.
    Fault(Fault),
    /// This id must be reserved before anything else is locked.
    Reserve(String),
}

impl From<Fault> for Obstacle {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

const BEGIN: &str = "BEGIN";
/// Locks ids that have no row, in an order that all transactions share.
pub(crate) const RESERVE: &str = "SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) AS n";
pub(crate) const KEYS: &str = "SELECT nextval('{s}.instance_keys') FROM generate_series(1, $1::bigint)";
pub(crate) const LOCK: &str = concat!(
    "SELECT ",
    instance_columns!(),
    " FROM (SELECT DISTINCT k.key FROM (SELECT unnest($1::bigint[]) AS key UNION ALL \
         SELECT o.key FROM unnest($2::text[]) AS u (id) JOIN {s}.instances o ON o.instance_id = ANY (ARRAY[u.id])) k) k \
       JOIN {s}.queues q ON q.key = ANY (ARRAY[k.key]) JOIN {s}.instances i ON i.key = ANY (ARRAY[k.key]) \
       ORDER BY k.key FOR UPDATE OF q"
);
const LOCK_WORK: &str = "SELECT w.id, w.lock_nonce, w.ready_at, w.tag, w.session_id, w.instance_id, w.execution_id, \
     w.activity_id, w.visible_at, w.suspect_before, w.attempts, w.name FROM {s}.work_items w \
     WHERE w.id = ANY($1::bigint[]) ORDER BY w.id FOR UPDATE";
const LOCK_CANCELLED: &str = "SELECT w.id, w.lock_nonce, w.ready_at, w.tag, w.session_id, w.instance_id, w.execution_id, \
     w.activity_id, w.visible_at, w.suspect_before, w.attempts, w.name \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (i, e, a) \
     JOIN {s}.work_items w ON w.instance_id = ANY (ARRAY[u.i]) AND w.execution_id = u.e AND w.activity_id = u.a \
     ORDER BY w.id + 0 FOR UPDATE OF w";
/// After the locks: whoever waited for them has a later time.
const NOW: &str = "SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
pub(crate) const EXECUTIONS: &str = "SELECT e.instance_key, e.execution_id, e.status, e.completed_at, e.pinned_major, \
     e.pinned_minor, e.pinned_patch, e.event_count, e.last_event_id, e.history_bytes \
     FROM unnest($1::bigint[], $2::bigint[]) AS u (key, execution_id) \
     JOIN {s}.executions e ON e.instance_key = ANY (ARRAY[u.key]) AND e.execution_id = u.execution_id";
/// The first message of each inbox that an ack leaves there.
const FIRST_LEFT: &str = "SELECT q.key, (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = q.key \
       AND (q.lock_nonce IS NULL OR (n.visible_at, n.position) > (q.lock_visible_at, q.lock_position) \
            OR n.position >= q.lock_watermark) \
       AND NOT EXISTS (SELECT 1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS t (key, e, s) \
            WHERE n.kind = 5 AND t.key = n.instance_key AND t.e = n.execution_id \
            AND (t.s IS NULL OR t.s = n.event_id)) \
       ORDER BY n.visible_at, n.position LIMIT 1) \
     FROM unnest($1::bigint[]) AS u (key) JOIN {s}.queues q ON q.key = ANY (ARRAY[u.key])";
/// The first message of each inbox.
const FIRST: &str = "SELECT u.key, (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = u.key \
       ORDER BY n.visible_at, n.position LIMIT 1) FROM unnest($1::bigint[]) AS u (key)";
/// The timers that acks remove, but for those that their locks cover.
pub(crate) const TIMERS: &str = "SELECT DISTINCT n.instance_key, n.visible_at, n.position \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS t (key, e, s) \
     JOIN {s}.queues q ON q.key = ANY (ARRAY[t.key]) \
     CROSS JOIN LATERAL (SELECT n.instance_key, n.visible_at, n.position FROM {s}.inbox n WHERE n.kind = 5 \
       AND n.instance_key = t.key AND n.execution_id = t.e AND (t.s IS NULL OR t.s = n.event_id) OFFSET 0) n \
     WHERE q.lock_nonce IS NULL OR (n.visible_at, n.position) > (q.lock_visible_at, q.lock_position) \
       OR n.position >= q.lock_watermark";
/// What expires is the oldest, so that positions have no gaps and their span is the count.
const EARLY: &str = "SELECT u.id, l.position, least(l.position::numeric - f.position + 1, 1000000000)::bigint, f.kept_at \
     FROM unnest($1::text[]) AS u (id), \
     LATERAL (SELECT m.position, m.kept_at FROM {s}.early_messages m WHERE m.instance_id = u.id \
              ORDER BY m.position LIMIT 1) f, \
     LATERAL (SELECT m.position FROM {s}.early_messages m WHERE m.instance_id = u.id \
              ORDER BY m.position DESC LIMIT 1) l";
const EARLY_LEFT: &str =
    "SELECT count(*) FROM {s}.early_messages m WHERE m.instance_id = $1 AND m.kept_at >= $2";

impl<'a> WorkingSet<'a> {
    /// Begins a transaction and reads all that is wanted, in one round trip. The spare keys were given out before.
    pub(crate) async fn begin(
        conn: &'a Conn<'_>,
        manual: Option<Ms>,
        wanted: &Wanted,
        spare_keys: Vec<i64>,
    ) -> Result<Self, Fault> {
        let mut pipeline = Pipeline::default();
        pipeline.add(BEGIN, Vec::new());
        Self::load(conn, manual, wanted, spare_keys, pipeline).await
    }

    /// Reads all that is wanted inside a transaction that somebody else began.
    pub(crate) async fn join(conn: &'a Conn<'_>, manual: Option<Ms>, wanted: &Wanted) -> Result<Self, Fault> {
        Self::load(conn, manual, wanted, Vec::new(), Pipeline::default()).await
    }

    /// The rows as they are remembered.
    pub(crate) fn recalled(schema: &'a str, rows: Rows) -> Self {
        Self { schema, rows, is_remembered: true, spare_keys: Vec::new() }
    }

    async fn load(
        conn: &'a Conn<'_>,
        manual: Option<Ms>,
        wanted: &Wanted,
        mut spare_keys: Vec<i64>,
        mut pipeline: Pipeline,
    ) -> Result<Self, Fault> {
        let places = Places::send(&mut pipeline, conn, manual, wanted, spare_keys.len());
        let mut answers = pipeline.run(conn).await?.all()?;
        let mut take = |place: Option<usize>| {
            place.and_then(|place| answers.get_mut(place)).map(std::mem::take).unwrap_or_default()
        };
        let now = take(Some(places.now)).first().map_or(0, |row| row.get(0));
        let mut rows = Rows::new(now);
        let mut keys: Vec<i64> = take(places.keys).iter().map(|row| row.get(0)).collect();
        // Taken from the end: those that were given out before, and the smallest first.
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys.append(&mut spare_keys);
        let for_starts = keys.split_off(keys.len().saturating_sub(wanted.starts));
        rows.learn_keys(for_starts.into_iter().map(new_key));
        take(places.instances).iter().for_each(|row| rows.learn_instance(instance_row::read(row)));
        wanted.ids.iter().for_each(|id| rows.learn_absent(id));
        for row in take(places.work).iter().chain(&take(places.cancelled)) {
            rows.learn_work(work::read_named(row));
        }
        learn_executions(&mut rows, &wanted.acks, &take(places.executions))?;
        take(places.first_left).iter().for_each(|row| rows.learn_first_left(row.get(0), row.get(1)));
        take(places.first).iter().for_each(|row| rows.learn_first(row.get(0), row.get(1)));
        learn_timers(&mut rows, &wanted.timers, &take(places.timers));
        let early = early_messages(conn, now, &take(places.early)).await?;
        wanted.reserved.iter().for_each(|id| rows.reserve(id, early.get(id).copied()));
        Ok(Self { schema: conn.schema(), rows, is_remembered: false, spare_keys: keys })
    }

    /// Carries one call out in memory, and reads what it needs that nobody knew before. If it fails, nothing has changed.
    pub(crate) async fn carry_out(&mut self, conn: &Conn<'_>, call: &Call) -> Result<Answer, Obstacle> {
        loop {
            match self.rows.apply(call) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Fault(fault)) => return Err(Fault::from(fault).into()),
                Err(Stop::Need(Need::Reserve(id))) => return Err(Obstacle::Reserve(id)),
                Err(Stop::Need(need)) => self.learn(conn, need).await?,
            }
        }
    }

    /// Adds the executions that are remembered and were not read.
    pub(crate) fn remember_executions(&mut self, memory: &Memory) {
        let is_unknown =
            |row: &&InstanceRow| self.rows.execution(row.key, row.current_execution_id).is_none();
        let unknown = self.rows.instances().filter(is_unknown);
        let remembered: Vec<(i64, u64, ExecutionRow)> = unknown
            .filter_map(|row| Some((row.key, row.current_execution_id, memory.execution_of(row)?.clone())))
            .collect();
        for (key, execution_id, execution) in remembered {
            self.rows.learn_execution(key, execution_id, Some(execution));
        }
    }

    /// How the transaction leaves the instances, with their executions where those are known; and the work items
    /// of which it is not said how it leaves them.
    pub(crate) fn as_left(&self) -> (Vec<(InstanceRow, Option<ExecutionRow>)>, Vec<i64>) {
        let left = |row: &InstanceRow| {
            let changed = row.pending.queue && !row.pending.created;
            let execution = self.rows.execution(row.key, row.current_execution_id);
            let execution = execution.filter(|execution| execution.is_stored || execution.changed);
            (
                InstanceRow { revision: row.revision.saturating_add(i64::from(changed)), ..row.clone() },
                execution.cloned(),
            )
        };
        let changes = self.rows.changes();
        let gone = changes.deleted_work.iter().map(|(id, _)| *id).chain(changes.work.keys().copied());
        (self.rows.instances().map(left).collect(), gone.collect())
    }

    /// How far back the rows are ready that the transaction writes.
    pub(crate) fn written_rows(&self) -> WrittenRows {
        let mut written = WrittenRows::default();
        for row in self.rows.instances().filter(|row| row.pending.queue) {
            written.turn(row.pinned_key, row.suspect, row.ready_at);
        }
        for work in &self.rows.changes().new_work {
            match &work.lock {
                Some(lock) => written.work.include(true, lock.expires_at),
                None => written.work.include(false, self.rows.now()),
            }
        }
        for change in self.rows.changes().work.values() {
            written.work.include(change.suspect, change.ready_at);
        }
        written
    }
}

/// What was read of the executions whose turns end. Those that the store does not have begin.
fn learn_executions(rows: &mut Rows, acks: &[(i64, u64)], stored: &[Row]) -> Result<(), Fault> {
    acks.iter().for_each(|(key, execution_id)| rows.learn_execution(*key, *execution_id, None));
    for row in stored {
        let execution = execution_row::read(row, 0)?;
        rows.learn_execution(row.get(0), from_column(row.get(1)), Some(execution));
    }
    Ok(())
}

/// How many timers turns remove.
fn learn_timers(rows: &mut Rows, wanted: &[(i64, u64, Option<u64>)], stored: &[Row]) {
    let mut counts: HashMap<i64, i64> = wanted.iter().map(|(key, _, _)| (*key, 0)).collect();
    stored.iter().for_each(|row| *counts.entry(row.get(0)).or_default() += 1);
    counts.into_iter().for_each(|(key, count)| rows.learn_timers(key, count));
}

/// Until when what was kept for a start has expired.
pub(crate) fn early_cutoff(now: Ms) -> Ms {
    now.saturating_sub(to_column(limits::EARLY_MESSAGE_RETENTION_MS))
}

/// What is kept for ids that nobody has, without what has expired.
async fn early_messages(conn: &Conn<'_>, now: Ms, stored: &[Row]) -> Result<HashMap<String, Early>, Fault> {
    let cutoff = early_cutoff(now);
    let mut early = HashMap::with_capacity(stored.len());
    for row in stored {
        let (id, last, mut count, oldest): (String, i64, i64, Ms) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if oldest < cutoff {
            let left = conn.first(EARLY_LEFT, &[&id, &cutoff]).await?;
            count = left.map_or(0, |row| row.get(0));
        }
        early.insert(from_text(id), Early { last, count });
    }
    Ok(early)
}

/// Where the answers of a load stand.
#[derive(Default)]
struct Places {
    keys: Option<usize>,
    instances: Option<usize>,
    work: Option<usize>,
    cancelled: Option<usize>,
    now: usize,
    executions: Option<usize>,
    first_left: Option<usize>,
    first: Option<usize>,
    timers: Option<usize>,
    early: Option<usize>,
}

impl Places {
    fn send(
        pipeline: &mut Pipeline,
        conn: &Conn<'_>,
        manual: Option<Ms>,
        wanted: &Wanted,
        spare_keys: usize,
    ) -> Self {
        let mut places = Self::default();
        if !wanted.reserved.is_empty() {
            pipeline.add(RESERVE, values![reservations(conn.schema(), "instance", &wanted.reserved)]);
        }
        if wanted.starts > spare_keys {
            // A few more than are needed spare later starts this round trip.
            let keys = wanted.starts.saturating_add(wanted.starts.saturating_mul(4).clamp(64, 1_024));
            places.keys = Some(pipeline.add(KEYS, values![count(keys)]));
        }
        if !wanted.keys.is_empty() || !wanted.ids.is_empty() {
            let keys: Vec<i64> = wanted.keys.iter().copied().collect();
            let ids: Vec<String> = wanted.ids.iter().map(|id| owned_text(id)).collect();
            places.instances = Some(pipeline.add(LOCK, values![keys, ids]));
        }
        if !wanted.work.is_empty() {
            let ids: Vec<i64> = wanted.work.iter().copied().collect();
            places.work = Some(pipeline.add(LOCK_WORK, values![ids]));
        }
        if !wanted.cancelled.is_empty() {
            let instances: Vec<String> = wanted.cancelled.iter().map(|(id, _, _)| owned_text(id)).collect();
            let executions: Vec<i64> =
                wanted.cancelled.iter().map(|(_, execution, _)| to_column(*execution)).collect();
            let activities: Vec<i64> = wanted.cancelled.iter().map(|(_, _, id)| to_column(*id)).collect();
            places.cancelled = Some(pipeline.add(LOCK_CANCELLED, values![instances, executions, activities]));
        }
        places.now = pipeline.add(NOW, values![manual]);
        places.send_reads(pipeline, wanted);
        places
    }

    fn send_reads(&mut self, pipeline: &mut Pipeline, wanted: &Wanted) {
        if !wanted.acks.is_empty() {
            let keys: Vec<i64> = wanted.acks.iter().map(|(key, _)| *key).collect();
            let executions: Vec<i64> =
                wanted.acks.iter().map(|(_, execution)| to_column(*execution)).collect();
            self.executions = Some(pipeline.add(EXECUTIONS, values![keys.clone(), executions]));
            let (timer_keys, timer_executions, schedules) = timer_columns(&wanted.timers);
            self.first_left =
                Some(pipeline.add(FIRST_LEFT, values![keys, timer_keys, timer_executions, schedules]));
        }
        if !wanted.abandons.is_empty() {
            self.first = Some(pipeline.add(FIRST, values![wanted.abandons.clone()]));
        }
        if !wanted.timers.is_empty() {
            let (keys, executions, schedules) = timer_columns(&wanted.timers);
            self.timers = Some(pipeline.add(TIMERS, values![keys, executions, schedules]));
        }
        if !wanted.reserved.is_empty() {
            let ids: Vec<String> = wanted.reserved.iter().map(|id| owned_text(id)).collect();
            self.early = Some(pipeline.add(EARLY, values![ids]));
        }
    }
}

/// The numbers under which names are locked, in an order that all transactions share.
pub(crate) fn reservations<'n>(
    schema: &str,
    kind: &str,
    names: impl IntoIterator<Item = &'n String>,
) -> Vec<i64> {
    let mut numbers: Vec<i64> = names.into_iter().map(|name| lock_number(schema, kind, name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

pub(crate) fn timer_columns(timers: &[(i64, u64, Option<u64>)]) -> (Vec<i64>, Vec<i64>, Vec<Option<i64>>) {
    let keys = timers.iter().map(|(key, _, _)| *key).collect();
    let executions = timers.iter().map(|(_, execution, _)| to_column(*execution)).collect();
    let schedules = timers.iter().map(|(_, _, schedule)| schedule.map(to_column)).collect();
    (keys, executions, schedules)
}
