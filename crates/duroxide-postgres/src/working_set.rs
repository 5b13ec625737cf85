//! The rows that a group of calls is about: locked and read in one round trip, changed in memory, written in
//! another. Every change of an instance is made by who holds its row of `queues`, so that what was read stays
//! true until the commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio_postgres::Row;

use crate::connection::Conn;
use crate::effects::Effects;
use crate::execution_row::ExecutionRow;
use crate::fault::Fault;
use crate::horizon::WrittenRows;
use crate::instance_row::{InstanceRow, instance_columns};
use crate::memory::{Memory, Recalled};
use crate::pipeline::{Pipeline, values};
use crate::values::{Ms, lock_number, owned_text};
use crate::work::WorkRow;
use crate::writes::Writes;

/// What the calls of a group are about.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Instances by key.
    pub(crate) keys: BTreeSet<i64>,
    /// Instances by id.
    pub(crate) ids: BTreeSet<String>,
    /// Ids that must not begin to exist meanwhile: those of starts, and of messages for nobody.
    pub(crate) reserved: BTreeSet<String>,
    /// How many instances may be created.
    pub(crate) starts: usize,
    /// Keys for them that are known already, the smallest last.
    pub(crate) keys_to_come: Vec<i64>,
    /// Turns that end with an ack: key, execution.
    pub(crate) acks: Vec<(i64, u64)>,
    /// Turns that are given back.
    pub(crate) abandons: Vec<i64>,
    /// Timers that acks remove: key, execution, schedule; all of the execution without a schedule.
    pub(crate) timers: Vec<(i64, u64, Option<u64>)>,
    /// Work items by id.
    pub(crate) work: BTreeSet<i64>,
    /// Work items of activities that acks cancel.
    pub(crate) cancelled: Vec<(String, u64, u64)>,
}

/// What is kept for an instance that does not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Early {
    pub(crate) last: i64,
    pub(crate) count: i64,
    /// When the oldest of it was kept.
    pub(crate) oldest: Ms,
}

/// The rows of a transaction.
pub(crate) struct WorkingSet<'a> {
    /// `None` when the rows were not read but remembered: nothing is locked, and nothing more can be read.
    conn: Option<&'a Conn<'a>>,
    /// The schema, quoted.
    pub(crate) schema: &'a str,
    pub(crate) now: Ms,
    pub(crate) instances: HashMap<i64, InstanceRow>,
    by_id: HashMap<String, i64>,
    pub(crate) reserved: BTreeSet<String>,
    /// Ids that turned out to be unknown although somebody sends events to them.
    pub(crate) early: HashMap<String, Early>,
    /// Ended instances that got messages: how many are kept for them, if any are.
    pub(crate) kept: HashMap<i64, Option<i64>>,
    pub(crate) executions: HashMap<(i64, u64), ExecutionRow>,
    pub(crate) timers: Vec<(i64, i64, i64)>,
    pub(crate) work: BTreeMap<i64, WorkRow>,
    /// The smallest last.
    pub(crate) spare_keys: Vec<i64>,
    /// Whether the call under way has changed something: if it fails then, the whole transaction must.
    pub(crate) begun: bool,
    pub(crate) writes: Writes,
    pub(crate) effects: Effects,
}

const BEGIN: &str = "BEGIN";
/// Locks ids that have no row, in an order that all transactions share.
pub(crate) const RESERVE: &str = "SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) AS n";
const KEYS: &str = "SELECT nextval('{s}.instance_keys') FROM generate_series(1, $1::bigint)";
const LOCK: &str = concat!(
    "SELECT ",
    instance_columns!(),
    " FROM (SELECT DISTINCT k.key FROM (SELECT unnest($1::bigint[]) AS key UNION ALL \
         SELECT o.key FROM unnest($2::text[]) AS u (id) JOIN {s}.instances o ON o.instance_id = ANY (ARRAY[u.id])) k) k \
       JOIN {s}.queues q ON q.key = ANY (ARRAY[k.key]) JOIN {s}.instances i ON i.key = ANY (ARRAY[k.key]) \
       ORDER BY k.key FOR UPDATE OF q"
);
const LOCK_WORK: &str = "SELECT w.id, w.lock_nonce, w.ready_at, w.tag, w.session_id, w.instance_id, w.execution_id, \
     w.activity_id, w.visible_at, w.suspect_before, w.attempts FROM {s}.work_items w \
     WHERE w.id = ANY($1::bigint[]) ORDER BY w.id FOR UPDATE";
