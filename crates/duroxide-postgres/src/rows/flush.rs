//! Writing what a working set changed: what is seldom changed, each kind of row by a statement of its own. What leaves an
//! inbox is written before what comes into it.

use std::collections::{BTreeMap, BTreeSet};

use duroxide_core::ItemKind;
use duroxide_provider::rules::{KeptItem, KeptMessage, Place};
use tokio_postgres::Row;

use crate::connections::pipeline::{Pipeline, values};
use crate::rows::working_set::{RESERVE, WorkingSet, early_cutoff, reservations, timer_columns};
use crate::rows::write_group::{Written, column};
use crate::upkeep::clock_steps::DELAYED;
use crate::values::{Ms, owned_text, to_column};

pub(crate) const EXPIRE_EARLY: &str = "DELETE FROM {s}.early_messages WHERE kept_at < $1 RETURNING 1";
const EARLY: &str = "INSERT INTO {s}.early_messages (instance_id, position, visible_at, kept_at, item) \
     SELECT u.i, u.p, u.v, $4::bigint, u.item \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $5::text[]) AS u (i, p, v, item)";
/// Only events are kept, and none is admitted before the start. One that was not delayed when it was kept comes with the
/// start, in its order.
const ADMIT_EARLY: &str = "INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, item, delayed) \
     SELECT u.key, CASE WHEN m.visible_at > m.kept_at THEN greatest(m.visible_at, u.start_at) ELSE u.start_at END, \
       u.first - 1 + row_number() OVER (PARTITION BY u.key ORDER BY m.position), 6, m.item, \
       CASE WHEN m.visible_at > m.kept_at OR u.start_at > $5::bigint THEN TRUE END \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (id, key, start_at, first) \
     JOIN {s}.early_messages m ON m.instance_id = ANY (ARRAY[u.id])";
const FORGET_EARLY: &str = "DELETE FROM {s}.early_messages WHERE instance_id = ANY($1::text[])";
/// Those that the transaction itself brings, and those that stand in an inbox.
const KEEP: &str = "INSERT INTO {s}.kept_messages (instance_key, position, item) \
     SELECT u.key, u.o, coalesce(u.item, (SELECT n.item FROM {s}.inbox n \
       WHERE n.instance_key = u.key AND n.visible_at = u.v AND n.position = u.p)) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS u (key, o, v, p, item)";
const FORGET_KEPT: &str = "DELETE FROM {s}.kept_messages WHERE instance_key = ANY($1::bigint[])";
const RUN_AGAIN: &str = "UPDATE {s}.instances SET status = 1, ended_at = NULL WHERE key = ANY($1::bigint[])";
const ENDED_ATTEMPTS: &str = "UPDATE {s}.inbox n SET attempts = least(n.attempts, 4294967294) + 1 \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (key, v, p, w) \
     WHERE n.instance_key = ANY (ARRAY[u.key]) AND (n.visible_at, n.position) <= (u.v, u.p) AND n.position < u.w";
const ASIDE_MESSAGES: &str = "WITH gone AS (DELETE FROM {s}.inbox n \
       USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) WITH ORDINALITY AS u (key, v, p, cause, o) \
       WHERE n.instance_key = ANY (ARRAY[u.key]) AND n.visible_at = u.v AND n.position = u.p \
       RETURNING u.o, u.cause, n.instance_key, n.kind, n.execution_id, n.event_id, n.item) \
     INSERT INTO {s}.set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
     SELECT i.instance_id, g.kind, g.execution_id, g.event_id, $5::bigint, g.cause, g.item \
     FROM gone g JOIN {s}.instances i ON i.key = ANY (ARRAY[g.instance_key]) ORDER BY g.o";
const ASIDE_WORK: &str = "INSERT INTO {s}.set_aside (instance_id, kind, execution_id, event_id, set_aside_at, cause, item) \
     SELECT w.instance_id, $3::bigint, w.execution_id, w.activity_id, $4::bigint, u.cause, w.item \
     FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS u (id, cause, o) \
     JOIN {s}.work_items w ON w.id = ANY (ARRAY[u.id]) ORDER BY u.o";
const DELETE_COVERED: &str = "DELETE FROM {s}.inbox n \
     USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (key, v, p, w) \
     WHERE n.instance_key = ANY (ARRAY[u.key]) AND (n.visible_at, n.position) <= (u.v, u.p) AND n.position < u.w";
