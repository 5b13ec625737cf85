//! Locking ready work items.

use duroxide_core::{BounceCause, WorkItem, limits};
use duroxide_provider::rules::{ServedWork, Token, WorkRow, expired_lock, nonces};
use duroxide_provider::{ExpiredLock, FetchedWork, OrchestrationRef, TagFilter, WorkRequest};
use tokio_postgres::Row;

use crate::connections::pipeline::{Pipeline, values};
use crate::fetch::fetch_turn::Look;
use crate::fetch::horizon::{Bounds, Silence};
use crate::fetch::route_work;
use crate::rows::work;
use crate::values::{Ms, NEVER, count, duration, from_json, from_text, owned_text};

/// Takes nothing while items of sessions are queued and the worker serves sessions: which comes first is then
/// decided elsewhere.
const TAKE: &str = "WITH RECURSIVE c AS MATERIALIZED (SELECT coalesce($1::bigint, \
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now), \
     open AS MATERIALIZED (SELECT NOT ($7::boolean AND EXISTS (SELECT 1 FROM {s}.session_heads)) AS ok), \
     all_tags (t) AS ( \
       SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL \
       UNION ALL \
       SELECT (SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag > all_tags.t) \
       FROM all_tags WHERE all_tags.t IS NOT NULL), \
     accepted AS MATERIALIZED (SELECT u.t FROM unnest($2::text[]) AS u (t) UNION ALL \
       SELECT a.t FROM all_tags a WHERE $2::text[] IS NULL AND a.t IS NOT NULL), \
     clean AS MATERIALIZED (SELECT x.id, x.ready_at, NULL::bigint AS held, x.bytes \
       FROM accepted a CROSS JOIN LATERAL ( \
       SELECT w.id, w.ready_at, octet_length(w.item) AS bytes FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag = a.t \
         AND w.suspect = FALSE AND w.ready_at BETWEEN $8::bigint AND (SELECT now FROM c) AND (SELECT ok FROM open) \
         ORDER BY w.ready_at, w.id LIMIT $3::bigint FOR UPDATE SKIP LOCKED) x), \
     suspects AS MATERIALIZED (SELECT x.id, x.ready_at, x.held, x.bytes FROM accepted a CROSS JOIN LATERAL ( \
       SELECT w.id, w.ready_at, w.lock_nonce AS held, octet_length(w.item) AS bytes FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag = a.t \
         AND w.suspect = TRUE AND w.ready_at BETWEEN $9::bigint AND (SELECT now FROM c) AND (SELECT ok FROM open) \
         ORDER BY w.ready_at, w.id LIMIT $4::bigint FOR UPDATE SKIP LOCKED) x \
       ORDER BY x.ready_at, x.id LIMIT $4::bigint), \
     picked AS MATERIALIZED (SELECT b.id, b.ready_at, b.held, b.n FROM ( \
         SELECT a.id, a.ready_at, a.held, a.bytes, row_number() OVER w AS n, sum(a.bytes) OVER w AS sum FROM \
           (SELECT * FROM clean UNION ALL SELECT * FROM suspects) a \
         WINDOW w AS (ORDER BY a.ready_at, a.id ROWS UNBOUNDED PRECEDING)) b \
       WHERE b.n <= $3::bigint AND (b.n = 1 OR b.sum <= $11::bigint)), \
     taken AS (UPDATE {s}.work_items w SET ready_at = (SELECT now FROM c) + $5::bigint, suspect = TRUE, \
         suspect_before = w.suspect, attempts = least(w.attempts, 4294967294) + 1, \
         lock_nonce = ($6::bigint[])[p.n] FROM picked p WHERE w.id = ANY (ARRAY[p.id]) \
       RETURNING p.n, w.id, w.lock_nonce, w.attempts, w.suspect_before, w.progress, w.item, w.instance_id, \
         p.ready_at, w.ready_at AS expires_at, w.tag, w.execution_id, w.activity_id, w.visible_at, w.bounce, \
         p.held, w.forgiven), \
     due AS MATERIALIZED (SELECT s.suspect, min(x.ready_at) AS at FROM accepted a \
       CROSS JOIN (SELECT FALSE AS suspect, $8::bigint AS first \
         UNION ALL SELECT TRUE, $9::bigint WHERE $4::bigint > 0) s \
       CROSS JOIN LATERAL (SELECT w.ready_at FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag = a.t \
         AND w.suspect = s.suspect AND w.ready_at BETWEEN s.first AND (SELECT now FROM c) + $10::bigint \
         AND w.id <> ALL (ARRAY(SELECT p.id FROM picked p)) ORDER BY w.ready_at, w.id LIMIT 1) x \
       GROUP BY s.suspect) \
     SELECT c.now, (SELECT at FROM due WHERE NOT suspect), (SELECT at FROM due WHERE suspect), open.ok, t.id, t.lock_nonce, t.attempts, t.suspect_before, t.progress, t.item, \
       i.name, i.version, t.ready_at, t.bounce, t.held, t.forgiven, t.id, t.lock_nonce, t.expires_at, t.tag, NULL::text, \
       t.instance_id, t.execution_id, t.activity_id, t.visible_at, t.suspect_before, t.attempts \
     FROM c CROSS JOIN open LEFT JOIN taken t ON TRUE \
     LEFT JOIN {s}.instances i ON i.instance_id = ANY (ARRAY[t.instance_id]) ORDER BY t.n";