const LOCK_CANCELLED: &str = "SELECT w.id, w.lock_nonce, w.ready_at, w.tag, w.session_id, w.instance_id, w.execution_id, \
     w.activity_id, w.visible_at, w.suspect_before, w.attempts \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (i, e, a) \
     JOIN {s}.work_items w ON w.instance_id = ANY (ARRAY[u.i]) AND w.execution_id = u.e AND w.activity_id = u.a \
     ORDER BY w.id + 0 FOR UPDATE OF w";
/// After the locks: whoever waited for them has a later time.
const NOW: &str = "SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
const EXECUTIONS: &str = "SELECT e.instance_key, e.execution_id, e.status, e.completed_at, e.pinned_major, \
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
const TIMERS: &str = "SELECT DISTINCT n.instance_key, n.visible_at, n.position \
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

impl<'a> WorkingSet<'a> {
    /// Begins a transaction and reads all that is wanted, in one round trip.
    pub(crate) async fn begin(conn: &'a Conn<'a>, manual: Option<Ms>, wanted: Wanted) -> Result<Self, Fault> {
        let mut pipeline = Pipeline::default();
        pipeline.add(BEGIN, Vec::new());
        Self::load(conn, manual, wanted, pipeline).await
    }

    /// The rows as they are remembered. No transaction has begun.
    pub(crate) fn recalled(schema: &'a str, recalled: Recalled) -> Self {
        let Recalled { now, instances, executions, work, reserved, keys } = recalled;
        let mut set = Self::empty(None, schema, now);
        set.reserved = reserved;
        set.spare_keys = keys;
        instances.into_iter().for_each(|row| set.know(row));
        set.executions = executions;
        set.work = work;
        set
    }

    fn empty(conn: Option<&'a Conn<'a>>, schema: &'a str, now: Ms) -> Self {
        Self {
            conn,
            schema,
            now,
            instances: HashMap::new(),
            by_id: HashMap::new(),
            reserved: BTreeSet::new(),
            early: HashMap::new(),
            kept: HashMap::new(),
            executions: HashMap::new(),
            timers: Vec::new(),
            work: BTreeMap::new(),
            spare_keys: Vec::new(),
            begun: false,
            writes: Writes::default(),
            effects: Effects { now, ..Effects::default() },
        }
    }

    /// Whether the rows were not read but remembered.
    pub(crate) fn is_remembered(&self) -> bool {
        self.conn.is_none()
    }

    /// Where more can be read.
    pub(crate) fn conn(&self) -> Result<&'a Conn<'a>, Fault> {
        self.conn.ok_or(Fault::NotRemembered)
    }

    /// Adds the executions that are remembered and were not read.
    pub(crate) fn remember_executions(&mut self, memory: &Memory) {
        for row in self.instances.values() {
            if let Some(execution) = memory.execution_of(row) {
                let id = (row.key, row.current_execution_id);
                self.executions.entry(id).or_insert_with(|| execution.clone());
            }
        }
    }

    /// Reads all that is wanted inside a transaction that somebody else began.
    pub(crate) async fn join(conn: &'a Conn<'a>, manual: Option<Ms>, wanted: Wanted) -> Result<Self, Fault> {
        Self::load(conn, manual, wanted, Pipeline::default()).await
    }

    async fn load(
        conn: &'a Conn<'a>,
        manual: Option<Ms>,
        wanted: Wanted,
        mut pipeline: Pipeline,
    ) -> Result<Self, Fault> {
        let places = Places::send(&mut pipeline, conn, manual, &wanted);
        let mut answers = pipeline.run(conn).await?.all()?;
        let mut take = |place: Option<usize>| {
            place.and_then(|place| answers.get_mut(place)).map(std::mem::take).unwrap_or_default()
        };
        let now = take(Some(places.now)).first().map_or(0, |row| row.get(0));
        let mut set = Self::empty(Some(conn), conn.schema(), now);
        set.reserved = wanted.reserved;
        set.spare_keys = take(places.keys).iter().map(|row| row.get(0)).collect();
        // Taken from the end; the first start gets the smallest.
        set.spare_keys.sort_unstable_by(|a, b| b.cmp(a));
        // Those that were given out before come first.
        set.spare_keys.extend(wanted.keys_to_come);
        take(places.instances).iter().for_each(|row| set.know(InstanceRow::from_row(row)));
        for row in take(places.work).iter().chain(&take(places.cancelled)) {
            let work = WorkRow::from_row(row);
            set.work.insert(work.id, work);
        }
        for row in take(places.executions) {
            let (id, execution) = ExecutionRow::from_row(&row)?;
            set.executions.insert(id, execution);
        }
        for row in take(places.first_left).iter().chain(&take(places.first)) {
            set.note_first(row);
        }
        set.timers = take(places.timers).iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        take(places.early).iter().for_each(|row| set.note_early(row));
        Ok(set)
    }