const PULL_BACK: &str = "UPDATE {s}.inbox n SET visible_at = u.now \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (key, now, until) \
     WHERE n.instance_key = ANY (ARRAY[u.key]) AND n.kind <> 5 AND n.visible_at > u.now AND n.visible_at <= u.until \
     AND n.delayed IS NOT TRUE";
/// The lock on the row of `queues` keeps the rows where they are found.
const DELETE_TIMERS: &str = "DELETE FROM {s}.inbox WHERE ctid = ANY (ARRAY( \
       SELECT x.place FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (key, e, s) \
       CROSS JOIN LATERAL (SELECT n.ctid AS place FROM {s}.inbox n WHERE n.kind = 5 AND n.instance_key = u.key \
         AND n.execution_id = u.e AND (u.s IS NULL OR n.event_id = u.s) OFFSET 0) x))";
const EMPTY_INBOX: &str = "DELETE FROM {s}.inbox WHERE instance_key = ANY($1::bigint[])";
const CANCELS: &str = "UPDATE {s}.queues q SET cancelled = EXISTS \
       (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind = 7) WHERE q.key = ANY($1::bigint[])";
const NEXT_EXECUTIONS: &str = "INSERT INTO {s}.executions (instance_key, execution_id, status, started_at, event_count, \
     last_event_id, history_bytes) SELECT u.key, u.id, 1, $3::bigint, 0, 0, 0 \
     FROM unnest($1::bigint[], $2::bigint[]) AS u (key, id) ON CONFLICT DO NOTHING";
const CUSTOM_STATUSES: &str = "INSERT INTO {s}.custom_statuses AS c (instance_key, version, status) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) \
     ON CONFLICT (instance_key) DO UPDATE SET version = c.version + excluded.version, status = excluded.status";
const CLEAR_KV: &str = "DELETE FROM {s}.kv WHERE instance_key = ANY($1::bigint[])";
const DELETE_KV: &str = "DELETE FROM {s}.kv k USING unnest($1::bigint[], $2::text[]) AS u (i, k) \
     WHERE k.instance_key = ANY (ARRAY[u.i]) AND k.key = u.k";
const SET_KV: &str = "INSERT INTO {s}.kv (instance_key, key, last_updated_at_ms, value) \
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) \
     ON CONFLICT (instance_key, key) DO UPDATE SET last_updated_at_ms = excluded.last_updated_at_ms, \
       value = excluded.value";
const CHANGE_WORK: &str = "UPDATE {s}.work_items w SET lock_nonce = u.nonce, visible_at = u.v, ready_at = u.r, \
     suspect = u.s, suspect_before = u.b, attempts = u.a, \
     waiting_since = CASE WHEN u.delayed THEN coalesce(w.waiting_since, w.visible_at) ELSE w.waiting_since END, \
     bounced_at = CASE WHEN u.cause IS NULL THEN w.bounced_at ELSE $10::bigint END, \
     bounce = coalesce(u.cause, w.bounce) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::boolean[], \
       $7::bigint[], $8::boolean[], $9::text[]) AS u (id, nonce, v, r, s, b, a, delayed, cause) WHERE w.id = ANY (ARRAY[u.id])";
const BOUNCES: &str = "UPDATE {s}.queues q SET bounce = u.cause, \
     bounced_at = CASE WHEN u.cause IS NULL THEN NULL ELSE $3::bigint END \
     FROM unnest($1::bigint[], $2::text[]) AS u (key, cause) WHERE q.key = ANY (ARRAY[u.key])";
const PROGRESS: &str = "UPDATE {s}.work_items w SET progress = u.text \
     FROM unnest($1::bigint[], $2::text[]) AS u (id, text) WHERE w.id = ANY (ARRAY[u.id])";
const FORGIVE: &str = "UPDATE {s}.work_items w SET forgiven = least(w.forgiven, 4294967294) + 1 \
     WHERE w.id = ANY($1::bigint[])";
const USE_SESSIONS: &str = "UPDATE {s}.sessions s SET last_activity_at = $3::bigint, \
     locked_until = greatest(s.locked_until, u.until) \
     FROM unnest($1::text[], $2::bigint[]) AS u (id, until) WHERE s.session_id = ANY (ARRAY[u.id])";
