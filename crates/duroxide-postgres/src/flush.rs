//! Writing what a working set changed.

use std::collections::BTreeMap;

use crate::instance_row::TurnLock;
use crate::pipeline::{Pipeline, values};
use crate::route_turn;
use crate::values::{Ms, NOT_PINNED, owned_text, random_bits, to_column, to_text};
use crate::working_set::{RESERVE, WorkingSet, reservations, timer_columns};

const EXPIRE_EARLY: &str = "DELETE FROM {s}.early_messages WHERE kept_at < $1 RETURNING 1";
const EARLY: &str = "INSERT INTO {s}.early_messages (instance_id, position, visible_at, kept_at, item) \
     SELECT u.i, u.p, u.v, $4::bigint, u.item \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $5::text[]) AS u (i, p, v, item)";
/// Only events are kept, and none is admitted before the start, which has position 1.
const ADMIT_EARLY: &str = "INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, item) \
     SELECT u.key, greatest(m.visible_at, u.start_at), \
       1 + row_number() OVER (PARTITION BY u.key ORDER BY m.position), 6, m.item \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (id, key, start_at) \
     JOIN {s}.early_messages m ON m.instance_id = u.id";
const FORGET_EARLY: &str = "DELETE FROM {s}.early_messages WHERE instance_id = ANY($1::text[])";
const CREATE: &str = "INSERT INTO {s}.instances (key, instance_id, incarnation, name, version, parent_instance, \
     parent_execution_id, parent_event_id, created_at, status) \
     SELECT u.key, u.id, u.incarnation, u.name, u.version, u.pi, u.pe, u.pv, $9::bigint, 1 \
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], \
       $8::bigint[]) AS u (key, id, incarnation, name, version, pi, pe, pv)";
const CREATE_QUEUES: &str = "INSERT INTO {s}.queues (key, ended, updated_at, current_execution_id, pinned_key, has_kv, \
     inbox_count, next_position, not_before, ready_at, suspect, suspect_before, lock_nonce, lock_visible_at, \
     lock_position, lock_watermark, lock_count, route_name, route_version) \
     SELECT * FROM unnest($1::bigint[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], \
       $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[], $12::boolean[], $13::bigint[], \
       $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[])";
const UPDATE_QUEUES: &str = "UPDATE {s}.queues q SET ended = u.ended, updated_at = u.updated_at, \
     current_execution_id = u.current_execution_id, pinned_key = u.pinned_key, has_kv = u.has_kv, \
     inbox_count = u.inbox_count, next_position = u.next_position, not_before = u.not_before, \
     ready_at = u.ready_at, suspect = u.suspect, suspect_before = u.suspect_before, \
     lock_nonce = u.lock_nonce, lock_visible_at = u.lock_visible_at, lock_position = u.lock_position, \
     lock_watermark = u.lock_watermark, lock_count = u.lock_count, \
     route_name = coalesce(u.route_name, q.route_name), \
     route_version = coalesce(u.route_version, q.route_version) \
     FROM unnest($1::bigint[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], \
       $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[], $12::boolean[], $13::bigint[], \
       $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[]) \
       AS u (key, ended, updated_at, current_execution_id, pinned_key, has_kv, inbox_count, next_position, \
             not_before, ready_at, suspect, suspect_before, lock_nonce, lock_visible_at, lock_position, \
             lock_watermark, lock_count, route_name, route_version) \
     WHERE q.key = u.key";
const DESCRIBE: &str = "UPDATE {s}.instances i SET name = u.name, version = u.version, parent_instance = u.parent \
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS u (key, name, version, parent) \
     WHERE i.key = u.key";
const END: &str = "UPDATE {s}.instances i SET status = u.status, ended_at = $3::bigint \
     FROM unnest($1::bigint[], $2::bigint[]) AS u (key, status) WHERE i.key = u.key";
const KEEP: &str = "INSERT INTO {s}.kept_messages (instance_key, position, item) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])";
const FORGET_KEPT: &str = "DELETE FROM {s}.kept_messages WHERE instance_key = ANY($1::bigint[])";
const RUN_AGAIN: &str = "UPDATE {s}.instances SET status = 1, ended_at = NULL WHERE key = ANY($1::bigint[])";
const DELETE_COVERED: &str = "DELETE FROM {s}.inbox n \
     USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (key, v, p, w) \
     WHERE n.instance_key = u.key AND (n.visible_at, n.position) <= (u.v, u.p) AND n.position < u.w";
const ENDED_ATTEMPTS: &str = "UPDATE {s}.inbox n SET attempts = least(n.attempts + 1, 4294967295) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (key, v, p, w) \
     WHERE n.instance_key = u.key AND (n.visible_at, n.position) <= (u.v, u.p) AND n.position < u.w";
