//! Work that no node can do: locking it, so that it can be ended.
//!
//! The nodes are looked at before rows are locked, to know which, and again after that: one that joined meanwhile
//! is then seen, and one that joins later finds what was locked gone, as if it had joined after the end.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::EndingRule;
use duroxide_provider::rules::{Call, expires_at, nonces};
use duroxide_provider::support::{millis, one_turn};
use duroxide_provider::{FetchedTurn, FetchedWork, LockHolder, ProviderError, SweepRequest};
use tokio_postgres::Row;

use crate::admin::instances::now_ms;
use crate::connections::connection::Conn;
use crate::connections::pipeline::{Pipeline, values};
use crate::fault::Fault;
use crate::fetch::fetch_turn::{self, RawTurn};
use crate::fetch::fetch_work::RawWork;
use crate::group::call::Delivery;
use crate::rows::flush::refresh_heads;
use crate::rows::working_set::{RESERVE, reservations};
use crate::store::{PostgresProvider, transaction};
use crate::upkeep::nodes;
use crate::upkeep::sweep::{
    Keys, Names, keys_asked, names_asked, place, turn_needs, under_keys, under_names, work_needs,
};
use crate::values::{Ms, count, duration, from_text, to_column};

impl PostgresProvider {
    /// Locks instances whose next turn no node can run, if they may be ended.
    pub(crate) async fn sweep_turns(&self, request: SweepRequest) -> Result<Vec<FetchedTurn>, ProviderError> {
        const OPERATION: &str = "fetch_unprocessable_turns";
        let manual = self.manual();
        let locked: Result<_, ProviderError> =
            transaction!(self, OPERATION, conn => turns(&conn, manual, &request));
        // Given back if the caller goes away meanwhile.
        let (found, guard) = Delivery::new(locked?, Arc::clone(&self.inbox)).open();
        let like = one_turn(request.lock_timeout, Duration::ZERO, None);
        let mut turns = Vec::with_capacity(found.len());
        for raw in found {
            turns.extend(self.admit(OPERATION, raw, &like).await?);
        }
        guard.arrived();
        Ok(turns)
    }

    /// Locks activities that no node can run, if they may be ended.
    pub(crate) async fn sweep_work(&self, request: SweepRequest) -> Result<Vec<FetchedWork>, ProviderError> {
        const OPERATION: &str = "fetch_unprocessable_work";
        let manual = self.manual();
        let locked: Result<_, ProviderError> =
            transaction!(self, OPERATION, conn => work(&conn, manual, &request));
        let (found, guard) = Delivery::new(locked?, Arc::clone(&self.inbox)).open();
        let mut work = Vec::with_capacity(found.len());
        for raw in found {
            match raw.decode() {
                Ok(fetched) => work.push(fetched),
                Err((token, cause)) => self.carry(OPERATION, Call::AsideWork { token, cause }).await?,
            }
        }
        guard.arrived();
        Ok(work)
    }
}

/// In a transaction that the caller began.
async fn turns(conn: &Conn<'_>, manual: Option<Ms>, request: &SweepRequest) -> Result<Vec<RawTurn>, Fault> {
    // Both the time since its first message is visible and the time since its last turn count.
    const LOCK: &str = concat!(
        keys_asked!(),
        ", found AS MATERIALIZED (SELECT y.o, y.key, y.ready_at FROM (",
        under_keys!("q.key, q.ready_at, q.updated_at"),
        ") y WHERE y.ready_at <= $4::bigint AND y.updated_at <= $5::bigint AND \
            (SELECT n.visible_at FROM {s}.inbox n WHERE n.instance_key = y.key ORDER BY n.visible_at LIMIT 1) \
              <= $5::bigint ORDER BY y.ready_at, y.key LIMIT $6::bigint) \
         SELECT f.o, q.key FROM found f JOIN d ON d.o = f.o JOIN {s}.queues q ON q.key = ANY (ARRAY[f.key]) \
         WHERE q.ready_at <= $4::bigint AND q.updated_at <= $5::bigint AND q.pinned_key = d.k AND \
           CASE WHEN d.n = '' THEN q.cancelled OR q.route_name = '' \
                ELSE q.route_name = d.n AND q.route_version = d.v AND NOT q.cancelled END \
         ORDER BY f.ready_at, f.key FOR UPDATE OF q SKIP LOCKED"
    );
    const PICKED: &str = "SELECT set_config('duroxide.picked', $1::bigint[]::text, TRUE), \
         set_config('duroxide.now', $2::bigint::text, TRUE)";
    let end_after = millis(request.end_after);
    let before = nodes::list(conn, now_ms(conn, manual).await?).await?;
    let now = now_ms(conn, manual).await?;
    let Some(rule) = EndingRule::new(&before, now, end_after) else { return Ok(Vec::new()) };
    let keys = Keys::among(turn_needs(conn).await?, |need| rule.is_out_of_reach(need));
    if keys.needs.is_empty() {
        return Ok(Vec::new());
    }
    let (at, since) = (to_column(now), to_column(rule.waiting_since_ms()));
    let limit = count(request.max_items.max(1));
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&keys.pinned, &keys.names, &keys.versions, &at, &since, &limit];
    let locked = conn.query(LOCK, &params).await?;
    let after = nodes::list(conn, now).await?;
    let Some(rule) = EndingRule::new(&after, now, end_after) else { return Ok(Vec::new()) };
    let doomed = |row: &&Row| place(&keys.needs, row.get(0)).is_some_and(|need| rule.is_out_of_reach(need));
    let doomed: Vec<i64> = locked.iter().filter(doomed).map(|row| row.get(1)).collect();
    let mut pipeline = Pipeline::default();
    pipeline.add(PICKED, values![doomed.clone(), at]);
    let taken = fetch_turn::take(&mut pipeline, request.lock_timeout, LockHolder::UNKNOWN, doomed.len());
    let answers = pipeline.run(conn).await?.all()?;
    let rows = answers.get(taken).map(Vec::as_slice).unwrap_or_default();
    let expires_at = expires_at(at, request.lock_timeout);
    Ok(rows.iter().map(|row| RawTurn::from_row(row, at, expires_at)).collect())
}

