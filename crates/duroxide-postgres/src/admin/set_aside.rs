//! Rows that do not decode: kept in a table of their own, so that they block nobody and nobody loses them.

use duroxide_core::ItemKind;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::values::{from_column, from_text};

/// A row that did not decode and was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAsideItem {
    /// The instance it was for.
    pub instance: String,
    /// The kind of message or work item; `None` when this build does not know it.
    pub kind: Option<ItemKind>,
    /// The execution it was for, where it named one.
    pub execution_id: Option<u64>,
    /// The schedule it belongs to, where it named one.
    pub event_id: Option<u64>,
    /// When it was set aside, in ms since the epoch.
    pub set_aside_at: u64,
    /// Why it did not decode.
    pub cause: String,
}

/// What was set aside, oldest first.
pub(crate) async fn list(conn: &Conn<'_>) -> Result<Vec<SetAsideItem>, Fault> {
    const SQL: &str = "SELECT instance_id, kind, execution_id, event_id, set_aside_at, cause \
         FROM {s}.set_aside ORDER BY id";
    let rows = conn.query(SQL, &[]).await?;
    let items = rows.iter().map(|row| SetAsideItem {
        instance: from_text(row.get(0)),
        kind: ItemKind::from_code(row.get(1)),
        execution_id: row.get::<_, Option<i64>>(2).map(from_column),
        event_id: row.get::<_, Option<i64>>(3).map(from_column),
        set_aside_at: from_column(row.get(4)),
        cause: row.get(5),
    });
    Ok(items.collect())
}