const DELETE_TIMERS: &str = "DELETE FROM {s}.inbox n \
     USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (key, e, s) \
     WHERE n.kind = 5 AND n.instance_key = u.key AND n.execution_id = u.e AND (u.s IS NULL OR n.event_id = u.s)";
const EMPTY_INBOX: &str = "DELETE FROM {s}.inbox WHERE instance_key = ANY($1::bigint[])";
const INBOX: &str = "INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, execution_id, event_id, item) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
       $7::text[])";
const CANCELS: &str = "UPDATE {s}.queues q SET cancelled = EXISTS \
       (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind = 7) WHERE q.key = ANY($1::bigint[])";
const HISTORY: &str = "INSERT INTO {s}.history (instance_key, execution_id, event_id, event) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])";
const NEW_EXECUTIONS: &str = "INSERT INTO {s}.executions (instance_key, execution_id, status, completed_at, pinned_major, \
     pinned_minor, pinned_patch, event_count, last_event_id, history_bytes, output, failure, started_at) \
     SELECT u.*, $13::bigint FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
       $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[]) AS u";
/// The last parameter is for the insertion alone.
const UPDATE_EXECUTIONS: &str = "UPDATE {s}.executions e SET status = u.status, completed_at = u.completed_at, \
     pinned_major = u.major, pinned_minor = u.minor, pinned_patch = u.patch, event_count = u.event_count, \
     last_event_id = u.last_event_id, history_bytes = u.history_bytes, output = coalesce(u.output, e.output), \
     failure = coalesce(u.failure, e.failure) \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
       $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[]) \
       AS u (key, id, status, completed_at, major, minor, patch, event_count, last_event_id, history_bytes, \
             output, failure) \
     WHERE e.instance_key = u.key AND e.execution_id = u.id AND $13::bigint IS NOT NULL";
const NEXT_EXECUTIONS: &str = "INSERT INTO {s}.executions (instance_key, execution_id, status, started_at, event_count, \
     last_event_id, history_bytes) SELECT u.key, u.id, 1, $3::bigint, 0, 0, 0 \
     FROM unnest($1::bigint[], $2::bigint[]) AS u (key, id) ON CONFLICT DO NOTHING";
const CUSTOM_STATUSES: &str = "INSERT INTO {s}.custom_statuses AS c (instance_key, version, status) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) \
     ON CONFLICT (instance_key) DO UPDATE SET version = c.version + excluded.version, status = excluded.status";
const CLEAR_KV: &str = "DELETE FROM {s}.kv WHERE instance_key = ANY($1::bigint[])";
const DELETE_KV: &str = "DELETE FROM {s}.kv k USING unnest($1::bigint[], $2::text[]) AS u (i, k) \
     WHERE k.instance_key = u.i AND k.key = u.k";
const SET_KV: &str = "INSERT INTO {s}.kv (instance_key, key, last_updated_at_ms, value) \
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) \
     ON CONFLICT (instance_key, key) DO UPDATE SET last_updated_at_ms = excluded.last_updated_at_ms, \
       value = excluded.value";
const NEW_WORK: &str = "INSERT INTO {s}.work_items (id, instance_id, execution_id, activity_id, name, tag, session_id, \
     visible_at, ready_at, item) \
     SELECT nextval('{s}.work_ids'), x.i, x.e, x.a, x.name, x.tag, x.session_id, $8::bigint, $8::bigint, x.item \
     FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], \
       $7::text[]) WITH ORDINALITY AS u (i, e, a, name, tag, session_id, item, n) ORDER BY u.n) x \
     ON CONFLICT (instance_id, execution_id, activity_id) DO NOTHING";
const DELETE_WORK: &str = "DELETE FROM {s}.work_items WHERE id = ANY($1::bigint[])";
const CHANGE_WORK: &str = "UPDATE {s}.work_items w SET lock_nonce = u.nonce, visible_at = u.v, ready_at = u.r, \
     suspect = u.s, suspect_before = u.b, attempts = u.a \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::boolean[], \
       $7::bigint[]) AS u (id, nonce, v, r, s, b, a) WHERE w.id = u.id";
const PROGRESS: &str = "UPDATE {s}.work_items w SET progress = u.text \
     FROM unnest($1::bigint[], $2::text[]) AS u (id, text) WHERE w.id = u.id";
const USE_SESSIONS: &str = "UPDATE {s}.sessions s SET last_activity_at = $3::bigint, \
     locked_until = greatest(s.locked_until, u.until) \
     FROM unnest($1::text[], $2::bigint[]) AS u (id, until) WHERE s.session_id = u.id";
