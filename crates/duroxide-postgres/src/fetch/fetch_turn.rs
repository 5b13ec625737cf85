//! Locking ready instances for a turn.
//!
//! Two statements of one round trip: the first picks and locks rows that nobody else has locked, the second,
//! which therefore sees what was committed before that, takes them and reads their messages. The keys go from
//! one to the other inside the server.

use std::collections::HashMap;

use duroxide_core::{BounceCause, ItemKind, WhenUndecodable, WorkItem, limits, pack_version};
use duroxide_provider::rules::{
    AsideMessage, ExecutionRow, InstanceRow, Pending, Token, TurnLock, expired_lock, nonces,
};
use duroxide_provider::support::{HistorySize, Status};
use duroxide_provider::{
    ExpiredLock, FetchedTurn, HeldHistory, HistoryPart, KvEntry, LockHolder, OrchestrationItem, TurnFacts,
    TurnRequest,
};
use tokio_postgres::Row;

use crate::admin::history;
use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::fetch::horizon::{Bounds, Silence};
use crate::fetch::route_turn;
use crate::rows::execution_row;
use crate::rows::instance_row;
use crate::store::PostgresProvider;
use crate::values::{Ms, NEVER, NOT_PINNED, count, duration, from_column, from_json, from_text};

const PICK: &str = "WITH RECURSIVE c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
     keys (k) AS ( \
       SELECT CASE WHEN $8::bigint[] IS NULL \
         THEN (SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL) END \
       UNION ALL \
       SELECT (SELECT min(q.pinned_key) FROM {s}.queues q WHERE q.ready_at IS NOT NULL AND q.pinned_key > keys.k) \
       FROM keys WHERE keys.k IS NOT NULL), \
     all_keys AS MATERIALIZED (SELECT keys.k FROM keys WHERE keys.k IS NOT NULL \
       UNION ALL SELECT u.k FROM unnest($8::bigint[]) AS u (k)), \
     matching AS MATERIALIZED (SELECT keys.k FROM all_keys keys WHERE EXISTS \
       (SELECT 1 FROM unnest($2::bigint[], $3::bigint[]) AS r (low, high) \
        WHERE keys.k = -1 OR keys.k BETWEEN r.low AND r.high)), \
     clean AS MATERIALIZED (SELECT x.key, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
       SELECT q.key, q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.suspect = FALSE \
         AND q.ready_at BETWEEN $6::bigint AND (SELECT now FROM c) ORDER BY q.ready_at, q.key LIMIT $4::bigint \
         FOR UPDATE SKIP LOCKED) x), \
     suspects AS MATERIALIZED (SELECT x.key, x.ready_at FROM matching m CROSS JOIN LATERAL ( \
       SELECT q.key, q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k AND q.suspect = TRUE \
         AND q.ready_at BETWEEN $7::bigint AND (SELECT now FROM c) ORDER BY q.ready_at, q.key LIMIT $5::bigint \
         FOR UPDATE SKIP LOCKED) x ORDER BY x.ready_at, x.key LIMIT $5::bigint), \
     picked AS MATERIALIZED (SELECT a.key, a.ready_at FROM \
       (SELECT * FROM clean UNION ALL SELECT * FROM suspects) a ORDER BY a.ready_at, a.key LIMIT $4::bigint), \
     due AS MATERIALIZED (SELECT s.suspect, min(x.ready_at) AS at FROM matching m \
       CROSS JOIN (SELECT FALSE AS suspect, $6::bigint AS first \
         UNION ALL SELECT TRUE, $7::bigint WHERE $5::bigint > 0) s \
       CROSS JOIN LATERAL (SELECT q.ready_at FROM {s}.queues q WHERE q.pinned_key = m.k \
         AND q.suspect = s.suspect AND q.ready_at BETWEEN s.first AND (SELECT now FROM c) + $9::bigint \
         AND q.key <> ALL (ARRAY(SELECT p.key FROM picked p)) ORDER BY q.ready_at, q.key LIMIT 1) x \
       GROUP BY s.suspect) \
     SELECT (SELECT now FROM c), (SELECT at FROM due WHERE NOT suspect), (SELECT at FROM due WHERE suspect), \
       set_config('duroxide.picked', \
         coalesce((SELECT array_agg(p.key ORDER BY p.ready_at, p.key) FROM picked p), '{}')::text, TRUE), \
       set_config('duroxide.now', (SELECT now FROM c)::text, TRUE), \
       (SELECT array_agg(keys.k) FROM all_keys keys)";