/// A locked work item, still encoded.
#[derive(Debug)]
pub(crate) struct RawWork {
    pub(crate) token: Token,
    /// Since when it was ready.
    pub(crate) ready_at: Ms,
    attempts: i64,
    forgiven: i64,
    pub(crate) suspect: bool,
    expired: Option<ExpiredLock>,
    progress: Option<String>,
    /// Why it was last given back.
    last_cause: Option<String>,
    item: String,
    orchestration: Option<OrchestrationRef>,
    /// How it stands now that it is locked, where that is worth remembering.
    pub(crate) row: Option<WorkRow>,
}

/// What a look at the worker queue found.
#[derive(Debug)]
pub(crate) enum Looked {
    /// This.
    Done(Look<RawWork>),
    /// Items of sessions are queued. Where a look at those without a session may begin.
    Sessions(Bounds),
}

/// Adds the statement that locks what is ready.
pub(crate) fn look(
    pipeline: &mut Pipeline,
    manual: Option<Ms>,
    request: &WorkRequest,
    wanted: usize,
    start: Bounds,
    ahead: Ms,
) -> usize {
    let suspects = count(request.suspects.limit().min(wanted));
    let lock = duration(request.lock_timeout).min(i64::MAX / 4);
    let serves_sessions = request.session.is_some();
    let mut plain = values![
        manual,
        accepted(&request.tags),
        count(wanted),
        suspects,
        lock,
        nonces(request.holder, wanted),
        serves_sessions,
        start.clean,
        start.suspect,
        ahead,
    ];
    let bytes = count(limits::MAX_WORK_BYTES_PER_FETCH);
    match &request.activities {
        None => {
            plain.push(Box::new(bytes));
            pipeline.add(TAKE, plain)
        }
        Some(activities) => route_work::take(pipeline, plain, wanted, activities, bytes),
    }
}

/// The tags that a filter accepts, as they stand in the column; `None` means every tag.
pub(crate) fn accepted(filter: &TagFilter) -> Option<Vec<String>> {
    let stored = |tags: &std::collections::HashSet<String>| -> Vec<String> {
        tags.iter().map(|tag| owned_text(tag)).collect()
    };
    match filter {
        TagFilter::DefaultOnly => Some(vec![String::new()]),
        TagFilter::Tags(tags) => Some(stored(tags)),
        TagFilter::DefaultAnd(tags) => Some(stored(tags).into_iter().chain([String::new()]).collect()),
        TagFilter::Any => None,
        TagFilter::None => Some(Vec::new()),
    }
}