const FORGET_HEADS: &str = "DELETE FROM {s}.session_heads h USING unnest($1::text[], $2::text[]) AS u (session, tag) \
     WHERE h.session_id = ANY (ARRAY[u.session]) AND h.tag = ANY (ARRAY[u.tag])";
const FIND_HEADS: &str = "INSERT INTO {s}.session_heads (session_id, tag, suspect, ready_at, work_id) \
     SELECT u.session, u.tag, k.suspect, f.ready_at, f.id \
     FROM unnest($1::text[], $2::text[]) AS u (session, tag) \
     CROSS JOIN (VALUES (FALSE), (TRUE)) AS k (suspect) \
     CROSS JOIN LATERAL (SELECT w.ready_at, w.id FROM {s}.work_items w \
       WHERE w.session_id = u.session AND w.tag = u.tag AND w.suspect = k.suspect \
       ORDER BY w.ready_at, w.id LIMIT 1) f";

/// Where answers of a flush stand.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// What [`WorkingSet::write_group`] answers.
    pub(crate) written: Option<Written>,
    /// A row for each early message that expired.
    pub(crate) expired: Option<usize>,
}

impl Flushed {
    /// How many early messages expired.
    pub(crate) fn expired(&self, answers: &[Vec<Row>]) -> u64 {
        let rows = self.expired.and_then(|place| answers.get(place));
        rows.map_or(0, |rows| u64::try_from(rows.len()).unwrap_or(u64::MAX))
    }
}