/// Of all that waits for what was picked, the first messages come, up to a number of bytes. `found` has NULL messages for an
/// instance with an empty inbox, and none for one of which nothing fits: that one stays as it is. The window gives the messages
/// in their order, and so do the arrays. `found` begins with the grouped messages: as the inner side of a join they would be
/// grouped again for every instance.
const TAKE: &str = "WITH c AS MATERIALIZED (SELECT current_setting('duroxide.now')::bigint AS now), \
     p AS MATERIALIZED (SELECT u.key, u.n \
       FROM unnest(current_setting('duroxide.picked')::bigint[]) WITH ORDINALITY AS u (key, n)), \
     waiting AS (SELECT w.*, w.sum <= $4::bigint OR w.sum = w.bytes AS fits FROM (SELECT p.n, q.key, x.*, \
         sum(x.bytes) OVER (ORDER BY p.n, x.visible_at, x.position ROWS UNBOUNDED PRECEDING) AS sum \
       FROM p JOIN {s}.queues q ON q.key = ANY (ARRAY[p.key]) LEFT JOIN LATERAL ( \
         SELECT n.visible_at, n.position, n.kind, n.item, octet_length(n.item) AS bytes, \
           least(n.attempts, 4294967294) + 1 + \
             (CASE WHEN q.lock_nonce IS NOT NULL \
               AND (n.visible_at, n.position) <= (q.lock_visible_at, q.lock_position) \
               AND n.position < q.lock_watermark THEN 1 ELSE 0 END) AS attempts \
         FROM {s}.inbox n WHERE n.instance_key = q.key AND n.visible_at <= (SELECT now FROM c) \
         ORDER BY n.visible_at, n.position LIMIT $3::bigint) x ON TRUE) w), \
     found AS MATERIALIZED (SELECT m.n, q.key, q.ready_at, q.suspect, q.current_execution_id, q.has_kv, q.ended, q.updated_at, \
         q.pinned_key, q.inbox_count, q.next_position, q.revision, q.cancelled, q.bounced_at, q.bounce, \
         q.lock_nonce AS held, m.messages, m.visible, m.positions, m.kinds, m.attempts, m.items \
       FROM (SELECT x.n, min(x.key) AS key, \
           CASE WHEN count(x.position) > 0 THEN count(*) FILTER (WHERE x.fits) END AS messages, \
           array_agg(x.visible_at) FILTER (WHERE x.fits) AS visible, \
           array_agg(x.position) FILTER (WHERE x.fits) AS positions, \
           array_agg(x.kind) FILTER (WHERE x.fits) AS kinds, \
           array_agg(x.attempts) FILTER (WHERE x.fits) AS attempts, \
           array_agg(x.item) FILTER (WHERE x.fits) AS items \
         FROM waiting x GROUP BY x.n) m JOIN {s}.queues q ON q.key = ANY (ARRAY[m.key])), \
     counted AS (UPDATE {s}.inbox n SET attempts = least(n.attempts, 4294967294) + 1 \
       FROM found f JOIN {s}.queues q ON q.key = ANY (ARRAY[f.key]) \
       WHERE f.messages > 0 AND q.lock_nonce IS NOT NULL AND n.instance_key = ANY (ARRAY[f.key]) \
         AND (n.visible_at, n.position) <= (q.lock_visible_at, q.lock_position) \
         AND n.position < q.lock_watermark), \
     locked AS (UPDATE {s}.queues q SET lock_nonce = ($2::bigint[])[f.n], \
         lock_visible_at = f.visible[f.messages], lock_position = f.positions[f.messages], \
         lock_watermark = q.next_position, lock_count = f.messages, suspect_before = q.suspect, \
         suspect = TRUE, not_before = 0, ready_at = (SELECT now FROM c) + $1::bigint, \
         revision = least(q.revision, 9223372036854775806) + 1 \
       FROM found f WHERE q.key = ANY (ARRAY[f.key]) AND f.messages > 0), \
     mended AS (UPDATE {s}.queues q SET ready_at = \
         (SELECT min(n.visible_at) FROM {s}.inbox n WHERE n.instance_key = q.key), lock_nonce = NULL, revision = least(q.revision, 9223372036854775806) + 1 \
       FROM found f WHERE q.key = ANY (ARRAY[f.key]) AND f.messages IS NULL) \
     SELECT f.key, ($2::bigint[])[f.n], f.suspect, f.current_execution_id, f.has_kv, f.visible, f.positions, \
       f.kinds, f.attempts, f.items, i.instance_id, i.incarnation, i.name, i.version, i.parent_instance, \
       i.parent_execution_id, i.parent_event_id, i.created_at, f.ready_at, f.ended, f.updated_at, f.pinned_key, \
       f.inbox_count, f.next_position, least(f.revision, 9223372036854775806) + 1, e.instance_key, e.execution_id, e.status, e.completed_at, \
       e.pinned_major, e.pinned_minor, e.pinned_patch, e.event_count, e.last_event_id, e.history_bytes, \
       f.cancelled, f.bounced_at IS NOT NULL, CASE WHEN f.bounced_at >= f.updated_at THEN f.bounce END, f.held, \
       CASE WHEN f.inbox_count > f.messages THEN (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = f.key AND n.kind <> 5 \
         AND n.delayed IS NOT TRUE ORDER BY n.visible_at DESC, n.position DESC LIMIT 1) END \
     FROM found f JOIN {s}.instances i ON i.key = ANY (ARRAY[f.key]) \
     LEFT JOIN {s}.executions e ON e.instance_key = ANY (ARRAY[f.key]) AND e.execution_id = f.current_execution_id \
     WHERE f.messages > 0 ORDER BY f.n";