    fn know(&mut self, row: InstanceRow) {
        self.by_id.insert(row.instance.clone(), row.key);
        self.instances.insert(row.key, row);
    }

    /// An instance that is locked or remembered.
    pub(crate) fn known(&self, instance: &str) -> Option<&InstanceRow> {
        self.by_id.get(instance).and_then(|key| self.instances.get(key))
    }

    fn note_first(&mut self, row: &Row) {
        if let Some(instance) = self.instances.get_mut(&row.get(0)) {
            instance.pending.first_stored = Some(row.get(1));
        }
    }

    fn note_early(&mut self, row: &Row) {
        let early = Early { last: row.get(1), count: row.get(2), oldest: row.get(3) };
        self.early.insert(crate::values::from_text(row.get(0)), early);
    }

    /// The key of an instance, which is thereby locked; `None` for an unknown one.
    pub(crate) async fn key_of(&mut self, instance: &str) -> Result<Option<i64>, Fault> {
        if let Some(key) = self.by_id.get(instance) {
            return Ok(Some(*key));
        }
        if self.reserved.contains(instance) {
            return Ok(None);
        }
        self.lock(&[], &[instance]).await?;
        Ok(self.by_id.get(instance).copied())
    }

    /// Locks further instances, those of which nobody knew that they would be needed.
    pub(crate) async fn lock(&mut self, keys: &[i64], ids: &[&str]) -> Result<(), Fault> {
        let ids: Vec<String> = ids.iter().map(|id| owned_text(id)).collect();
        let rows = self.conn()?.query(LOCK, &[&keys, &ids]).await?;
        rows.iter().for_each(|row| self.know(InstanceRow::from_row(row)));
        Ok(())
    }

    /// Reads what an ack of this turn would need, for a call that could not say so before.
    pub(crate) async fn load_turn(
        &mut self,
        key: i64,
        execution_id: u64,
        timers: &[(i64, u64, Option<u64>)],
    ) -> Result<(), Fault> {
        let executions = vec![crate::values::to_column(execution_id)];
        for row in self.conn()?.query(EXECUTIONS, &[&vec![key], &executions]).await? {
            let (id, execution) = ExecutionRow::from_row(&row)?;
            self.executions.insert(id, execution);
        }
        let (keys, executions, schedules) = timer_columns(timers);
        let rows = self.conn()?.query(FIRST_LEFT, &[&vec![key], &keys, &executions, &schedules]).await?;
        rows.iter().for_each(|row| self.note_first(row));
        if !timers.is_empty() {
            let rows = self.conn()?.query(TIMERS, &[&keys, &executions, &schedules]).await?;
            self.timers = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        }
        Ok(())
    }

    /// A new instance.
    pub(crate) fn create(&mut self, row: InstanceRow) {
        self.know(row);
    }

    /// The key for a new instance.
    pub(crate) async fn next_key(&mut self) -> Result<i64, Fault> {
        if let Some(key) = self.spare_keys.pop() {
            return Ok(key);
        }
        let row = self.conn()?.first(KEYS, &[&1_i64]).await?;
        row.map(|row| row.get(0)).ok_or_else(|| Fault::Corrupt("the sequence of keys is empty".to_string()))
    }

    /// When the first message in an inbox is visible, as the inbox will be after this transaction.
    pub(crate) async fn first_message(&mut self, key: i64) -> Result<Option<Ms>, Fault> {
        let known = self.instances.get(&key).and_then(|row| row.pending.first_stored);
        let stored = match known {
            Some(stored) => stored,
            None => {
                let row = self.conn()?.first(FIRST, &[&vec![key]]).await?;
                let stored: Option<Ms> = row.and_then(|row| row.get(1));
                if let Some(instance) = self.instances.get_mut(&key) {
                    instance.pending.first_stored = Some(stored);
                }
                stored
            }
        };
        let added = self.instances.get(&key).and_then(|row| row.pending.first_added);
        Ok(stored.into_iter().chain(added).min())
    }

