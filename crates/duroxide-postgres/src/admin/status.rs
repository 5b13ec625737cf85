//! What can be read of one instance: its status, custom status, KV store and size.

use std::collections::HashMap;

use duroxide_core::{ErrorDetails, Event, OrchestrationStatus, WorkItem, carried_messages, unread_messages};
use duroxide_provider::SystemStats;
use duroxide_provider::support::Status;
use tokio_postgres::Row;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::rows::execution_row::stored_status;
use crate::values::{from_column, from_json, from_text, owned_text, to_column};

/// What a client sees of an instance: one read by primary keys, whatever the length of its history.
pub(crate) async fn orchestration_status(
    conn: &Conn<'_>,
    instance: &str,
) -> Result<OrchestrationStatus, Fault> {
    // By both columns of the key, even if the plan was made while the tables were empty.
    const SQL: &str = "SELECT i.status, c.status, c.version, e.output, e.failure FROM {s}.instances i \
         JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) \
         LEFT JOIN {s}.custom_statuses c ON c.instance_key = ANY (ARRAY[i.key]) \
         LEFT JOIN LATERAL (SELECT e.output, e.failure FROM {s}.executions e \
           WHERE e.instance_key = q.key AND e.execution_id = q.current_execution_id OFFSET 0) e ON TRUE \
         WHERE i.instance_id = $1";
    let Some(row) = conn.first(SQL, &[&owned_text(instance)]).await? else {
        return Ok(OrchestrationStatus::NotFound);
    };
    let text = |column: usize| row.get::<_, Option<String>>(column).map(from_text);
    let custom_status = text(1);
    let custom_status_version = from_column(row.get::<_, Option<i64>>(2).unwrap_or(0));
    let output = text(3).unwrap_or_default();
    match stored_status(row.get(0))? {
        Status::Running | Status::ContinuedAsNew => {
            Ok(OrchestrationStatus::Running { custom_status, custom_status_version })
        }
        Status::Completed => {
            Ok(OrchestrationStatus::Completed { output, custom_status, custom_status_version })
        }
        Status::Failed => {
            let details = match row.get::<_, Option<String>>(4) {
                Some(json) => from_json(&json).map_err(|cause| {
                    Fault::corrupt(format!("the failure of instance '{instance}': {cause}"))
                })?,
                None => ErrorDetails::orchestration_failed(output),
            };
            Ok(OrchestrationStatus::Failed { details, custom_status, custom_status_version })
        }
    }
}

/// The custom status, if its version is above `last_seen`.
pub(crate) async fn custom_status(
    conn: &Conn<'_>,
    instance: &str,
    last_seen: u64,
) -> Result<Option<(Option<String>, u64)>, Fault> {
    const SQL: &str = "SELECT c.status, c.version FROM {s}.instances i \
         JOIN {s}.custom_statuses c ON c.instance_key = ANY (ARRAY[i.key]) WHERE i.instance_id = $1 AND c.version > $2";
    let row = conn.first(SQL, &[&owned_text(instance), &to_column(last_seen)]).await?;
    Ok(row.map(|row| (row.get::<_, Option<String>>(0).map(from_text), from_column(row.get(1)))))
}

/// One value of a KV store.
pub(crate) async fn kv_value(conn: &Conn<'_>, instance: &str, key: &str) -> Result<Option<String>, Fault> {
    const SQL: &str = "SELECT kv.value FROM {s}.instances i JOIN {s}.kv ON kv.instance_key = ANY (ARRAY[i.key]) \
         WHERE i.instance_id = $1 AND kv.key = $2";
    let row = conn.first(SQL, &[&owned_text(instance), &owned_text(key)]).await?;
    Ok(row.map(|row| from_text(row.get(0))))
}

/// All values of a KV store.
pub(crate) async fn kv_all_values(conn: &Conn<'_>, instance: &str) -> Result<HashMap<String, String>, Fault> {
    const SQL: &str = "SELECT kv.key, kv.value FROM {s}.instances i JOIN {s}.kv ON kv.instance_key = ANY (ARRAY[i.key]) \
         WHERE i.instance_id = $1";
    let rows = conn.query(SQL, &[&owned_text(instance)]).await?;
    Ok(rows.iter().map(|row| (from_text(row.get(0)), from_text(row.get(1)))).collect())
}

/// The size of an instance. The history comes along, for the messages in it that the program has not read.
pub(crate) async fn stats(conn: &Conn<'_>, instance: &str) -> Result<Option<SystemStats>, Fault> {
    // One statement, so that a message is not seen both in the inbox and in the history.
    const SQL: &str = "SELECT s.*, h.event FROM (\
           SELECT e.event_count, e.history_bytes, q.inbox_count, \
             (SELECT count(*) FROM {s}.kv WHERE instance_key = i.key) AS keys, \
             (SELECT coalesce(sum(octet_length(value)), 0)::bigint FROM {s}.kv WHERE instance_key = i.key) AS bytes, \
             (SELECT n.item FROM {s}.inbox n WHERE n.instance_key = i.key \
               ORDER BY n.visible_at, n.position LIMIT 1) AS first_item, \
             q.key, q.current_execution_id \
           FROM {s}.instances i JOIN {s}.queues q ON q.key = ANY (ARRAY[i.key]) \
           LEFT JOIN LATERAL (SELECT e.event_count, e.history_bytes FROM {s}.executions e \
             WHERE e.instance_key = q.key AND e.execution_id = q.current_execution_id OFFSET 0) e ON TRUE \
           WHERE i.instance_id = $1 OFFSET 0) s \
         LEFT JOIN LATERAL (SELECT h.event_id, h.event FROM {s}.history h \
           WHERE h.instance_key = s.key AND h.execution_id = s.current_execution_id OFFSET 0) h ON TRUE \
         ORDER BY h.event_id";
    let rows = conn.query(SQL, &[&owned_text(instance)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(SystemStats {
        history_event_count: row.get::<_, Option<i64>>(0).map_or(0, from_column),
        history_size_bytes: row.get::<_, Option<i64>>(1).map_or(0, from_column),
        queue_pending_count: from_column(row.get(2)) + pending_besides_inbox(&rows),
        kv_user_key_count: from_column(row.get(3)),
        kv_total_value_bytes: from_column(row.get(4)),
    }))
}

/// The messages that have arrived or are carried and that the program has not read. A history that does not decode has
/// none: the turn that reads it tells.
fn pending_besides_inbox(rows: &[Row]) -> u64 {
    let stored = |row: &Row| row.get::<_, Option<&str>>(8).map(from_json::<Event>);
    let history: Result<Vec<Event>, String> = rows.iter().filter_map(stored).collect();
    match history {
        // The start of the next execution stands before all else in the inbox.
        Ok(events) if events.is_empty() => {
            let first = rows.first().and_then(|row| row.get::<_, Option<&str>>(5)).map(from_json::<WorkItem>);
            first.and_then(Result::ok).map_or(0, |item| carried_messages(&item))
        }
        Ok(events) => unread_messages(&events),
        Err(_) => 0,
    }
}