/// Where the answers of a look stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pick: usize,
    take: usize,
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Look<T> {
    /// What was locked.
    pub(crate) items: Vec<T>,
    /// The store's time.
    pub(crate) now: Ms,
    /// When something else may be ready without any further call, as far ahead as it sees. In the past when more is
    /// ready, or another transaction holds it.
    pub(crate) next_due: Ms,
    /// Where the next look for the same request may begin, if this one tells.
    pub(crate) horizon: Option<Bounds>,
}

/// Where a look at the instances begins.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) bounds: Bounds,
    /// How far ahead it sees what will be ready.
    pub(crate) ahead: Ms,
    /// The packed versions of all executions; `None` when they must be found first.
    pub(crate) versions: Option<Vec<i64>>,
}

/// A locked instance, still encoded.
#[derive(Debug)]
pub(crate) struct RawTurn {
    pub(crate) token: Token,
    /// Since when it was ready.
    pub(crate) ready_at: Ms,
    pub(crate) now: Ms,
    /// The instance, as it stands now that it is locked.
    pub(crate) row: InstanceRow,
    /// The lock that it had before, if that one expired.
    pub(crate) expired: Option<ExpiredLock>,
    /// Its execution, if one is stored and can be read.
    pub(crate) execution: Option<ExecutionRow>,
    /// The last event of that execution.
    pub(crate) last_event_id: u64,
    /// Why it was last given back.
    pub(crate) last_cause: Option<String>,
    pub(crate) messages: Vec<RawMessage>,
}

/// A locked message, still encoded.
#[derive(Debug)]
pub(crate) struct RawMessage {
    pub(crate) visible_at: Ms,
    pub(crate) position: i64,
    pub(crate) kind: i64,
    pub(crate) attempts: i64,
    pub(crate) json: String,
}

