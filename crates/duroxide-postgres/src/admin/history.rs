//! Reading histories.

use duroxide_core::Event;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{from_column, from_json, owned_text, to_column};

/// An event that does not decode.
#[derive(Debug)]
pub(crate) struct Undecodable {
    pub(crate) event_id: u64,
    pub(crate) cause: String,
}

/// The events of one execution up to `last_event_id`, or the first that does not decode.
pub(crate) async fn load(
    conn: &Conn<'_>,
    key: i64,
    execution_id: u64,
    last_event_id: u64,
) -> Result<Result<Vec<Event>, Undecodable>, Fault> {
    const SQL: &str = "SELECT event_id, event FROM {s}.history WHERE instance_key = $1 AND execution_id = $2 \
         AND event_id <= $3 ORDER BY event_id";
    let rows = conn.query(SQL, &[&key, &to_column(execution_id), &to_column(last_event_id)]).await?;
    Ok(rows.iter().map(decode).collect())
}

/// The last events of one execution in their order, or the first of them that does not decode.
async fn load_last(
    conn: &Conn<'_>,
    key: i64,
    execution_id: u64,
    count: u32,
) -> Result<Result<Vec<Event>, Undecodable>, Fault> {
    const SQL: &str = "SELECT event_id, event FROM {s}.history WHERE instance_key = $1 AND execution_id = $2 \
         ORDER BY event_id DESC LIMIT $3";
    let rows = conn.query(SQL, &[&key, &to_column(execution_id), &i64::from(count)]).await?;
    Ok(rows.iter().rev().map(decode).collect())
}

fn decode(row: &tokio_postgres::Row) -> Result<Event, Undecodable> {
    let stored: &str = row.get(1);
    from_json(stored).map_err(|cause| Undecodable { event_id: from_column(row.get(0)), cause })
}

/// The history of an execution, of the latest without an id; empty for an unknown one. `last` limits it to so many
/// events at its end.
pub(crate) async fn read(
    conn: &Conn<'_>,
    instance: &str,
    execution_id: Option<u64>,
    last: Option<u32>,
) -> Result<Vec<Event>, Fault> {
    const SQL: &str = "SELECT q.key, q.current_execution_id FROM {s}.instances i \
         JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) WHERE i.instance_id = $1";
    let Some(row) = conn.first(SQL, &[&owned_text(instance)]).await? else { return Ok(Vec::new()) };
    let execution_id = execution_id.unwrap_or(from_column(row.get(1)));
    let read = match last {
        None => load(conn, row.get(0), execution_id, u64::MAX).await?,
        Some(count) => load_last(conn, row.get(0), execution_id, count).await?,
    };
    read.map_err(|error| {
        Fault::corrupt(format!(
            "event {} of execution {execution_id} of '{instance}': {}",
            error.event_id, error.cause
        ))
    })
}
