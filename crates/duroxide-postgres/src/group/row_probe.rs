//! Which rows other transactions have locked: asked without waiting for any of them.

use std::collections::{BTreeSet, HashMap};

use duroxide_provider::rules::{Call, Wanted};

use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::values::{from_column, from_text, lock_number, owned_text, to_column};

const BEGIN: &str = "BEGIN";
const ROLLBACK: &str = "ROLLBACK";

const NAMES: &str = "SELECT i.key, i.instance_id FROM {s}.instances i WHERE i.key = ANY($1::bigint[]) \
     UNION SELECT i.key, i.instance_id FROM {s}.instances i WHERE i.instance_id = ANY($2::text[])";

/// The instances of whose rows in a table not all are free. A row that was changed since the statement began
/// counts as locked, which costs a probe.
macro_rules! locked_rows {
    ($table:literal, $key:literal, $condition:literal) => {
        concat!(
            "WITH free AS MATERIALIZED (SELECT t.ctid AS place FROM {s}.",
            $table,
            " t WHERE t.",
            $key,
            " = ANY($1::bigint[])",
            $condition,
            " FOR UPDATE OF t SKIP LOCKED) SELECT DISTINCT t.",
            $key,
            " FROM {s}.",
            $table,
            " t WHERE t.",
            $key,
            " = ANY($1::bigint[])",
            $condition,
            " AND NOT EXISTS (SELECT 1 FROM free WHERE free.place = t.ctid)"
        )
    };
}

/// The tables in which calls change rows of an instance. Messages and events are not among them: they are too many,
/// and everybody who changes them holds the row of `queues`.
const LOCKED: [&str; 5] = [
    locked_rows!("queues", "key", ""),
    locked_rows!("instances", "key", ""),
    locked_rows!(
        "executions",
        "instance_key",
        " AND t.execution_id = (SELECT q.current_execution_id FROM {s}.queues q WHERE q.key = t.instance_key)"
    ),
    locked_rows!("custom_statuses", "instance_key", ""),
    locked_rows!("kv", "instance_key", ""),
];
const LOCKED_WORK: &str = locked_rows!("work_items", "id", "");
const LOCKED_ACTIVITIES: &str = "WITH a AS MATERIALIZED (SELECT w.id, w.instance_id, w.execution_id, w.activity_id \
       FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (i, e, a) \
       JOIN {s}.work_items w ON w.instance_id = ANY (ARRAY[u.i]) AND w.execution_id = u.e AND w.activity_id = u.a), \
     free AS MATERIALIZED (SELECT w.id FROM a JOIN {s}.work_items w ON w.id = ANY (ARRAY[a.id]) FOR UPDATE OF w SKIP LOCKED) \
     SELECT a.instance_id, a.execution_id, a.activity_id FROM a \
     WHERE NOT EXISTS (SELECT 1 FROM free WHERE free.id = a.id)";
const LOCKED_IDS: &str = "SELECT u.id FROM unnest($1::bigint[], $2::text[]) AS u (n, id) \
     WHERE NOT pg_try_advisory_xact_lock(u.n)";

/// An activity's work item: instance, execution, schedule.
type Activity = (String, u64, u64);

/// What calls lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    keys: BTreeSet<i64>,
    ids: BTreeSet<String>,
    work: BTreeSet<i64>,
    activities: BTreeSet<Activity>,
}

/// The rows among those asked for that other transactions have locked.
#[derive(Debug, Default)]
pub(crate) struct LockedRows {
    pub(crate) rows: Rows,
    /// The instances among those asked for, by key and by id.
    names: HashMap<i64, String>,
    keys: HashMap<String, i64>,
}

impl Rows {
    pub(crate) fn of(work: &Call) -> Self {
        let mut wanted = Wanted::default();
        work.wants(&mut wanted);
        let ids = wanted.ids.into_iter().chain(wanted.reserved).collect();
        Self { keys: wanted.keys, ids, work: wanted.work, activities: wanted.cancelled.into_iter().collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ids.is_empty() && self.work.is_empty() && self.activities.is_empty()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.keys.extend(&other.keys);
        self.ids.extend(other.ids.iter().cloned());
        self.work.extend(&other.work);
        self.activities.extend(other.activities.iter().cloned());
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        !self.keys.is_disjoint(&other.keys)
            || !self.ids.is_disjoint(&other.ids)
            || !self.work.is_disjoint(&other.work)
            || !self.activities.is_disjoint(&other.activities)
    }

    /// Adds the ids of instances that are named by key, and the keys of those that are named by id.
    pub(crate) fn name(&mut self, known: &LockedRows) {
        let ids: Vec<String> = self.keys.iter().filter_map(|key| known.names.get(key).cloned()).collect();
        self.keys.extend(self.ids.iter().filter_map(|id| known.keys.get(id)));
        self.ids.extend(ids);
    }

    /// Asks which of these other transactions have locked.
    pub(crate) async fn probe(&self, conn: &Conn<'_>) -> Result<LockedRows, Fault> {
        let mut locked = LockedRows::default();
        let keys: Vec<i64> = self.keys.iter().copied().collect();
        let ids: Vec<String> = self.ids.iter().map(|id| owned_text(id)).collect();
        for row in conn.query(NAMES, &[&keys, &ids]).await? {
            let (key, id): (i64, String) = (row.get(0), from_text(row.get(1)));
            locked.keys.insert(id.clone(), key);
            locked.names.insert(key, id);
        }
        let mut pipeline = Pipeline::default();
        pipeline.add(BEGIN, Vec::new());
        let keys: Vec<i64> = keys.into_iter().chain(locked.names.keys().copied()).collect();
        let tables: Vec<usize> = LOCKED.iter().map(|sql| pipeline.add(sql, values![keys.clone()])).collect();
        let work: Vec<i64> = self.work.iter().copied().collect();
        let work = pipeline.add(LOCKED_WORK, values![work]);
        let numbers: Vec<i64> =
            self.ids.iter().map(|id| lock_number(conn.schema(), "instance", id)).collect();
        let reserved = pipeline.add(LOCKED_IDS, values![numbers, ids]);
        let activities = self.add_activities(&mut pipeline);
        pipeline.add(ROLLBACK, Vec::new());
        let answers = pipeline.run(conn).await?.all()?;
        let rows = |place: usize| answers.get(place).into_iter().flatten();
        locked.rows = Self {
            keys: tables.into_iter().flat_map(rows).map(|row| row.get(0)).collect(),
            ids: rows(reserved).map(|row| from_text(row.get(0))).collect(),
            work: rows(work).map(|row| row.get(0)).collect(),
            activities: rows(activities)
                .map(|row| (from_text(row.get(0)), from_column(row.get(1)), from_column(row.get(2))))
                .collect(),
        };
        Ok(locked)
    }

    fn add_activities(&self, pipeline: &mut Pipeline) -> usize {
        let all = || self.activities.iter();
        let instances: Vec<String> = all().map(|(instance, _, _)| owned_text(instance)).collect();
        let executions: Vec<i64> = all().map(|(_, execution, _)| to_column(*execution)).collect();
        let ids: Vec<i64> = all().map(|(_, _, id)| to_column(*id)).collect();
        pipeline.add(LOCKED_ACTIVITIES, values![instances, executions, ids])
    }
}

impl LockedRows {
    /// Whether one of these is locked.
    pub(crate) fn blocks(&self, needs: &Rows) -> bool {
        self.rows.overlaps(needs)
    }
}