/// Adds the statements that lock what is ready.
pub(crate) fn look(
    pipeline: &mut Pipeline,
    manual: Option<Ms>,
    request: &TurnRequest,
    wanted: usize,
    start: Start,
) -> Places {
    let ranges = ranges(request);
    let suspects = count(request.suspects.limit().min(wanted));
    let pick = match &request.handlers {
        None => {
            let Start { bounds: Bounds { clean, suspect }, ahead, versions } = start;
            pipeline.add(
                PICK,
                values![manual, ranges.0, ranges.1, count(wanted), suspects, clean, suspect, versions, ahead],
            )
        }
        Some(handlers) => route_turn::pick(
            pipeline,
            route_turn::Asked { manual, ranges, wanted, suspects, start },
            handlers,
        ),
    };
    Places { pick, take: take(pipeline, request.lock_timeout, request.holder, wanted) }
}

/// Adds the statement that takes what was picked.
pub(crate) fn take(
    pipeline: &mut Pipeline,
    lock_timeout: std::time::Duration,
    holder: LockHolder,
    wanted: usize,
) -> usize {
    // Room for the time itself.
    let lock = duration(lock_timeout).min(i64::MAX / 4);
    let (messages, bytes) = (limits::MAX_MESSAGES_PER_FETCH, limits::MAX_MESSAGE_BYTES_PER_FETCH);
    pipeline.add(TAKE, values![lock, nonces(holder, wanted), count(messages), count(bytes)])
}

/// The packed versions that the filter accepts. An execution that is not pinned suits every filter but an empty
/// one.
fn ranges(request: &TurnRequest) -> (Vec<i64>, Vec<i64>) {
    match &request.filter {
        None => (vec![i64::MIN], vec![i64::MAX]),
        Some(filter) => {
            let ranges = &filter.supported_duroxide_versions;
            ranges.iter().map(|range| (pack_version(&range.min), pack_version(&range.max))).unzip()
        }
    }
}

/// Whether the filter accepts an execution with this packed version.
pub(crate) fn accepts(request: &TurnRequest, pinned_key: i64) -> bool {
    let (low, high) = ranges(request);
    let suits = |(low, high): (i64, i64)| pinned_key == NOT_PINNED || (low..=high).contains(&pinned_key);
    low.into_iter().zip(high).any(suits)
}

/// The packed versions of all executions that have messages, as a look found them or was told.
pub(crate) fn versions(answers: &[Vec<Row>], places: Places) -> Vec<i64> {
    let picked = answers.get(places.pick).and_then(|rows| rows.first());
    picked.and_then(|row| row.get::<_, Option<Vec<i64>>>(5)).unwrap_or_default()
}

/// What the statements of a look answered.
pub(crate) fn looked(
    answers: &[Vec<Row>],
    places: Places,
    request: &TurnRequest,
    ahead: Ms,
) -> Look<RawTurn> {
    let lock = duration(request.lock_timeout);
    let picked = answers.get(places.pick).and_then(|rows| rows.first());
    let now: Ms = picked.map_or(0, |row| row.get(0));
    let first = |column: usize| picked.and_then(|row| row.get::<_, Option<Ms>>(column));
    // Others tell what is due before the next look.
    let silent = Silence { clean: ahead, suspect: ahead.min(lock) };
    let horizon = Some(Bounds::left(first(1), first(2), now, silent));
    let next_due = first(1).into_iter().chain(first(2)).min().unwrap_or(NEVER);
    let taken = answers.get(places.take).map(Vec::as_slice).unwrap_or_default();
    let expires_at = now.saturating_add(lock.min(i64::MAX / 4));
    let items: Vec<RawTurn> = taken.iter().map(|row| RawTurn::from_row(row, now, expires_at)).collect();
    // The locks just taken expire, and what was picked but did not fit is still ready.
    let next_due = if items.is_empty() { next_due } else { next_due.min(now.saturating_add(lock)) };
    let all_fit = picked.is_none_or(|row| picked_count(row.get(3)) == items.len());
    if all_fit {
        Look { items, now, next_due, horizon }
    } else {
        // What did not fit stands behind the horizon that this look would leave, but not behind the one it began at.
        Look { items, now, next_due: now, horizon: None }
    }
}

/// How many keys there are in an array as the server writes it.
fn picked_count(keys: &str) -> usize {
    keys.trim_matches(['{', '}']).split(',').filter(|key| !key.is_empty()).count()
}

