//! The PostgreSQL server of a run: the one that the environment names, or a private one with full durability.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use private_postgres::{Durability, Server, URL_VARIABLE};

use super::Failure;

/// The server that this run started. It ends with the process.
static STARTED: Mutex<Option<Server>> = Mutex::new(None);

/// The server's URL.
pub(crate) fn url(dir: &Path) -> Result<String, Failure> {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        return Ok(url);
    }
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = &*started {
        return Ok(server.url().to_string());
    }
    let server = Server::start_in(dir, Durability::Full)?;
    let url = server.url().to_string();
    *started = Some(server);
    Ok(url)
}

/// A name that no other run uses.
pub(crate) fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("bench_{}_{}", now.as_millis(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// What the server says about its durability.
pub(crate) async fn settings(url: &str) -> Result<String, Failure> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let mut found = Vec::new();
    for name in ["fsync", "synchronous_commit"] {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await?;
        found.push(row.get::<_, String>(0));
    }
    Ok(found.join(" / "))
}
