//! The messages kept for failed instances.

use duroxide_core::WorkItem;

use super::db::Db;
use super::fault::Fault;
use super::instance_row::key_of;
use super::load::kept_items;

/// The messages kept for an instance, in their order; none for an unknown one.
pub(super) fn kept_messages(db: &Db, instance: &str) -> Result<Vec<WorkItem>, Fault> {
    db.snapshot(|db| match key_of(db, instance)? {
        Some(key) => kept_items(db, key, 0),
        None => Ok(Vec::new()),
    })
}
