//! Sessions: who may run the activities that belong together, and fetching while such activities are queued.
//!
//! Which item comes first is decided step by step, in a transaction that holds the advisory lock of every
//! session it claims.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_provider::rules::nonce;
use duroxide_provider::support::ByteRoom;
use duroxide_provider::{SessionFetchConfig, SessionOverlap, Suspects, WorkRequest};

use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::connections::pipeline::Pipeline;
use crate::fault::Fault;
use crate::fetch::fetch_turn::Look;
use crate::fetch::fetch_work::{RawWork, accepted};
use crate::fetch::horizon::Bounds;
use crate::fetch::route_work::names;
use crate::rows::flush::refresh_heads;
use crate::values::{Ms, NEVER, after, count, duration, from_text, lock_number, owned_text};

/// A work item that is ready.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    ready_at: Ms,
    id: i64,
    suspect: bool,
    /// Its session and its tag.
    session: Option<(String, String)>,
}

const NOW: &str = "SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
const PLAIN: &str = "WITH RECURSIVE all_tags (t) AS ( \
       SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL \
       UNION ALL \
       SELECT (SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag > all_tags.t) \
       FROM all_tags WHERE all_tags.t IS NOT NULL), \
     accepted AS MATERIALIZED (SELECT u.t FROM unnest($2::text[]) AS u (t) UNION ALL \
       SELECT a.t FROM all_tags a WHERE $2::text[] IS NULL AND a.t IS NOT NULL) \
     SELECT x.ready_at, x.id FROM accepted a CROSS JOIN LATERAL ( \
       SELECT w.id, w.ready_at FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag = a.t \
         AND w.suspect = $3::boolean AND w.ready_at BETWEEN $5::bigint AND $1::bigint \
         ORDER BY w.ready_at, w.id LIMIT $4::bigint FOR UPDATE SKIP LOCKED) x ORDER BY x.ready_at, x.id";
/// The same for a node that routes by handler: clean ones by name, and suspects, which are few.
const ROUTED: &str = "WITH RECURSIVE all_tags (t) AS ( \
       SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL \
       UNION ALL \
       SELECT (SELECT min(w.tag) FROM {s}.work_items w WHERE w.session_id IS NULL AND w.tag > all_tags.t) \
       FROM all_tags WHERE all_tags.t IS NOT NULL), \
     accepted AS MATERIALIZED (SELECT u.t FROM unnest($2::text[]) AS u (t) UNION ALL \
       SELECT a.t FROM all_tags a WHERE $2::text[] IS NULL AND a.t IS NOT NULL), \
     found AS MATERIALIZED (SELECT x.id FROM accepted a CROSS JOIN unnest($6::text[]) AS n (n) \
       CROSS JOIN LATERAL (SELECT w.id FROM {s}.work_items w WHERE NOT $3::boolean \
         AND num_nulls(w.session_id) = 1 AND w.suspect::int = 0 AND w.tag = a.t AND w.name = n.n \
         AND w.ready_at BETWEEN $5::bigint AND $1::bigint \
         ORDER BY w.ready_at, w.id LIMIT $4::bigint) x \
       UNION ALL SELECT w.id FROM accepted a JOIN {s}.work_items w ON $3::boolean AND w.session_id IS NULL \
         AND w.tag = a.t AND w.suspect = TRUE AND w.name = ANY($6::text[]) AND w.ready_at BETWEEN $5::bigint AND $1::bigint) \
     SELECT w.ready_at, w.id FROM found f JOIN {s}.work_items w ON w.id = ANY (ARRAY[f.id]) \
       WHERE w.suspect = $3::boolean AND w.ready_at <= $1::bigint \
       ORDER BY w.ready_at, w.id LIMIT $4::bigint FOR UPDATE OF w SKIP LOCKED";
const PLAIN_DUE: &str = "SELECT min(w.ready_at) FROM {s}.work_items w WHERE w.session_id IS NULL \
     AND ($1::text[] IS NULL OR w.tag = ANY($1::text[])) AND ($2::boolean OR NOT w.suspect) AND w.ready_at > $3 \
     AND ($4::text[] IS NULL OR w.name = ANY($4::text[]))";
