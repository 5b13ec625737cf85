//! Writing what a working set changed: what is seldom changed, each kind of row by a statement of its own.

use std::collections::BTreeMap;

use crate::clock_steps::{DELAYED, PULL_BACK};
use crate::pipeline::{Pipeline, values};
use crate::values::{Ms, owned_text, to_column, to_text};

use crate::working_set::{RESERVE, WorkingSet, reservations, timer_columns};
use crate::write_group::{Written, column};
use crate::writes::Writes;

const EXPIRE_EARLY: &str = "DELETE FROM {s}.early_messages WHERE kept_at < $1 RETURNING 1";
const EARLY: &str = "INSERT INTO {s}.early_messages (instance_id, position, visible_at, kept_at, item) \
     SELECT u.i, u.p, u.v, $4::bigint, u.item \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $5::text[]) AS u (i, p, v, item)";
/// Only events are kept, and none is admitted before the start, which has position 1.
///
/// One that was not delayed when it was kept comes with the start, in its order.
const ADMIT_EARLY: &str = "INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, item, delayed) \
     SELECT u.key, CASE WHEN m.visible_at > m.kept_at THEN greatest(m.visible_at, u.start_at) ELSE u.start_at END, \
       1 + row_number() OVER (PARTITION BY u.key ORDER BY m.position), 6, m.item, \
       CASE WHEN m.visible_at > m.kept_at OR u.start_at > $4::bigint THEN TRUE END \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (id, key, start_at) \
     JOIN {s}.early_messages m ON m.instance_id = ANY (ARRAY[u.id])";
const FORGET_EARLY: &str = "DELETE FROM {s}.early_messages WHERE instance_id = ANY($1::text[])";
const KEEP: &str = "INSERT INTO {s}.kept_messages (instance_key, position, item) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])";
const FORGET_KEPT: &str = "DELETE FROM {s}.kept_messages WHERE instance_key = ANY($1::bigint[])";
const RUN_AGAIN: &str = "UPDATE {s}.instances SET status = 1, ended_at = NULL WHERE key = ANY($1::bigint[])";
const ENDED_ATTEMPTS: &str = "UPDATE {s}.inbox n SET attempts = least(n.attempts, 4294967294) + 1 \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (key, v, p, w) \
     WHERE n.instance_key = ANY (ARRAY[u.key]) AND (n.visible_at, n.position) <= (u.v, u.p) AND n.position < u.w";
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

