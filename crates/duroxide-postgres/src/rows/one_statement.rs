//! The statements that write what a group changed of one instance: one for each set of parts that a group may
//! have. See [`crate::rows::write_one`] for their parameters.

use std::sync::OnceLock;

/// The columns of `queues` that change, but for the route.
const QUEUE_COLUMNS: [&str; 16] = [
    "ended",
    "updated_at",
    "current_execution_id",
    "pinned_key",
    "has_kv",
    "inbox_count",
    "next_position",
    "not_before",
    "ready_at",
    "suspect",
    "suspect_before",
    "lock_nonce",
    "lock_visible_at",
    "lock_position",
    "lock_watermark",
    "lock_count",
];

/// The columns of `executions` that change, but for output and failure.
const EXECUTION_COLUMNS: [&str; 8] = [
    "status",
    "completed_at",
    "pinned_major",
    "pinned_minor",
    "pinned_patch",
    "event_count",
    "last_event_id",
    "history_bytes",
];

const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// An instance that begins. Nothing is written if its id is in use: see `reserve_id` of the schema. The third
/// parameter says whether this is the whole transaction.
pub(crate) const BEGIN_INSTANCE: &str = "WITH f AS MATERIALIZED (SELECT {s}.reserve_id($1, $2) AS free), \
     i AS (INSERT INTO {s}.instances (key, instance_id, incarnation, name, version, parent_instance, \
         parent_execution_id, parent_event_id, created_at, status, first_input) \
       SELECT $4::bigint, $2, $5::bigint, $6::text, $7::text, $8::text, $9::bigint, $10::bigint, $11::bigint, 1, \
         $47::bigint FROM f WHERE f.free), \
     q AS (INSERT INTO {s}.queues (key, revision, ended, updated_at, current_execution_id, pinned_key, has_kv, \
         inbox_count, next_position, not_before, ready_at, suspect, suspect_before, lock_nonce, lock_visible_at, \
         lock_position, lock_watermark, lock_count, route_name, route_version) \
       SELECT $4, 0, $12::boolean, $13::bigint, $14::bigint, $15::bigint, $16::boolean, $17::bigint, $18::bigint, \
         $19::bigint, $20::bigint, $21::boolean, $22::boolean, $23::bigint, $24::bigint, $25::bigint, $26::bigint, \
         $27::bigint, $28::text, $29::text FROM f WHERE f.free), \
     m AS (INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, execution_id, event_id, item) \
       SELECT $4, $30::bigint, $31::bigint, $32::bigint, $33::bigint, $34::bigint, $35::text FROM f WHERE f.free), \
     e AS (INSERT INTO {s}.executions (instance_key, execution_id, started_at, status, completed_at, pinned_major, \
         pinned_minor, pinned_patch, event_count, last_event_id, history_bytes, output, failure) \
       SELECT $4, $36::bigint, $11, $37::bigint, $38::bigint, $39::bigint, $40::bigint, $41::bigint, $42::bigint, \
         $43::bigint, $44::bigint, $45::text, $46::text FROM f WHERE f.free) \
     SELECT CASE WHEN f.free THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
       WHEN $3::boolean THEN NULL ELSE {s}.conflict() END, NULL::bigint FROM f";

/// Events of one turn for which there is a statement.
pub(crate) const MAX_EVENTS: usize = 4;

/// What is written of an instance that exists, beside its row of `queues`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A message, and the work item that it answers.
    Message { gone_work: bool },
    /// A turn: its messages are deleted, and its execution goes on.
    Turn { events: usize, instance: Instance, message: bool, work: bool },
}

/// What a turn changed of the instance itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instance {
    Same,
    Described,
    /// The answer has the custom status, too, so that it is known what a client sees from now on.
    Ended,
}

/// As many as [`Shape::number`] tells apart.
const SHAPES: usize = 2 + 12 * MAX_EVENTS;
static TEXTS: [OnceLock<String>; SHAPES] = [const { OnceLock::new() }; SHAPES];

impl Shape {
    fn number(self) -> usize {
        match self {
            Self::Message { gone_work } => usize::from(gone_work),
            Self::Turn { events, instance, message, work } => {
                let instance = match instance {
                    Instance::Same => 0,
                    Instance::Described => 1,
                    Instance::Ended => 2,
                };
                2 + 12 * (events - 1) + 4 * instance + 2 * usize::from(message) + usize::from(work)
            }
        }
    }

    /// The statement; `None` for more events than there is one for.
    pub(crate) fn text(self) -> Option<&'static str> {
        let text = TEXTS.get(self.number())?;
        Some(text.get_or_init(|| self.write()))
    }

    /// The statement. The row of `queues` is locked first, then a work item: the order in which all transactions
    /// lock. The parts that nothing refers to run last.
    fn write(self) -> String {
        let mut text = Text::default();
        text.queue();
        let (mut gone, mut id, mut custom) = ("", "NULL::bigint", "");
        match self {
            Self::Message { gone_work } => {
                if gone_work {
                    text.gone_work();
                    gone = " AND EXISTS (SELECT 1 FROM g)";
                }
                text.message();
            }
            Self::Turn { events, instance, message, work } => {
                text.turn(events);
                if instance != Instance::Same {
                    text.instance();
                }
                if instance == Instance::Ended {
                    custom = ", c.status, c.version FROM (VALUES (0)) AS one \
                        LEFT JOIN {s}.custom_statuses c ON c.instance_key = $1";
                }
                if message {
                    text.message();
                }
                if work {
                    text.work();
                    id = "(SELECT w.id FROM w)";
                }
            }
        }
        text.sql += &format!(
            " SELECT CASE WHEN EXISTS (SELECT 1 FROM q){gone} THEN {CLOCK} ELSE {{s}}.conflict() END, {id}{custom}"
        );
        text.sql
    }
}