/// The heads of sessions, from when on each is open to this owner, and whether it is an idle session of this owner.
/// An owner without room is told of its own sessions only.
macro_rules! heads {
    ($heads:literal) => {
        concat!(
            "SELECT x.ready_at, x.work_id, x.suspect, x.session_id, x.tag, \
               (CASE WHEN x.owned AND $4::boolean THEN x.running_until ELSE x.claimed_until END) AS open_from, \
               x.owned AND x.running_until = 0 AS idle FROM ( \
               SELECT h.ready_at, h.work_id, h.suspect, h.session_id, h.tag, o.owned, \
                 (CASE WHEN s.owner <> $3::text AND s.locked_until > $1::bigint THEN s.locked_until ELSE 0 END) \
                   AS claimed_until, \
                 (CASE WHEN o.owned THEN coalesce((SELECT max(w.ready_at) FROM {s}.work_items w \
                    WHERE w.session_id = h.session_id AND w.lock_nonce IS NOT NULL \
                    AND w.ready_at > $1::bigint), 0) ELSE 0 END) AS running_until \
               FROM ",
            $heads,
            " h LEFT JOIN {s}.sessions s ON s.session_id = ANY (ARRAY[h.session_id]) \
               CROSS JOIN LATERAL (SELECT \
                 coalesce(s.owner = $3::text AND s.locked_until > $1::bigint, FALSE) AS owned) o \
               WHERE ($2::text[] IS NULL OR h.tag = ANY($2::text[])) AND ($5::boolean OR NOT h.suspect) \
                 AND h.session_id <> ALL($6::text[]) AND (NOT $7::boolean OR o.owned)) x \
             ORDER BY x.ready_at, x.work_id"
        )
    };
}
const HEADS: &str = heads!("{s}.session_heads");
/// The same for a node that routes by handler: of each session the first item that it can run.
const ROUTED_HEADS: &str = heads!(
    "(SELECT o.session_id, o.tag, o.suspect, f.ready_at, f.work_id FROM {s}.session_heads o CROSS JOIN LATERAL ( \
        SELECT g.ready_at, g.id AS work_id FROM unnest($8::text[]) AS n (n) CROSS JOIN LATERAL ( \
          SELECT w.ready_at, w.id FROM {s}.work_items w WHERE num_nulls(w.session_id) = 0 \
            AND w.session_id = o.session_id AND w.tag = o.tag AND w.name = n.n AND w.suspect = o.suspect ORDER BY w.ready_at, w.id LIMIT 1) g \
        ORDER BY g.ready_at, g.id LIMIT 1) f)"
);
/// How many sessions of an owner have something in progress, and when the first of them may have nothing more.
const RUNNING: &str = "WITH running AS MATERIALIZED ( \
       SELECT w.session_id, max(w.ready_at) AS until FROM {s}.work_items w \
       WHERE w.session_id IS NOT NULL AND w.lock_nonce IS NOT NULL AND w.ready_at > $2 GROUP BY w.session_id) \
     SELECT count(*), min(r.until) FROM running r JOIN {s}.sessions s ON s.session_id = ANY (ARRAY[r.session_id]) \
     WHERE s.owner = $1 AND s.locked_until > $2";
/// Only if the session is still idle.
const GIVE_UP: &str = "UPDATE {s}.sessions s SET locked_until = $3 \
     WHERE s.session_id = $1 AND s.owner = $2 AND s.locked_until > $3 AND NOT EXISTS ( \
       SELECT 1 FROM {s}.work_items w WHERE w.session_id = s.session_id AND w.lock_nonce IS NOT NULL \
         AND w.ready_at > $3)";
const TRY_RESERVE: &str = "SELECT pg_try_advisory_xact_lock($1)";
const TAKE: &str = "WITH t AS (UPDATE {s}.work_items w SET ready_at = $2::bigint, suspect = TRUE, \
       suspect_before = w.suspect, attempts = least(w.attempts, 4294967294) + 1, lock_nonce = $3::bigint \
       FROM {s}.work_items before WHERE w.id = $1 AND before.id = w.id \
         AND octet_length(w.item) <= $5::bigint \
       RETURNING w.id, w.lock_nonce, w.attempts, w.suspect_before, w.progress, w.item, \
       w.instance_id, w.bounce, before.lock_nonce AS held, w.forgiven) \
     SELECT t.id, t.lock_nonce, t.attempts, t.suspect_before, t.progress, t.item, i.name, i.version, $4::bigint, \
       t.bounce, t.held, t.forgiven \
     FROM t LEFT JOIN {s}.instances i ON i.instance_id = ANY (ARRAY[t.instance_id])";