const FORGET_HEADS: &str = "DELETE FROM {s}.session_heads h USING unnest($1::text[], $2::text[]) AS u (session, tag) \
     WHERE h.session_id = u.session AND h.tag = u.tag";
const FIND_HEADS: &str = "INSERT INTO {s}.session_heads (session_id, tag, suspect, ready_at, work_id) \
     SELECT u.session, u.tag, k.suspect, f.ready_at, f.id \
     FROM unnest($1::text[], $2::text[]) AS u (session, tag) \
     CROSS JOIN (VALUES (FALSE), (TRUE)) AS k (suspect) \
     CROSS JOIN LATERAL (SELECT w.ready_at, w.id FROM {s}.work_items w \
       WHERE w.session_id = u.session AND w.tag = u.tag AND w.suspect = k.suspect \
       ORDER BY w.ready_at, w.id LIMIT 1) f";

/// One column of many rows.
macro_rules! column {
    ($rows:expr, $row:pat => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}

impl WorkingSet<'_> {
    /// Adds the statements that write all changes. The place of the answer that counts what expired, if any.
    pub(crate) fn flush(&mut self, pipeline: &mut Pipeline) -> Option<usize> {
        let expired = self.flush_early(pipeline);
        self.flush_removed(pipeline);
        self.flush_instances(pipeline);
        self.flush_executions(pipeline);
        self.flush_state(pipeline);
        self.flush_work(pipeline);
        let writes = &self.writes;
        if !writes.touched.is_empty() {
            let sessions: std::collections::BTreeSet<&String> =
                writes.touched.iter().map(|(session, _)| session).collect();
            pipeline.add(RESERVE, values![reservations(self.conn, "session", sessions)]);
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
        expired
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
            pipeline.add(ADMIT_EARLY, values![ids.clone(), keys, column!(rows, (_, _, at) => *at)]);
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
        for (sql, locks) in [(DELETE_COVERED, &writes.covered), (ENDED_ATTEMPTS, &writes.ended_attempts)] {
            if !locks.is_empty() {
                let of = |value: fn(&TurnLock) -> i64| column!(locks, (_, lock) => value(lock));
                pipeline.add(
                    sql,
                    values![
                        column!(locks, (key, _) => *key),
                        of(|lock| lock.visible_at),
                        of(|lock| lock.position),
                        of(|lock| lock.watermark),
                    ],
                );
            }
        }
        if !writes.timers.is_empty() {
            let (keys, executions, schedules) = timer_columns(&writes.timers);
            pipeline.add(DELETE_TIMERS, values![keys, executions, schedules]);
        }
        if !writes.emptied.is_empty() {
            pipeline.add(EMPTY_INBOX, values![writes.emptied.clone()]);
        }
        if !writes.deleted_work.is_empty() {
            pipeline.add(DELETE_WORK, values![writes.deleted_work.clone()]);
        }
    }

    fn flush_instances(&self, pipeline: &mut Pipeline) {
        let writes = &self.writes;
        let new: Vec<_> = writes.created.iter().filter_map(|key| self.instances.get(key)).collect();
        if !new.is_empty() {
            pipeline.add(
                CREATE,
                values![
                    column!(new, row => row.key),
                    column!(new, row => owned_text(&row.instance)),
                    column!(new, _ => random_bits()),
                    column!(new, row => owned_text(&row.name)),
                    column!(new, row => owned_text(&row.version)),
                    column!(new, row => row.parent_instance.as_deref().map(owned_text)),
                    column!(new, row => row.parent_execution_id),
                    column!(new, row => row.parent_event_id),
                    self.now,
                ],
            );
            pipeline.add(CREATE_QUEUES, queue_values(&new));
        }
        let is_new = |key: &i64| writes.created.contains(key);
        let mut rows: Vec<_> =
            self.instances.values().filter(|row| row.pending.queue && !is_new(&row.key)).collect();
        rows.sort_unstable_by_key(|row| row.key);
        if !rows.is_empty() {
            pipeline.add(UPDATE_QUEUES, queue_values(&rows));
        }
        let described: Vec<_> = rows.iter().filter(|row| row.pending.description).collect();
        if !described.is_empty() {
            pipeline.add(
                DESCRIBE,
                values![
                    column!(described, row => row.key),
                    column!(described, row => owned_text(&row.name)),
                    column!(described, row => owned_text(&row.version)),
                    column!(described, row => row.parent_instance.as_deref().map(owned_text)),
                ],
            );
        }
        let ended: Vec<(i64, i64)> =
            rows.iter().filter_map(|row| Some((row.key, row.pending.end?.code()))).collect();
        if !ended.is_empty() {
            pipeline.add(
                END,
                values![column!(ended, (key, _) => *key), column!(ended, (_, status) => *status), self.now],
            );
        }
        if !writes.inbox.is_empty() {
            let rows = &writes.inbox;
            pipeline.add(
                INBOX,
                values![
                    column!(rows, row => row.key),
                    column!(rows, row => row.visible_at),
                    column!(rows, row => row.position),
                    column!(rows, row => row.kind.code()),
                    column!(rows, row => row.execution_id),
                    column!(rows, row => row.event_id),
                    column!(rows, row => row.json.clone()),
                ],
            );
        }
        let changed = self.instances.values().filter(|row| row.pending.cancels);
        let changed: Vec<i64> = changed.map(|row| row.key).collect();
        if !changed.is_empty() {
            pipeline.add(CANCELS, values![changed]);
        }
    }

    fn flush_executions(&self, pipeline: &mut Pipeline) {
        let writes = &self.writes;
        if !writes.history.is_empty() {
            let rows = &writes.history;
            pipeline.add(
                HISTORY,
                values![
                    column!(rows, (key, _, _, _) => *key),
                    column!(rows, (_, execution_id, _, _) => to_column(*execution_id)),
                    column!(rows, (_, _, event_id, _) => to_column(*event_id)),
                    column!(rows, (_, _, _, json) => json.clone()),
                ],
            );
        }
        for (sql, stored) in [(NEW_EXECUTIONS, false), (UPDATE_EXECUTIONS, true)] {
            let rows: Vec<_> =
                self.executions.iter().filter(|(_, row)| row.changed && row.is_stored == stored).collect();
            if rows.is_empty() {
                continue;
            }
            let text = |text: &Option<String>| text.as_deref().map(owned_text);
            pipeline.add(
                sql,
                values![
                    column!(rows, ((key, _), _) => *key),
                    column!(rows, ((_, id), _) => to_column(*id)),
                    column!(rows, (_, row) => row.status.code()),
                    column!(rows, (_, row) => row.completed_at),
                    column!(rows, (_, row) => row.pinned.map(|pinned| pinned.major)),
                    column!(rows, (_, row) => row.pinned.map(|pinned| pinned.minor)),
                    column!(rows, (_, row) => row.pinned.map(|pinned| pinned.patch)),
                    column!(rows, (_, row) => row.event_count),
                    column!(rows, (_, row) => to_column(row.last_event_id)),
                    column!(rows, (_, row) => row.history_bytes),
                    column!(rows, (_, row) => text(&row.new_output)),
                    column!(rows, (_, row) => row.new_failure.clone()),
                    self.now,
                ],
            );
        }
        if !writes.next_executions.is_empty() {
            let rows = &writes.next_executions;
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
        if !writes.new_work.is_empty() {
            let rows = &writes.new_work;
            pipeline.add(
                NEW_WORK,
                values![
                    column!(rows, row => owned_text(&row.instance)),
                    column!(rows, row => to_column(row.execution_id)),
                    column!(rows, row => to_column(row.activity_id)),
                    column!(rows, row => owned_text(&row.name)),
                    column!(rows, row => owned_text(&row.place.tag)),
                    column!(rows, row => row.place.session_id.as_deref().map(owned_text)),
                    column!(rows, row => row.json.clone()),
                    self.now,
                ],
            );
        }
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
                ],
            );
        }
        if !writes.progress.is_empty() {
            let rows = &writes.progress;
            let texts = column!(rows, (_, text) => to_text(text).into_owned());
            pipeline.add(PROGRESS, values![column!(rows, (id, _) => *id), texts]);
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

fn queue_values(rows: &[&crate::instance_row::InstanceRow]) -> Vec<crate::pipeline::Value> {
    debug_assert!(rows.iter().all(|row| row.pinned_key >= NOT_PINNED));
    let lock = |value: fn(&TurnLock) -> i64| column!(rows, row => row.lock.as_ref().map(value));
    let routes = column!(rows, row => row.pending.route.as_ref().map(route_turn::stored));
    values![
        column!(rows, row => row.key),
        column!(rows, row => row.ended),
        column!(rows, row => row.updated_at),
        column!(rows, row => to_column(row.current_execution_id)),
        column!(rows, row => row.pinned_key),
        column!(rows, row => row.has_kv),
        column!(rows, row => row.inbox_count),
        column!(rows, row => row.next_position),
        column!(rows, row => row.not_before),
        column!(rows, row => row.ready_at),
        column!(rows, row => row.suspect),
        column!(rows, row => row.suspect_before),
        lock(|lock| lock.nonce),
        lock(|lock| lock.visible_at),
        lock(|lock| lock.position),
        lock(|lock| lock.watermark),
        lock(|lock| lock.count),
        column!(routes, route => route.as_ref().map(|(name, _)| name.clone())),
        column!(routes, route => route.as_ref().map(|(_, version)| version.clone())),
    ]
}
