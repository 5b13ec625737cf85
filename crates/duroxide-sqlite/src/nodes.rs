//! The nodes that work on the store.

use duroxide_core::{HEARTBEATS_UNTIL_GONE, NodeInfo, NodeRecord, check_node_id, limits};

use super::db::Db;
use super::fault::Fault;
use super::tx::Tx;
use super::values::{Ms, from_column, from_json, to_column, to_json};

/// A heartbeat with its stored form, which is made before the writer is asked.
#[derive(Debug)]
pub(super) struct Heartbeat {
    info: NodeInfo,
    pub(super) json: String,
}

impl Heartbeat {
    pub(super) fn new(info: NodeInfo) -> Result<Self, Fault> {
        info.check().map_err(Fault::Invalid)?;
        let json = to_json(&info)?;
        Ok(Self { info, json })
    }

    /// Writes [`NodeRecord::after_heartbeat`] in one statement: an idle store runs this more often than all else.
    pub(super) fn write(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        const SQL: &str = "INSERT INTO nodes (node_id, start_id, heartbeat_ms, joined_at, last_seen, left_at, info) \
             VALUES (?1, ?2, ?3, ?4, ?4, NULL, ?5) ON CONFLICT (node_id) DO UPDATE SET \
             joined_at = CASE WHEN start_id = ?2 AND left_at IS NULL AND last_seen >= ?4 - heartbeat_ms * ?6 \
                              THEN joined_at ELSE ?4 END, \
             start_id = ?2, heartbeat_ms = ?3, last_seen = ?4, left_at = NULL, info = ?5 RETURNING joined_at";
        let info = &self.info;
        let heartbeat_ms = to_column(info.heartbeat_ms).min(LONGEST_HEARTBEAT_MS);
        let patience = to_column(HEARTBEATS_UNTIL_GONE);
        let params = (&info.node_id, &info.start_id, heartbeat_ms, tx.now, &self.json, patience);
        tx.leaves_rows();
        let joined_at: Option<Ms> = tx.db.first(SQL, params, |row| row.get(0))?;
        if joined_at == Some(tx.now) { forget(tx) } else { Ok(()) }
    }
}

/// A hundred years: three of them still fit into a column.
const LONGEST_HEARTBEAT_MS: Ms = 100 * 365 * 24 * 60 * 60 * 1000;

/// Removes the rows that nobody needs any more.
fn forget(tx: &Tx<'_>) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM nodes WHERE last_seen + max(heartbeat_ms * ?2, ?3) < ?1";
    let retention = to_column(limits::NODE_RETENTION_MS);
    tx.db.execute(SQL, (tx.now, to_column(HEARTBEATS_UNTIL_GONE), retention))?;
    Ok(())
}

/// Notes that a node takes no more work.
pub(super) fn left(tx: &Tx<'_>, node_id: &str) -> Result<(), Fault> {
    check_node_id(node_id).map_err(Fault::Invalid)?;
    tx.db
        .execute("UPDATE nodes SET left_at = ?2 WHERE node_id = ?1 AND left_at IS NULL", (node_id, tx.now))?;
    Ok(())
}

/// The nodes that are not forgotten, by id.
pub(super) fn list(db: &Db, now: Ms) -> Result<Vec<NodeRecord>, Fault> {
    const SQL: &str =
        "SELECT node_id, heartbeat_ms, joined_at, last_seen, left_at, info FROM nodes ORDER BY node_id";
    let mut records = db.all(SQL, [], |row| {
        Ok(NodeRecord {
            node_id: row.get(0)?,
            heartbeat_ms: from_column(row.get(1)?),
            joined_at_ms: from_column(row.get(2)?),
            last_seen_ms: from_column(row.get(3)?),
            left_at_ms: row.get::<_, Option<Ms>>(4)?.map(from_column),
            info: from_json(row.get_ref(5)?).ok(),
        })
    })?;
    records.retain(|record| !record.is_forgotten(from_column(now)));
    Ok(records)
}