const CLAIM: &str = "INSERT INTO {s}.sessions AS s (session_id, owner, locked_until, last_activity_at) \
     VALUES ($1, $2, $3, $4) ON CONFLICT (session_id) DO UPDATE SET owner = $2, last_activity_at = $4, \
     locked_until = CASE WHEN s.locked_until <= $4 THEN $3 ELSE greatest(s.locked_until, $5::bigint) END";

/// Whether an owner may begin with a session that has nothing in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// As many of its sessions as it allows have something in progress.
    Full,
}

/// One fetch under way.
struct Fetch<'a> {
    conn: &'a Conn<'a>,
    request: &'a WorkRequest,
    config: Option<&'a SessionFetchConfig>,
    now: Ms,
    next_due: Ms,
    suspects: Suspects,
    /// Sessions that another transaction works on.
    passed: BTreeSet<String>,
    /// What else it may bring.
    room: ByteRoom,
    /// The activities that the node can run, if it routes by handler.
    names: Option<Vec<String>>,
    claims: Claims,
    /// Where a look at the items without a session begins.
    start: Bounds,
}

/// Whether a fetch gave claims up, so that others may have something to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    Kept,
    GivenUp,
}

/// What a fetch brought.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) look: Look<RawWork>,
    pub(crate) claims: Claims,
}

/// Locks the work items that have been ready longest and that the worker accepts, those of sessions included.
pub(crate) async fn fetch(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    request: &WorkRequest,
    start: Bounds,
) -> Result<Fetched, Fault> {
    conn.begin().await?;
    let now: Ms = conn.first(NOW, &[&manual]).await?.map_or(0, |row| row.get(0));
    let mut fetch = Fetch {
        conn,
        request,
        config: request.session.as_ref(),
        now,
        next_due: NEVER,
        suspects: request.suspects,
        passed: BTreeSet::new(),
        room: ByteRoom::for_work(),
        names: request.activities.as_deref().map(names),
        claims: Claims::Kept,
        start,
    };
    let max_items = request.max_items.max(1);
    let mut items = Vec::new();
    let mut plain: std::collections::VecDeque<Candidate> = fetch.plain(max_items).await?.into();
    let mut in_session = fetch.oldest_of_sessions().await?;
    while items.len() < max_items {
        if fetch.suspects == Suspects::Refuse {
            plain.retain(|candidate| !candidate.suspect);
        }
        let from_session =
            in_session.as_ref().is_some_and(|head| plain.front().is_none_or(|first| head < first));
        let candidate = if from_session { in_session.take() } else { plain.pop_front() };
        let Some(candidate) = candidate else { break };
        let Some(work) = fetch.take(&candidate).await? else {
            if items.is_empty() {
                continue;
            }
            // It does not fit into this fetch, so it comes first in the next.
            fetch.due(now);
            break;
        };
        let sound = work.is_sound();
        items.push(work);
        if !sound {
            // It will be set aside, and what comes next decided anew.
            break;
        }
        if candidate.suspect {
            fetch.suspects = fetch.suspects.after_one();
        }
        if from_session || candidate.suspect {
            in_session = fetch.oldest_of_sessions().await?;
        }
    }
    if items.is_empty() {
        fetch.note_plain_due().await?;
    }
    let next_due = if fetch.passed.is_empty() { fetch.next_due } else { now };
    crate::store::end(conn, Ok(())).await?;
    Ok(Fetched { look: Look { items, now, next_due, horizon: None }, claims: fetch.claims })
}

