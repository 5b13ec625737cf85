//! One SQLite file for all processes.

use std::path::Path;
use std::sync::Arc;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;

/// Where an empty store is.
pub(crate) async fn create(scratch: &Path) -> String {
    scratch.join("orders.db").display().to_string()
}

pub(crate) async fn open(location: &str) -> Arc<dyn Provider> {
    let store = SqliteProvider::new(&format!("sqlite:{location}"), None).await;
    Arc::new(store.expect("the store opens"))
}

/// What a child needs besides: nothing.
pub(crate) fn environment() -> Option<(&'static str, String)> {
    None
}