/// A lock on messages that stand in the order of the inbox; `None` without messages.
fn covering(nonce: i64, messages: &[RawMessage], watermark: i64) -> Option<TurnLock> {
    let last = messages.last()?;
    let count = count(messages.len());
    Some(TurnLock { nonce, visible_at: last.visible_at, position: last.position, watermark, count })
}

/// The messages of a turn.
pub(crate) struct Admitted {
    items: Vec<WorkItem>,
    attempts: u32,
    error: Option<String>,
    pub(crate) aside: Vec<AsideMessage>,
    /// How many stay.
    pub(crate) left: usize,
}

impl RawTurn {
    pub(crate) fn from_row(row: &Row, now: Ms, expires_at: Ms) -> Self {
        let numbers = |column: usize| row.get::<_, Option<Vec<i64>>>(column).unwrap_or_default();
        let items: Vec<String> = row.get::<_, Option<Vec<String>>>(9).unwrap_or_default();
        let places = numbers(5).into_iter().zip(numbers(6)).zip(numbers(7)).zip(numbers(8));
        let messages: Vec<RawMessage> = places
            .zip(items)
            .map(|((((visible_at, position), kind), attempts), json)| RawMessage {
                visible_at,
                position,
                kind,
                attempts,
                json,
            })
            .collect();
        let token = Token { key: row.get(0), nonce: row.get(1) };
        let next_position: i64 = row.get(23);
        let lock = covering(token.nonce, &messages, next_position);
        let suspect: bool = row.get(2);
        let (ready_at, held): (Ms, Option<i64>) = (row.get(18), row.get(38));
        let expired = held.filter(|_| suspect).map(|nonce| expired_lock(nonce, ready_at));
        let stored: Option<i64> = row.get(25);
        let execution = stored.and_then(|_| execution_row::read(row, 25).ok());
        let instance = InstanceRow {
            key: token.key,
            revision: row.get(24),
            instance: from_text(row.get(10)),
            incarnation: row.get::<_, i64>(11).cast_unsigned(),
            created_at: row.get(17),
            name: from_text(row.get(12)),
            version: from_text(row.get(13)),
            parent_instance: row.get::<_, Option<String>>(14).map(from_text),
            parent_execution_id: row.get(15),
            parent_event_id: row.get(16),
            // One that has ended is not remembered, so that it does not matter how.
            status: instance_row::status(row.get(19), Status::Completed.code()),
            updated_at: row.get(20),
            current_execution_id: from_column(row.get(3)),
            pinned_key: row.get(21),
            has_kv: row.get(4),
            inbox_count: row.get(22),
            next_position,
            not_before: 0,
            ready_at: Some(expires_at),
            suspect: true,
            suspect_before: suspect,
            lock,
            cancelled: row.get(35),
            bounced: row.get(36),
            last_arrival: row.get::<_, Option<Ms>>(39).unwrap_or(Ms::MIN),
            pending: Pending::default(),
        };
        Self {
            token,
            ready_at,
            now,
            row: instance,
            expired,
            execution,
            last_event_id: row.get::<_, Option<i64>>(33).map_or(0, from_column),
            last_cause: row.get(37),
            messages,
        }
    }

    /// Decodes the messages; those that the instance can do without and that do not decode are set aside.
    pub(crate) fn admit(&mut self) -> Admitted {
        let mut admitted =
            Admitted { items: Vec::new(), attempts: 0, error: None, aside: Vec::new(), left: 0 };
        for message in std::mem::take(&mut self.messages) {
            let RawMessage { visible_at, position, kind, attempts, json } = message;
            let decoded: Result<WorkItem, String> = from_json(&json);
            if let Err(cause) = &decoded
                && let Some(WhenUndecodable::SetAside) =
                    ItemKind::from_code(kind).map(ItemKind::when_undecodable)
            {
                let (key, cause) = (self.token.key, cause.clone());
                admitted.aside.push(AsideMessage { key, visible_at, position, cause });
                continue;
            }
            admitted.left += 1;
            match decoded {
                Ok(item) => admitted.items.push(item),
                Err(cause) => {
                    let place = admitted.left;
                    admitted.error.get_or_insert_with(|| format!("message at position {place}: {cause}"));
                }
            }
            admitted.attempts = admitted.attempts.max(u32::try_from(attempts).unwrap_or(u32::MAX));
        }
        admitted
    }