impl Fetch<'_> {
    fn admits_suspects(&self) -> bool {
        self.suspects.are_admitted()
    }

    /// The ready work items without a session, oldest first, with as many suspects among them as are admitted.
    async fn plain(&self, wanted: usize) -> Result<Vec<Candidate>, Fault> {
        let tags = accepted(&self.request.tags);
        let mut found = Vec::new();
        for suspect in [false, true] {
            if suspect && !self.admits_suspects() {
                continue;
            }
            let limit = count(if suspect { self.suspects.limit().min(wanted) } else { wanted });
            let start = if suspect { self.start.suspect } else { self.start.clean };
            let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
                vec![&self.now, &tags, &suspect, &limit, &start];
            let sql = match &self.names {
                None => PLAIN,
                Some(names) => {
                    params.push(names);
                    ROUTED
                }
            };
            let rows = self.conn.query(sql, &params).await?;
            let candidates = rows.iter().map(|row| Candidate {
                ready_at: row.get(0),
                id: row.get(1),
                suspect,
                session: None,
            });
            found.extend(candidates.take(usize::try_from(limit).unwrap_or(usize::MAX)));
        }
        found.sort_unstable();
        found.truncate(wanted);
        Ok(found)
    }

    async fn note_plain_due(&mut self) -> Result<(), Fault> {
        let tags = accepted(&self.request.tags);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&tags, &self.admits_suspects(), &self.now, &self.names];
        let row = self.conn.first(PLAIN_DUE, &params).await?;
        self.due(row.and_then(|row| row.get::<_, Option<Ms>>(0)).unwrap_or(NEVER));
        Ok(())
    }

    fn due(&mut self, at: Ms) {
        self.next_due = self.next_due.min(at);
    }

    /// The oldest ready item of the sessions that this owner may take work of. Its session is locked.
    async fn oldest_of_sessions(&mut self) -> Result<Option<Candidate>, Fault> {
        let Some(config) = self.config else { return Ok(None) };
        let room = self.room(config).await?;
        loop {
            let Some(head) = self.first_open_head(config, room).await? else { return Ok(None) };
            let Some((session_id, _)) = &head.session else { return Ok(None) };
            if !self.reserve(session_id).await? {
                continue;
            }
            // What was read before the lock was ours may have changed.
            if self.first_open_head(config, room).await?.as_ref() == Some(&head) {
                return Ok(Some(head));
            }
        }
    }

    /// Locks a session, unless another transaction works on it.
    async fn reserve(&mut self, session_id: &str) -> Result<bool, Fault> {
        let number = lock_number(self.conn.schema(), "session", session_id);
        let reserved = self.conn.first(TRY_RESERVE, &[&number]).await?.is_some_and(|row| row.get(0));
        if !reserved {
            self.passed.insert(session_id.to_string());
        }
        Ok(reserved)
    }

    async fn first_open_head(
        &mut self,
        config: &SessionFetchConfig,
        room: Room,
    ) -> Result<Option<Candidate>, Fault> {
        let mut waiting = Vec::new();
        let mut first = None;
        for row in self.heads(config, room).await? {
            let ready_at: Ms = row.get(0);
            let open_from = ready_at.max(row.get(5));
            if open_from > self.now {
                self.due(open_from);
                continue;
            }
            let session_id = from_text(row.get(3));
            if room == Room::Full && row.get(6) {
                waiting.push(session_id);
                continue;
            }
            let session = Some((session_id, from_text(row.get(4))));
            first = first.or(Some(Candidate { ready_at, id: row.get(1), suspect: row.get(2), session }));
            if room == Room::Free {
                break;
            }
        }
        for session_id in waiting {
            self.give_up(config, &session_id).await?;
        }
        Ok(first)
    }

    async fn heads(&self, config: &SessionFetchConfig, room: Room) -> Result<Vec<Row>, Fault> {
        let one_at_a_time = match self.request.session_limits.overlap {
            SessionOverlap::OneAtATime => true,
            SessionOverlap::Parallel => false,
        };
        let full = match room {
            Room::Free => false,
            Room::Full => true,
        };
        let tags = accepted(&self.request.tags);
        let owner = owned_text(&config.owner_id);
        let passed: Vec<String> = self.passed.iter().map(|id| owned_text(id)).collect();
        let suspects = self.admits_suspects();
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
            vec![&self.now, &tags, &owner, &one_at_a_time, &suspects, &passed, &full];
        let sql = match &self.names {
            None => HEADS,
            Some(names) => {
                params.push(names);
                ROUTED_HEADS
            }
        };
        self.conn.query(sql, &params).await
    }

    /// Whether the owner has room for another session. If not, the end of a lock is the next chance.
    async fn room(&mut self, config: &SessionFetchConfig) -> Result<Room, Fault> {
        let max_running = self.request.session_limits.max_running;
        if max_running == usize::MAX {
            return Ok(Room::Free);
        }
        let row = self.conn.first(RUNNING, &[&owned_text(&config.owner_id), &self.now]).await?;
        let (running, first_end): (i64, Option<Ms>) = row.map_or((0, None), |row| (row.get(0), row.get(1)));
        if usize::try_from(running).is_ok_and(|running| running < max_running) {
            return Ok(Room::Free);
        }
        self.due(first_end.unwrap_or(NEVER));
        Ok(Room::Full)
    }

    /// Gives up the claim on an idle session that waits for this owner, which has no room for it.
    async fn give_up(&mut self, config: &SessionFetchConfig, session_id: &str) -> Result<(), Fault> {
        if !self.reserve(session_id).await? {
            return Ok(());
        }
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&owned_text(session_id), &owned_text(&config.owner_id), &self.now];
        if self.conn.execute(GIVE_UP, &params).await? > 0 {
            self.claims = Claims::GivenUp;
        }
        Ok(())
    }

    async fn take(&mut self, candidate: &Candidate) -> Result<Option<RawWork>, Fault> {
        let locked_until = after(self.now, self.request.lock_timeout);
        let (nonce, room) = (nonce(self.request.holder), count(self.room.left()));
        let taken = self
            .conn
            .first(TAKE, &[&candidate.id, &locked_until, &nonce, &candidate.ready_at, &room])
            .await?;
        let Some(work) = taken.and_then(|row| RawWork::from_row(&row, 0)) else { return Ok(None) };
        self.room.take(work.bytes());
        if let (Some(place), Some(config), true) = (&candidate.session, self.config, work.is_sound()) {
            let claimed_until = after(self.now, config.lock_timeout).max(locked_until);
            let (session_id, owner) = (owned_text(&place.0), owned_text(&config.owner_id));
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&session_id, &owner, &claimed_until, &self.now, &locked_until];
            self.conn.execute(CLAIM, &params).await?;
            let mut pipeline = Pipeline::default();
            refresh_heads(&mut pipeline, std::iter::once(place));
            pipeline.run(self.conn).await?.all()?;
        }
        Ok(Some(work))
    }
}