/// A statement as it grows. Its first parameter is the key of the instance.
#[derive(Default)]
struct Text {
    sql: String,
    parameters: usize,
}

impl Text {
    fn next(&mut self) -> String {
        self.parameters += 1;
        format!("${}", self.parameters)
    }

    fn assign(&mut self, columns: &[&str]) -> String {
        let all: Vec<String> = columns.iter().map(|column| format!("{column} = {}", self.next())).collect();
        all.join(", ")
    }

    /// Sets columns where there is something to set.
    fn assign_known(&mut self, columns: &[&str]) -> String {
        let known = |column: &&str| format!("{column} = coalesce({}, {column})", self.next());
        columns.iter().map(known).collect::<Vec<_>>().join(", ")
    }

    fn list(&mut self, count: usize) -> String {
        (0..count).map(|_| self.next()).collect::<Vec<_>>().join(", ")
    }

    fn queue(&mut self) {
        let (key, revision) = (self.next(), self.next());
        let columns = self.assign(&QUEUE_COLUMNS);
        let route = self.assign_known(&["route_name", "route_version"]);
        self.sql += &format!(
            "WITH q AS (UPDATE {{s}}.queues SET revision = revision + 1, {columns}, {route} \
             WHERE key = {key} AND revision = {revision} RETURNING 1)"
        );
    }

    fn gone_work(&mut self) {
        let (id, lock) = (self.next(), self.next());
        self.sql += &format!(
            ", g AS (DELETE FROM {{s}}.work_items WHERE id = {id} AND lock_nonce IS NOT DISTINCT FROM {lock} \
             RETURNING 1)"
        );
    }

    fn message(&mut self) {
        let row = self.list(6);
        self.sql += &format!(
            ", m AS (INSERT INTO {{s}}.inbox (instance_key, visible_at, position, kind, execution_id, event_id, item) \
             VALUES ($1, {row}))"
        );
    }

    fn turn(&mut self, events: usize) {
        let (visible_at, position, watermark) = (self.next(), self.next(), self.next());
        self.sql += &format!(
            ", d AS (DELETE FROM {{s}}.inbox WHERE instance_key = $1 AND position < {watermark} \
             AND (visible_at, position) <= ({visible_at}, {position}))"
        );
        let execution = self.next();
        let columns = self.assign(&EXECUTION_COLUMNS);
        let results = self.assign_known(&["output", "failure"]);
        self.sql += &format!(
            ", e AS (UPDATE {{s}}.executions SET {columns}, {results} \
             WHERE instance_key = $1 AND execution_id = {execution})"
        );
        let rows: Vec<String> = (0..events).map(|_| format!("($1, {execution}, {})", self.list(2))).collect();
        self.sql += &format!(
            ", h AS (INSERT INTO {{s}}.history (instance_key, execution_id, event_id, event) VALUES {})",
            rows.join(", ")
        );
    }

    fn instance(&mut self) {
        let columns = self.assign(&["name", "version", "parent_instance"]);
        let end = self.assign_known(&["status", "ended_at"]);
        self.sql += &format!(", i AS (UPDATE {{s}}.instances SET {columns}, {end} WHERE key = $1)");
    }

    fn work(&mut self) {
        let row = self.list(12);
        self.sql += &format!(
            ", w AS (INSERT INTO {{s}}.work_items (id, instance_id, execution_id, activity_id, name, tag, session_id, \
             visible_at, ready_at, lock_nonce, suspect, attempts, item) VALUES (nextval('{{s}}.work_ids'), {row}) \
             ON CONFLICT (instance_id, execution_id, activity_id) DO NOTHING RETURNING id)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_parts_has_a_statement_of_its_own_and_names_its_parameters_in_order() {
        let mut shapes = vec![Shape::Message { gone_work: false }, Shape::Message { gone_work: true }];
        for events in 1..=MAX_EVENTS {
            for instance in [Instance::Same, Instance::Described, Instance::Ended] {
                for (message, work) in [(false, false), (false, true), (true, false), (true, true)] {
                    shapes.push(Shape::Turn { events, instance, message, work });
                }
            }
        }
        assert_eq!(shapes.len(), SHAPES);
        for (number, shape) in shapes.iter().enumerate() {
            let text = shape.text().expect("there is one");
            assert_eq!(text, shape.write(), "{shape:?} has the text of another");
            assert!(shapes.iter().take(number).all(|other| other.text() != Some(text)), "{shape:?}");
        }
        let last = Shape::Turn { events: 1, instance: Instance::Same, message: false, work: true };
        assert!(last.text().is_some_and(|text| text.contains("$48") && !text.contains("$49")));
    }
}