/// In a transaction that the caller began. Those of sessions are among them; no session is claimed.
async fn work(conn: &Conn<'_>, manual: Option<Ms>, request: &SweepRequest) -> Result<Vec<RawWork>, Fault> {
    const LOCK: &str = concat!(
        names_asked!(),
        ", found AS MATERIALIZED (SELECT y.o, y.id, y.ready_at FROM (",
        under_names!("w.id, w.ready_at, w.visible_at"),
        ") y WHERE y.ready_at <= $3::bigint AND y.visible_at <= $4::bigint \
            ORDER BY y.ready_at, y.id LIMIT $5::bigint) \
         SELECT f.o, w.id, w.ready_at, w.session_id, w.tag, w.lock_nonce FROM found f JOIN {s}.work_items w ON w.id = ANY (ARRAY[f.id]) \
         WHERE w.ready_at <= $3::bigint AND w.visible_at <= $4::bigint \
         ORDER BY f.ready_at, f.id FOR UPDATE OF w SKIP LOCKED"
    );
    const TAKE: &str = "WITH p AS MATERIALIZED (SELECT u.id, u.ready_at, u.nonce, u.held, u.n \
           FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::bigint[]) \
             WITH ORDINALITY AS u (id, ready_at, nonce, held, n)), \
         t AS (UPDATE {s}.work_items w SET ready_at = $4::bigint, suspect = TRUE, suspect_before = w.suspect, \
           attempts = least(w.attempts, 4294967294) + 1, lock_nonce = p.nonce FROM p WHERE w.id = ANY (ARRAY[p.id]) \
           RETURNING p.n, w.id, w.lock_nonce, w.attempts, w.suspect_before, w.progress, w.item, w.instance_id, \
             p.ready_at, w.bounce, p.held, w.forgiven) \
         SELECT t.id, t.lock_nonce, t.attempts, t.suspect_before, t.progress, t.item, i.name, i.version, t.ready_at, \
           t.bounce, t.held, t.forgiven \
         FROM t LEFT JOIN {s}.instances i ON i.instance_id = ANY (ARRAY[t.instance_id]) ORDER BY t.n";
    let end_after = millis(request.end_after);
    let before = nodes::list(conn, now_ms(conn, manual).await?).await?;
    let now = now_ms(conn, manual).await?;
    let Some(rule) = EndingRule::new(&before, now, end_after) else { return Ok(Vec::new()) };
    let names = Names::among(work_needs(conn).await?, |need| rule.is_out_of_reach(need));
    if names.needs.is_empty() {
        return Ok(Vec::new());
    }
    let (at, since) = (to_column(now), to_column(rule.waiting_since_ms()));
    let limit = count(request.max_items.max(1));
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&names.tags, &names.names, &at, &since, &limit];
    let locked = conn.query(LOCK, &params).await?;
    let after = nodes::list(conn, now).await?;
    let Some(rule) = EndingRule::new(&after, now, end_after) else { return Ok(Vec::new()) };
    let doomed = |row: &&Row| place(&names.needs, row.get(0)).is_some_and(|need| rule.is_out_of_reach(need));
    let doomed: Vec<&Row> = locked.iter().filter(doomed).collect();
    let ids: Vec<i64> = doomed.iter().map(|row| row.get(1)).collect();
    let ready: Vec<Ms> = doomed.iter().map(|row| row.get(2)).collect();
    let held: Vec<Option<i64>> = doomed.iter().map(|row| row.get(5)).collect();
    let touched: std::collections::BTreeSet<(String, String)> = doomed
        .iter()
        .filter_map(|row| Some((from_text(row.get::<_, Option<String>>(3)?), from_text(row.get(4)))))
        .collect();
    let locked_until = at.saturating_add(duration(request.lock_timeout));
    let mut pipeline = Pipeline::default();
    let taken = pipeline
        .add(TAKE, values![ids.clone(), ready, nonces(LockHolder::UNKNOWN, ids.len()), locked_until, held]);
    if !touched.is_empty() {
        let sessions: std::collections::BTreeSet<&String> =
            touched.iter().map(|(session, _)| session).collect();
        pipeline.add(RESERVE, values![reservations(conn.schema(), "session", sessions)]);
        refresh_heads(&mut pipeline, touched.iter());
    }
    let answers = pipeline.run(conn).await?.all()?;
    let rows = answers.get(taken).map(Vec::as_slice).unwrap_or_default();
    Ok(rows.iter().filter_map(|row| RawWork::from_row(row, 0)).collect())
}