    /// Looks at the inboxes of acked turns anew: what the prediction was based on has changed.
    pub(crate) fn forget_first(&mut self, key: i64) {
        if let Some(instance) = self.instances.get_mut(&key) {
            instance.pending.first_stored = None;
        }
    }

    /// Reads anew what is kept for an id.
    pub(crate) async fn reload_early(&mut self, instance: &str) -> Result<(), Fault> {
        self.early.remove(instance);
        let rows = self.conn()?.query(EARLY, &[&vec![owned_text(instance)]]).await?;
        rows.iter().for_each(|row| self.note_early(row));
        Ok(())
    }

    /// How the transaction leaves the instances, with their executions where those are known; and the work items
    /// of which it is not said how it leaves them.
    pub(crate) fn as_left(&self) -> (Vec<(InstanceRow, Option<ExecutionRow>)>, Vec<i64>) {
        let left = |row: &InstanceRow| {
            let changed = row.pending.queue && !row.pending.created;
            let execution = self.executions.get(&(row.key, row.current_execution_id)).cloned();
            (
                InstanceRow { revision: row.revision.saturating_add(i64::from(changed)), ..row.clone() },
                execution,
            )
        };
        let gone = self.writes.deleted_work.iter().map(|(id, _)| *id);
        let gone = gone.chain(self.writes.work_changes.keys().copied());
        (self.instances.values().map(left).collect(), gone.collect())
    }

    /// How far back the rows are ready that the transaction writes.
    pub(crate) fn written_rows(&self) -> WrittenRows {
        let mut written = WrittenRows::default();
        for row in self.instances.values().filter(|row| row.pending.queue) {
            written.turn(row.pinned_key, row.suspect, row.ready_at);
        }
        for work in &self.writes.new_work {
            match &work.lock {
                Some(lock) => written.work.include(true, lock.expires_at),
                None => written.work.include(false, self.now),
            }
        }
        for change in self.writes.work_changes.values() {
            written.work.include(change.suspect, change.ready_at);
        }
        written
    }

    /// The instance of a key that was locked.
    pub(crate) fn instance(&mut self, key: i64) -> Result<&mut InstanceRow, Fault> {
        self.instances
            .get_mut(&key)
            .ok_or_else(|| Fault::Corrupt("an instance was changed that is not locked".to_string()))
    }
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
    fn send(pipeline: &mut Pipeline, conn: &Conn<'_>, manual: Option<Ms>, wanted: &Wanted) -> Self {
        let mut places = Self::default();
        if !wanted.reserved.is_empty() {
            pipeline.add(RESERVE, values![reservations(conn.schema(), "instance", &wanted.reserved)]);
        }
        if wanted.starts > wanted.keys_to_come.len() {
            // A few more than are needed spare later starts this round trip.
            let keys = wanted.starts.saturating_add(wanted.starts.saturating_mul(4).clamp(64, 1_024));
            places.keys = Some(pipeline.add(KEYS, values![crate::values::count(keys)]));
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
            let executions: Vec<i64> = wanted
                .cancelled
                .iter()
                .map(|(_, execution, _)| crate::values::to_column(*execution))
                .collect();
            let activities: Vec<i64> =
                wanted.cancelled.iter().map(|(_, _, id)| crate::values::to_column(*id)).collect();
            places.cancelled = Some(pipeline.add(LOCK_CANCELLED, values![instances, executions, activities]));
        }
        places.now = pipeline.add(NOW, values![manual]);
        places.send_reads(pipeline, wanted);
        places
    }

    fn send_reads(&mut self, pipeline: &mut Pipeline, wanted: &Wanted) {
        let column = crate::values::to_column;
        if !wanted.acks.is_empty() {
            let keys: Vec<i64> = wanted.acks.iter().map(|(key, _)| *key).collect();
            let executions: Vec<i64> = wanted.acks.iter().map(|(_, execution)| column(*execution)).collect();
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
    let column = crate::values::to_column;
    let keys = timers.iter().map(|(key, _, _)| *key).collect();
    let executions = timers.iter().map(|(_, execution, _)| column(*execution)).collect();
    let schedules = timers.iter().map(|(_, _, schedule)| schedule.map(column)).collect();
    (keys, executions, schedules)
}