/// Extends the live claims of these owners on sessions that were used within `idle_timeout`; how many.
pub(crate) async fn renew(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    owners: &[&str],
    extend_for: Duration,
    idle_timeout: Duration,
) -> Result<usize, Fault> {
    const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) \
         UPDATE {s}.sessions s SET locked_until = greatest((SELECT now FROM c) + $3::bigint, coalesce( \
           (SELECT max(w.ready_at) FROM {s}.work_items w WHERE w.session_id = s.session_id \
            AND w.lock_nonce IS NOT NULL), 0)) \
         WHERE s.owner = ANY($2::text[]) AND s.locked_until > (SELECT now FROM c) \
         AND s.last_activity_at >= (SELECT now FROM c) - $4::bigint";
    let owners: Vec<String> = owners.iter().map(|owner| owned_text(owner)).collect();
    let far = i64::MAX / 4;
    let (extend, idle) = (duration(extend_for).min(far), duration(idle_timeout).min(far));
    let renewed = conn.execute(SQL, &[&manual, &owners, &extend, &idle]).await?;
    Ok(usize::try_from(renewed).unwrap_or(usize::MAX))
}

/// Removes sessions whose claim has expired and for which nothing is queued; how many.
pub(crate) async fn cleanup(conn: &Conn<'_>, manual: Option<Ms>) -> Result<usize, Fault> {
    const SQL: &str = "DELETE FROM {s}.sessions s WHERE s.locked_until <= \
           coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
         AND NOT EXISTS (SELECT 1 FROM {s}.session_heads h WHERE h.session_id = s.session_id)";
    let removed = conn.execute(SQL, &[&manual]).await?;
    Ok(usize::try_from(removed).unwrap_or(usize::MAX))
}
