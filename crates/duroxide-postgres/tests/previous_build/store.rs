//! PostgreSQL schemas: made, kept as SQL, and restored.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use duroxide::providers::Provider;
use duroxide_postgres::PostgresOptions;
use private_postgres::{URL_VARIABLE, program};

use crate::shared::kept::text;
use crate::shared::resumed::ResumedClock;
use crate::support::{self, new_schema, options, raw, url};

const DUMP: &str = "schema.sql";
/// What stands in a dump for the name of the schema.
const PLACEHOLDER: &str = "duroxide_kept_schema";

/// The name of a schema that does not exist yet.
pub(crate) async fn create(_scratch: &Path) -> String {
    new_schema()
}

/// What a child needs besides: the server.
pub(crate) fn environment() -> Option<(&'static str, String)> {
    Some((URL_VARIABLE, url()))
}

/// Opens a store; one that was kept goes on from the moment at which it was.
pub(crate) async fn open(schema: &str, kept_at_ms: Option<u64>) -> Arc<dyn Provider> {
    let mut options = PostgresOptions { pool_size: 4, ..options(schema) };
    if let Some(kept_at_ms) = kept_at_ms {
        options.clock = Some(Arc::new(ResumedClock::new(kept_at_ms)));
    }
    Arc::new(support::open(options).await)
}

/// Writes a schema as SQL. Gives the time at which it was.
pub(crate) async fn dump(schema: &str, directory: &Path) -> u64 {
    let row = raw().await.query_one("SELECT (extract(epoch FROM now()) * 1000)::bigint", &[]).await;
    let now_ms: i64 = row.expect("the server tells its time").get(0);
    let dump = Command::new(program("pg_dump").expect("installed"))
        .args(["--schema", schema, "--inserts", "--rows-per-insert=1000", "--no-owner", "--no-privileges"])
        .arg(url())
        .output()
        .expect("pg_dump starts");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let sql = String::from_utf8(dump.stdout).expect("a dump is text");
    // Settings and commands of psql differ from one version of the server to the next, and none of them matters here.
    let is_kept = |line: &&str| {
        !["--", "SET ", "\\", "SELECT pg_catalog.set_config"].iter().any(|start| line.starts_with(start))
            && !line.is_empty()
    };
    let lines: Vec<&str> = sql.lines().filter(is_kept).collect();
    let sql = lines.join("\n").replace(schema, PLACEHOLDER);
    std::fs::write(directory.join(DUMP), sql + "\n").expect("the file can be written");
    u64::try_from(now_ms).expect("after 1970")
}

/// Makes the schema again that was kept; its name.
pub(crate) async fn restore(directory: &Path, _scratch: &Path) -> String {
    let schema = new_schema();
    let sql = text(&directory.join(DUMP)).replace(PLACEHOLDER, &schema);
    raw().await.batch_execute(&sql).await.expect("the dump is SQL");
    schema
}

/// What a node could not read and set aside.
pub(crate) use duroxide_postgres::SetAsideItem as SetAside;

pub(crate) async fn set_aside(schema: &str) -> Vec<SetAside> {
    let store = support::open(options(schema)).await;
    store.list_set_aside().await.expect("listed")
}

/// Waits until other processes have made the store and this many nodes are on it.
pub(crate) async fn wait_for_nodes(schema: &str, count: usize) {
    let raw = raw().await;
    let nodes = async || raw.query_one(&format!("SELECT count(*) FROM {schema}.nodes"), &[]).await;
    // Until the store is made there is no such table.
    while !nodes()
        .await
        .is_ok_and(|row| usize::try_from(row.get::<_, i64>(0)).is_ok_and(|nodes| nodes >= count))
    {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