    /// What the store knows of the history.
    fn stored(&self) -> HeldHistory {
        HeldHistory {
            incarnation: self.row.incarnation,
            execution_id: self.row.current_execution_id,
            last_event_id: self.last_event_id,
        }
    }

    fn is_held(&self, request: &TurnRequest) -> bool {
        request.held.held(&self.row.instance) == Some(self.stored())
    }

    /// What is to be read of its history.
    pub(crate) fn history_to_read(&self, request: &TurnRequest) -> HistorySize {
        if self.is_held(request) {
            return HistorySize::NOTHING;
        }
        let bytes = self.execution.as_ref().map_or(0, |execution| from_column(execution.history_bytes));
        HistorySize { events: self.last_event_id, bytes }
    }

    /// The turn with its history, as far as the node does not hold it. `None` when the instance was deleted
    /// meanwhile.
    pub(crate) async fn complete(
        self,
        store: &PostgresProvider,
        request: &TurnRequest,
        admitted: Admitted,
    ) -> Result<Option<FetchedTurn>, Fault> {
        let stored = self.stored();
        let held = admitted.error.is_none() && self.is_held(request);
        let part = if held { HistoryPart::Held } else { HistoryPart::Whole };
        let mut events = Vec::new();
        let mut error = admitted.error;
        let mut kv_snapshot = HashMap::new();
        let reads_history = !held && error.is_none() && stored.last_event_id > 0;
        if reads_history || (!held && self.row.has_kv) {
            let conn = store.pooled().await?;
            if reads_history {
                match history::load(&conn, self.token.key, stored.execution_id, stored.last_event_id).await? {
                    Ok(found) if found.is_empty() => return Ok(None),
                    Ok(found) => events = found,
                    Err(undecodable) => {
                        let text =
                            format!("event at position {}: {}", undecodable.event_id, undecodable.cause);
                        error = Some(text);
                    }
                }
            }
            if self.row.has_kv {
                kv_snapshot = self.kv_snapshot(&conn).await?;
            }
        }
        Ok(Some(self.with(part, events, error, kv_snapshot, (admitted.items, admitted.attempts))))
    }

    fn with(
        self,
        part: HistoryPart,
        history: Vec<duroxide_core::Event>,
        history_error: Option<String>,
        kv_snapshot: HashMap<String, KvEntry>,
        (messages, attempts): (Vec<WorkItem>, u32),
    ) -> FetchedTurn {
        let row = self.row;
        FetchedTurn {
            facts: Some(TurnFacts {
                now_ms: from_column(self.now),
                suspect: row.suspect_before,
                expired: self.expired,
                incarnation: row.incarnation,
                created_at_ms: from_column(row.created_at),
                last_event_id: self.last_event_id,
                parent: row.parent(),
                history: part,
                last_cause: self.last_cause.as_deref().and_then(BounceCause::from_stored),
            }),
            item: OrchestrationItem {
                instance: row.instance,
                orchestration_name: row.name,
                execution_id: row.current_execution_id,
                version: row.version,
                history,
                messages,
                history_error,
                kv_snapshot,
            },
            lock_token: self.token.text(),
            attempts,
        }
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.row.suspect_before
    }

    async fn kv_snapshot(&self, conn: &Conn<'_>) -> Result<HashMap<String, KvEntry>, Fault> {
        const SQL: &str = "SELECT key, value, last_updated_at_ms FROM {s}.kv WHERE instance_key = $1";
        let rows = conn.query(SQL, &[&self.token.key]).await?;
        let entry = |row: &Row| {
            let value = from_text(row.get(1));
            (from_text(row.get(0)), KvEntry { value, last_updated_at_ms: from_column(row.get(2)) })
        };
        Ok(rows.iter().map(entry).collect())
    }
}