impl WorkingSet<'_> {
    /// Adds the statements that write all changes.
    pub(crate) fn flush(&mut self, pipeline: &mut Pipeline) -> Flushed {
        let expired = self.flush_early(pipeline);
        self.flush_removed(pipeline);
        let written = self.write_group(pipeline);
        self.flush_times(pipeline);
        self.flush_cancels(pipeline);
        self.flush_bounces(pipeline);
        self.flush_next_executions(pipeline);
        self.flush_state(pipeline);
        self.flush_work(pipeline);
        let writes = &self.writes;
        if !writes.touched.is_empty() {
            let sessions: std::collections::BTreeSet<&String> =
                writes.touched.iter().map(|(session, _)| session).collect();
            pipeline.add(RESERVE, values![reservations(self.schema, "session", sessions)]);
            refresh_heads(pipeline, writes.touched.iter());
        }
        if !writes.session_uses.is_empty() {
            let mut until: BTreeMap<&String, Ms> = BTreeMap::new();
            for used in &writes.session_uses {
                let latest = until.entry(&used.session_id).or_insert(used.item_locked_until);
                *latest = (*latest).max(used.item_locked_until);
            }
            let sessions = column!(until, (id, _) => owned_text(id));
            pipeline.add(USE_SESSIONS, values![sessions, column!(until, (_, until) => *until), self.now]);
        }
        Flushed { written, expired }
    }

    /// Whether something is written before the rows of `queues`, which whoever has not read them locks by writing
    /// them.
    pub(crate) fn writes_before_queues(&self) -> bool {
        let Writes {
            ended_attempts,
            timers,
            emptied,
            kept,
            redriven,
            early,
            admitted_early,
            pulled_back,
            ..
        } = &self.writes;
        !(ended_attempts.is_empty()
            && pulled_back.is_empty()
            && timers.is_empty()
            && emptied.is_empty()
            && kept.is_empty()
            && redriven.is_empty()
            && early.is_empty()
            && admitted_early.is_empty())
    }

    fn flush_early(&self, pipeline: &mut Pipeline) -> Option<usize> {
        let writes = &self.writes;
        let mut expired = None;
        if writes.expire_early {
            let retention = to_column(duroxide_core::limits::EARLY_MESSAGE_RETENTION_MS);
            expired = Some(pipeline.add(EXPIRE_EARLY, values![self.now.saturating_sub(retention)]));
        }
        if !writes.early.is_empty() {
            let rows = &writes.early;
            pipeline.add(
                EARLY,
                values![
                    column!(rows, row => owned_text(&row.instance)),
                    column!(rows, row => row.position),
                    column!(rows, row => row.visible_at),
                    self.now,
                    column!(rows, row => row.json.clone()),
                ],
            );
        }
        if !writes.admitted_early.is_empty() {
            let rows = &writes.admitted_early;
            let ids = column!(rows, (id, _, _) => owned_text(id));
            let keys = column!(rows, (_, key, _) => *key);
            let starts = column!(rows, (_, _, at) => *at);
            pipeline.add(ADMIT_EARLY, values![ids.clone(), keys, starts, self.now]);
            pipeline.add(FORGET_EARLY, values![ids]);
        }
        expired
    }

    fn flush_removed(&self, pipeline: &mut Pipeline) {
        let writes = &self.writes;
        if !writes.kept.is_empty() {
            let rows = &writes.kept;
            pipeline.add(
                KEEP,
                values![
                    column!(rows, (key, _, _) => *key),
                    column!(rows, (_, order, _) => *order),
                    column!(rows, (_, _, json) => json.clone()),
                ],
            );
        }
        if !writes.redriven.is_empty() {
            pipeline.add(FORGET_KEPT, values![writes.redriven.clone()]);
            pipeline.add(RUN_AGAIN, values![writes.redriven.clone()]);
        }
        if !writes.ended_attempts.is_empty() {
            let rows = &writes.ended_attempts;
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
        if !writes.timers.is_empty() {
            let (keys, executions, schedules) = timer_columns(&writes.timers);
            pipeline.add(DELETE_TIMERS, values![keys, executions, schedules]);
        }
        if !writes.emptied.is_empty() {
            pipeline.add(EMPTY_INBOX, values![writes.emptied.clone()]);
        }
    }

    /// After the inboxes are written: messages that a lock covered are found by their times until then.
    fn flush_times(&self, pipeline: &mut Pipeline) {
        let rows = &self.writes.delayed;
        if !rows.is_empty() {
            pipeline.add(
                DELAYED,
                values![
                    column!(rows, (key, _, _) => *key),
                    column!(rows, (_, at, _) => *at),
                    column!(rows, (_, _, position) => *position),
                ],
            );
        }
        if !self.writes.pulled_back.is_empty() {
            pipeline.add(PULL_BACK, values![column!(self.writes.pulled_back, key => *key), self.now]);
        }
    }

    /// After the inboxes are written.
    fn flush_cancels(&self, pipeline: &mut Pipeline) {
        let changed = self.instances.values().filter(|row| row.pending.cancels);
        let changed: Vec<i64> = changed.map(|row| row.key).collect();
        if !changed.is_empty() {
            pipeline.add(CANCELS, values![changed]);
        }
    }

    /// After the rows of `queues` are written, and with their new revisions.
    fn flush_bounces(&self, pipeline: &mut Pipeline) {
        let rows = &self.writes.bounces;
        if !rows.is_empty() {
            let causes = column!(rows, (_, cause) => cause.clone());
            pipeline.add(BOUNCES, values![column!(rows, (key, _) => *key), causes, self.now]);
        }
    }

    fn flush_next_executions(&self, pipeline: &mut Pipeline) {
        let rows = &self.writes.next_executions;
        if !rows.is_empty() {
            let ids = column!(rows, (_, id) => to_column(*id));
            pipeline.add(NEXT_EXECUTIONS, values![column!(rows, (key, _) => *key), ids, self.now]);
        }
    }

    fn flush_state(&self, pipeline: &mut Pipeline) {
        let writes = &self.writes;
        if !writes.custom_statuses.is_empty() {
            let rows = &writes.custom_statuses;
            pipeline.add(
                CUSTOM_STATUSES,
                values![
                    column!(rows, (key, _, _) => *key),
                    column!(rows, (_, times, _) => to_column(*times)),
                    column!(rows, (_, _, status) => status.as_deref().map(owned_text)),
                ],
            );
        }
        let kv = &writes.kv;
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
        let writes = &self.writes;
        if !writes.work_changes.is_empty() {
            let rows = &writes.work_changes;
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
                    self.now,
                ],
            );
        }
        if !writes.progress.is_empty() {
            let rows = &writes.progress;
            let texts = column!(rows, (_, text) => to_text(text).into_owned());
            pipeline.add(PROGRESS, values![column!(rows, (id, _) => *id), texts]);
        }
        if !writes.forgiven.is_empty() {
            pipeline.add(FORGIVE, values![writes.forgiven.clone()]);
        }
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
