//! The nodes that work on the store.

use duroxide_core::{HEARTBEATS_UNTIL_GONE, NodeInfo, NodeRecord, check_node_id, limits};

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{Ms, from_column, from_json, from_text, owned_text, to_column, to_json};

/// A hundred years: three of them still fit into a column.
const LONGEST_HEARTBEAT_MS: Ms = 100 * 365 * 24 * 60 * 60 * 1000;

/// Writes [`NodeRecord::after_heartbeat`] in one statement: an idle store runs this more often than all else.
pub(crate) async fn heartbeat(conn: &Conn<'_>, manual: Option<Ms>, info: &NodeInfo) -> Result<(), Fault> {
    const SQL: &str = "WITH c AS MATERIALIZED (SELECT coalesce($1::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) \
         INSERT INTO {s}.nodes AS n (node_id, start_id, heartbeat_ms, joined_at, last_seen, left_at, info) \
         SELECT $2, $3, $4, c.now, c.now, NULL, $5 FROM c ON CONFLICT (node_id) DO UPDATE SET \
         joined_at = CASE WHEN n.start_id = excluded.start_id AND n.left_at IS NULL \
                            AND n.last_seen >= excluded.last_seen - n.heartbeat_ms * $6::bigint \
                          THEN n.joined_at ELSE excluded.joined_at END, \
         start_id = excluded.start_id, heartbeat_ms = excluded.heartbeat_ms, last_seen = excluded.last_seen, \
         left_at = NULL, info = excluded.info RETURNING n.joined_at = n.last_seen, n.last_seen";
    info.check().map_err(Fault::invalid)?;
    let json = to_json(info)?;
    let (node_id, start_id) = (owned_text(&info.node_id), owned_text(&info.start_id));
    let heartbeat_ms = to_column(info.heartbeat_ms).min(LONGEST_HEARTBEAT_MS);
    let patience = to_column(HEARTBEATS_UNTIL_GONE);
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&manual, &node_id, &start_id, &heartbeat_ms, &json, &patience];
    let row = conn.first(SQL, &params).await?;
    match row.filter(|row| row.get(0)) {
        Some(joined) => forget(conn, joined.get(1)).await,
        None => Ok(()),
    }
}

/// Removes the rows that nobody needs any more.
async fn forget(conn: &Conn<'_>, now: Ms) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM {s}.nodes \
         WHERE last_seen + greatest(heartbeat_ms * $2::bigint, $3::bigint) < $1::bigint";
    let retention = to_column(limits::NODE_RETENTION_MS);
    conn.execute(SQL, &[&now, &to_column(HEARTBEATS_UNTIL_GONE), &retention]).await?;
    Ok(())
}

/// Notes that a node takes no more work.
pub(crate) async fn left(conn: &Conn<'_>, manual: Option<Ms>, node_id: &str) -> Result<(), Fault> {
    const SQL: &str = "UPDATE {s}.nodes SET left_at = coalesce($2::bigint, \
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint) WHERE node_id = $1 AND left_at IS NULL";
    check_node_id(node_id).map_err(Fault::invalid)?;
    conn.execute(SQL, &[&owned_text(node_id), &manual]).await?;
    Ok(())
}

/// The nodes that are not forgotten, by id.
pub(crate) async fn list(conn: &Conn<'_>, now: u64) -> Result<Vec<NodeRecord>, Fault> {
    const SQL: &str =
        "SELECT node_id, heartbeat_ms, joined_at, last_seen, left_at, info FROM {s}.nodes ORDER BY node_id";
    let rows = conn.query(SQL, &[]).await?;
    let mut records: Vec<NodeRecord> = rows
        .iter()
        .map(|row| NodeRecord {
            node_id: from_text(row.get(0)),
            heartbeat_ms: from_column(row.get(1)),
            joined_at_ms: from_column(row.get(2)),
            last_seen_ms: from_column(row.get(3)),
            left_at_ms: row.get::<_, Option<Ms>>(4).map(from_column),
            info: from_json(row.get(5)).ok(),
        })
        .collect();
    records.retain(|record| !record.is_forgotten(now));
    Ok(records)
}
