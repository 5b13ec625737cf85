//! Reading work items: their rows, what waits, and which locks are lost.

use std::time::Duration;

use duroxide_provider::WaitingByTag;
use duroxide_provider::rules::{Place, Token, WorkRow};
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{Ms, from_column, from_text};

/// The work item in the columns from `at` on, but for the name of its activity.
pub(crate) fn read(row: &Row, at: usize) -> WorkRow {
    WorkRow {
        id: row.get(at),
        nonce: row.get(at + 1),
        stored_nonce: row.get(at + 1),
        ready_at: row.get(at + 2),
        place: Place {
            tag: from_text(row.get(at + 3)),
            session_id: row.get::<_, Option<String>>(at + 4).map(from_text),
            name: String::new(),
        },
        instance: from_text(row.get(at + 5)),
        execution_id: from_column(row.get(at + 6)),
        activity_id: from_column(row.get(at + 7)),
        visible_at: row.get(at + 8),
        suspect_before: row.get(at + 9),
        attempts: row.get(at + 10),
    }
}

/// The work item in a row of the same columns and the name.
pub(crate) fn read_named(row: &Row) -> WorkRow {
    let mut work = read(row, 0);
    work.place.name = from_text(row.get(11));
    work
}

/// What waits for a worker, by tag.
pub(crate) async fn waiting_by_tag(conn: &Conn<'_>, manual: Option<Ms>) -> Result<Vec<WaitingByTag>, Fault> {
    const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) \
         SELECT w.tag, count(*), (SELECT now FROM c) - min(coalesce(w.waiting_since, w.visible_at)) FROM {s}.work_items w \
         WHERE w.lock_nonce IS NULL OR w.ready_at <= (SELECT now FROM c) GROUP BY w.tag ORDER BY w.tag";
    let rows = conn.query(SQL, &[&manual]).await?;
    let waiting = rows.iter().map(|row| {
        let tag: String = from_text(row.get(0));
        WaitingByTag {
            tag: (!tag.is_empty()).then_some(tag),
            waiting: usize::try_from(row.get::<_, i64>(1)).unwrap_or(0),
            oldest_age: Duration::from_millis(from_column(row.get(2))),
        }
    });
    Ok(waiting.collect())
}

/// Which of these tokens hold no work item any more.
pub(crate) async fn lost(
    conn: &Conn<'_>,
    manual: Option<Ms>,
    tokens: &[String],
) -> Result<Vec<String>, Fault> {
    const SQL: &str = "SELECT u.key, u.nonce FROM unnest($2::bigint[], $3::bigint[]) AS u (key, nonce) \
         JOIN {s}.work_items w ON w.id = ANY (ARRAY[u.key]) AND w.lock_nonce = u.nonce \
         WHERE w.ready_at > coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";
    let parsed: Vec<Token> = tokens.iter().filter_map(|text| Token::parse(text).ok()).collect();
    let keys: Vec<i64> = parsed.iter().map(|token| token.key).collect();
    let nonces: Vec<i64> = parsed.iter().map(|token| token.nonce).collect();
    let rows = conn.query(SQL, &[&manual, &keys, &nonces]).await?;
    let held: std::collections::HashSet<(i64, i64)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_lost =
        |text: &&String| Token::parse(text).map_or(true, |token| !held.contains(&(token.key, token.nonce)));
    Ok(tokens.iter().filter(is_lost).cloned().collect())
}