/// What the statement of a look answered.
pub(crate) fn looked(answers: &[Vec<Row>], place: usize, request: &WorkRequest, ahead: Ms) -> Looked {
    let rows = answers.get(place).map(Vec::as_slice).unwrap_or_default();
    let first = rows.first();
    let now: Ms = first.map_or(0, |row| row.get(0));
    let first_left = |column: usize| first.and_then(|row| row.get::<_, Option<Ms>>(column));
    // Others tell of no item that is given back with a delay.
    let silent = Silence { clean: 0, suspect: ahead.min(duration(request.lock_timeout)) };
    let horizon = Bounds::left(first_left(1), first_left(2), now, silent);
    if first.is_some_and(|row| !row.get::<_, bool>(3)) {
        return Looked::Sessions(horizon);
    }
    let next_due = first_left(1).into_iter().chain(first_left(2)).min().unwrap_or(NEVER);
    let items: Vec<RawWork> = rows
        .iter()
        .filter_map(|row| {
            let taken = RawWork::from_row(row, 4)?;
            Some(RawWork { row: Some(work::read(row, 16)), ..taken })
        })
        .collect();
    // The locks just taken expire.
    let next_due = if items.is_empty() {
        next_due
    } else {
        next_due.min(now.saturating_add(duration(request.lock_timeout)))
    };
    Looked::Done(Look { items, now, next_due, horizon: Some(horizon) })
}

impl RawWork {
    /// The work item in the columns from `at` on: id, nonce, attempts, suspect, progress, item, and the
    /// orchestration's name and version, since when it was ready, why it was last given back, the lock that it had
    /// before, and how many attempts were forgiven.
    pub(crate) fn from_row(row: &Row, at: usize) -> Option<Self> {
        let orchestration = match (row.get::<_, Option<String>>(at + 6), row.get::<_, Option<String>>(at + 7))
        {
            (Some(name), Some(version)) => {
                Some(OrchestrationRef { name: from_text(name), version: from_text(version) })
            }
            (None, _) | (_, None) => None,
        };
        let key = row.get::<_, Option<i64>>(at)?;
        let (suspect, ready_at): (bool, Ms) = (row.get(at + 3), row.get(at + 8));
        let held: Option<i64> = row.get(at + 10);
        Some(Self {
            token: Token { key, nonce: row.get(at + 1) },
            ready_at,
            attempts: row.get(at + 2),
            forgiven: row.get(at + 11),
            suspect,
            expired: held.filter(|_| suspect).map(|nonce| expired_lock(nonce, ready_at)),
            progress: row.get::<_, Option<String>>(at + 4).map(from_text),
            last_cause: row.get(at + 9),
            item: row.get(at + 5),
            orchestration,
            row: None,
        })
    }

    /// One that was queued and locked for a fetch in the same transaction.
    pub(crate) fn born_locked(served: ServedWork) -> Option<Self> {
        let ServedWork { row, json: item, orchestration } = served;
        Some(Self {
            token: Token { key: row.id, nonce: row.nonce? },
            ready_at: row.visible_at,
            attempts: row.attempts,
            forgiven: 0,
            suspect: row.suspect_before,
            expired: None,
            progress: None,
            last_cause: None,
            item,
            orchestration: Some(orchestration),
            row: Some(row),
        })
    }

    /// The bytes of its stored form.
    pub(crate) fn bytes(&self) -> usize {
        self.item.len()
    }

    /// Whether it decodes.
    pub(crate) fn is_sound(&self) -> bool {
        from_json::<WorkItem>(&self.item).is_ok()
    }

    /// Decodes the work item, or says why it does not decode.
    pub(crate) fn decode(self) -> Result<FetchedWork, (Token, String)> {
        let item: WorkItem = from_json(&self.item).map_err(|cause| (self.token, cause))?;
        Ok(FetchedWork {
            item,
            lock_token: self.token.text(),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            forgiven: u32::try_from(self.forgiven).unwrap_or(u32::MAX),
            suspect: self.suspect,
            expired: self.expired,
            orchestration: self.orchestration,
            progress: self.progress,
            last_cause: self.last_cause.as_deref().and_then(BounceCause::from_stored),
        })
    }
}