impl WorkingSet<'_> {
    /// Adds the statements that write all changes.
    pub(crate) fn flush(&self, pipeline: &mut Pipeline) -> Flushed {
        self.flush_kept(pipeline);
        self.flush_removed(pipeline);
        self.flush_pulled_back(pipeline);
        let written = self.write_group(pipeline);
        self.flush_times(pipeline);
        self.flush_cancels(pipeline);
        self.flush_bounces(pipeline);
        self.flush_next_executions(pipeline);
        self.flush_state(pipeline);
        self.flush_work(pipeline);
        self.flush_sessions(pipeline);
        let expired = self.flush_early(pipeline);
        Flushed { written, expired }
    }

    /// Whether something is written before the rows of `queues`, which whoever has not read them locks by writing
    /// them; or something that is not known unless it was read.
    pub(crate) fn takes_reading(&self) -> bool {
        let changes = self.rows.changes();
        !(changes.kept.is_empty()
            && changes.redriven.is_empty()
            && changes.ended_attempts.is_empty()
            && changes.aside_messages.is_empty()
            && changes.emptied.is_empty()
            && changes.pulled_back.is_empty()
            && changes.aside_work.is_empty()
            && changes.early.is_empty()
            && changes.admitted_early.is_empty())
    }

    fn flush_kept(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        if !changes.kept.is_empty() {
            let rows = &changes.kept;
            let place = |row: &KeptMessage| match &row.item {
                KeptItem::Stored { visible_at, position } => (Some(*visible_at), Some(*position)),
                KeptItem::New(_) => (None, None),
            };
            let json = |row: &KeptMessage| match &row.item {
                KeptItem::New(json) => Some(json.clone()),
                KeptItem::Stored { .. } => None,
            };
            pipeline.add(
                KEEP,
                values![
                    column!(rows, row => row.key),
                    column!(rows, row => row.order),
                    column!(rows, row => place(row).0),
                    column!(rows, row => place(row).1),
                    column!(rows, row => json(row)),
                ],
            );
        }
        if !changes.redriven.is_empty() {
            pipeline.add(FORGET_KEPT, values![changes.redriven.clone()]);
            pipeline.add(RUN_AGAIN, values![changes.redriven.clone()]);
        }
    }

    fn flush_removed(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        if !changes.ended_attempts.is_empty() {
            let rows = &changes.ended_attempts;
            pipeline.add(
                ENDED_ATTEMPTS,
                values![
                    column!(rows, (key, _) => *key),
                    column!(rows, (_, lock) => lock.visible_at),
                    column!(rows, (_, lock) => lock.position),
                    column!(rows, (_, lock) => lock.watermark),
                ],
            );
        }
        if !changes.aside_messages.is_empty() {
            let rows = &changes.aside_messages;
            pipeline.add(
                ASIDE_MESSAGES,
                values![
                    column!(rows, row => row.key),
                    column!(rows, row => row.visible_at),
                    column!(rows, row => row.position),
                    column!(rows, row => row.cause.clone()),
                    self.rows.now(),
                ],
            );
        }
        if !changes.aside_work.is_empty() {
            let rows = &changes.aside_work;
            let causes = column!(rows, (_, cause) => cause.clone());
            let kind = ItemKind::Activity.code();
            let ids = column!(rows, (id, _) => *id);
            pipeline.add(ASIDE_WORK, values![ids, causes, kind, self.rows.now()]);
        }
        // With rows that are remembered, every timer that a turn drops is among the messages that its lock covers.
        if !changes.timers.is_empty() && !self.is_remembered {
            let (keys, executions, schedules) = timer_columns(&changes.timers);
            pipeline.add(DELETE_TIMERS, values![keys, executions, schedules]);
        }
        if !changes.emptied.is_empty() {
            pipeline.add(EMPTY_INBOX, values![changes.emptied.clone()]);
        }
    }

    /// Between what locks cover, which is found by the times of messages, and what comes into the inbox.
    fn flush_pulled_back(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        let rows = &changes.pulled_back;
        if rows.is_empty() {
            return;
        }
        let covered = &changes.covered;
        pipeline.add(
            DELETE_COVERED,
            values![
                column!(covered, (key, _) => *key),
                column!(covered, (_, lock) => lock.visible_at),
                column!(covered, (_, lock) => lock.position),
                column!(covered, (_, lock) => lock.watermark),
            ],
        );
        let until = column!(rows, row => row.until);
        pipeline.add(PULL_BACK, values![column!(rows, row => row.key), column!(rows, row => row.now), until]);
    }

    /// After the inboxes are written: marks messages that are delayed.
    fn flush_times(&self, pipeline: &mut Pipeline) {
        let rows: Vec<_> = self.rows.changes().inbox.iter().filter(|row| row.delayed).collect();
        if !rows.is_empty() {
            let keys = column!(rows, row => row.key);
            pipeline.add(
                DELAYED,
                values![keys, column!(rows, row => row.visible_at), column!(rows, row => row.position)],
            );
        }
    }

    /// After the inboxes are written.
    fn flush_cancels(&self, pipeline: &mut Pipeline) {
        let changed = self.rows.instances().filter(|row| row.pending.cancels);
        let changed: Vec<i64> = changed.map(|row| row.key).collect();
        if !changed.is_empty() {
            pipeline.add(CANCELS, values![changed]);
        }
    }

    /// After the rows of `queues` are written, and with their new revisions.
    fn flush_bounces(&self, pipeline: &mut Pipeline) {
        let rows = &self.rows.changes().bounces;
        if !rows.is_empty() {
            let causes = column!(rows, (_, cause) => cause.clone());
            pipeline.add(BOUNCES, values![column!(rows, (key, _) => *key), causes, self.rows.now()]);
        }
    }

    fn flush_next_executions(&self, pipeline: &mut Pipeline) {
        let rows = &self.rows.changes().next_executions;
        if !rows.is_empty() {
            let ids = column!(rows, (_, id) => to_column(*id));
            pipeline.add(NEXT_EXECUTIONS, values![column!(rows, (key, _) => *key), ids, self.rows.now()]);
        }
    }

    fn flush_state(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        if !changes.custom_statuses.is_empty() {
            let rows = &changes.custom_statuses;
            pipeline.add(
                CUSTOM_STATUSES,
                values![
                    column!(rows, (key, _, _) => *key),
                    column!(rows, (_, times, _) => to_column(*times)),
                    column!(rows, (_, _, status) => status.as_deref().map(owned_text)),
                ],
            );
        }
        let kv = &changes.kv;
        if !kv.cleared.is_empty() {
            pipeline.add(CLEAR_KV, values![column!(kv.cleared, key => *key)]);
        }
        let gone: Vec<_> = kv.values.iter().filter(|(_, value)| value.is_none()).collect();
        if !gone.is_empty() {
            let names = column!(gone, ((_, name), _) => owned_text(name));
            pipeline.add(DELETE_KV, values![column!(gone, ((key, _), _) => *key), names]);
        }
        let set: Vec<_> =
            kv.values.iter().filter_map(|(id, value)| value.as_ref().map(|value| (id, value))).collect();
        if !set.is_empty() {
            pipeline.add(
                SET_KV,
                values![
                    column!(set, ((key, _), _) => *key),
                    column!(set, ((_, name), _) => owned_text(name)),
                    column!(set, (_, (_, at)) => to_column(*at)),
                    column!(set, (_, (value, _)) => owned_text(value)),
                ],
            );
        }
    }

    fn flush_work(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        if !changes.work.is_empty() {
            let rows = &changes.work;
            pipeline.add(
                CHANGE_WORK,
                values![
                    column!(rows, (id, _) => *id),
                    column!(rows, (_, row) => row.nonce),
                    column!(rows, (_, row) => row.visible_at),
                    column!(rows, (_, row) => row.ready_at),
                    column!(rows, (_, row) => row.suspect),
                    column!(rows, (_, row) => row.suspect_before),
                    column!(rows, (_, row) => row.attempts),
                    column!(rows, (_, row) => row.delayed),
                    column!(rows, (_, row) => row.cause.clone()),
                    self.rows.now(),
                ],
            );
        }
        if !changes.progress.is_empty() {
            let rows = &changes.progress;
            let texts = column!(rows, (_, text) => owned_text(text));
            pipeline.add(PROGRESS, values![column!(rows, (id, _) => *id), texts]);
        }
        if !changes.forgiven.is_empty() {
            pipeline.add(FORGIVE, values![changes.forgiven.clone()]);
        }
    }

    fn flush_sessions(&self, pipeline: &mut Pipeline) {
        let changes = self.rows.changes();
        let session = |place: &Place| Some((place.session_id.clone()?, place.tag.clone()));
        let touched: BTreeSet<(String, String)> = changes.touched.iter().filter_map(session).collect();
        if !touched.is_empty() {
            let names: BTreeSet<&String> = touched.iter().map(|(session, _)| session).collect();
            pipeline.add(RESERVE, values![reservations(self.schema, "session", names)]);
            refresh_heads(pipeline, touched.iter());
        }
        if !changes.session_uses.is_empty() {
            let mut until: BTreeMap<&String, Ms> = BTreeMap::new();
            for used in &changes.session_uses {
                let latest = until.entry(&used.session_id).or_insert(used.item_locked_until);
                *latest = (*latest).max(used.item_locked_until);
            }
            let sessions = column!(until, (id, _) => owned_text(id));
            let until = column!(until, (_, until) => *until);
            pipeline.add(USE_SESSIONS, values![sessions, until, self.rows.now()]);
        }
    }

    fn flush_early(&self, pipeline: &mut Pipeline) -> Option<usize> {
        let (changes, now) = (self.rows.changes(), self.rows.now());
        let mut expired = None;
        if changes.expire_early {
            expired = Some(pipeline.add(EXPIRE_EARLY, values![early_cutoff(now)]));
        }
        if !changes.early.is_empty() {
            let rows = &changes.early;
            pipeline.add(
                EARLY,
                values![
                    column!(rows, row => owned_text(&row.instance)),
                    column!(rows, row => row.position),
                    column!(rows, row => row.visible_at),
                    now,
                    column!(rows, row => row.json.clone()),
                ],
            );
        }
        if !changes.admitted_early.is_empty() {
            let rows = &changes.admitted_early;
            let ids = column!(rows, row => owned_text(&row.instance));
            pipeline.add(
                ADMIT_EARLY,
                values![
                    ids.clone(),
                    column!(rows, row => row.key),
                    column!(rows, row => row.start_at),
                    column!(rows, row => row.first_position),
                    self.rows.now(),
                ],
            );
            pipeline.add(FORGET_EARLY, values![ids]);
        }
        expired
    }
}

/// Finds the first work item of these sessions and tags anew. Their advisory locks must be held.
pub(crate) fn refresh_heads<'p>(
    pipeline: &mut Pipeline,
    touched: impl Iterator<Item = &'p (String, String)> + Clone,
) {
    let sessions: Vec<String> = touched.clone().map(|(session, _)| owned_text(session)).collect();
    let tags: Vec<String> = touched.map(|(_, tag)| owned_text(tag)).collect();
    pipeline.add(FORGET_HEADS, values![sessions.clone(), tags.clone()]);
    pipeline.add(FIND_HEADS, values![sessions, tags]);
}
