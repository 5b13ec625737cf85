//! SQLite stores: made, kept as SQL, and restored.

use std::path::Path;
use std::sync::Arc;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use rusqlite::Connection;

use crate::shared::kept::text;
use crate::shared::resumed::ResumedClock;

const DUMP: &str = "store.sql";

/// Where an empty store is.
pub(crate) async fn create(scratch: &Path) -> String {
    scratch.join("store.db").display().to_string()
}

/// What a child needs besides: nothing.
pub(crate) fn environment() -> Option<(&'static str, String)> {
    None
}

/// Opens a store; one that was kept goes on from the moment at which it was.
pub(crate) async fn open(location: &str, kept_at_ms: Option<u64>) -> Arc<dyn Provider> {
    let mut options = SqliteOptions::default();
    if let Some(kept_at_ms) = kept_at_ms {
        options.clock = Arc::new(ResumedClock::new(kept_at_ms));
    }
    let store = SqliteProvider::new(&format!("sqlite:{location}"), Some(options)).await;
    Arc::new(store.expect("the store opens"))
}

/// Writes a store as SQL, in one transaction. Gives the time at which it was.
pub(crate) async fn dump(location: &str, directory: &Path) -> u64 {
    let mut raw = Connection::open(location).expect("the file opens");
    let raw = raw.transaction().expect("it can be read");
    let number = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("it can be read");
    let mut sql = String::from("BEGIN;\n");
    for pragma in ["application_id", "user_version"] {
        sql += &format!("PRAGMA {pragma} = {};\n", number(&format!("PRAGMA {pragma}")));
    }
    let objects = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' \
                   ORDER BY type = 'index', rootpage";
    for object in texts(&raw, objects) {
        sql += &format!("{object};\n");
    }
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1";
    for table in texts(&raw, tables) {
        let columns = texts(&raw, &format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid"));
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        let rows = format!("SELECT {} FROM {table} ORDER BY 1", quoted.join(" || ',' || "));
        let rows: Vec<String> = texts(&raw, &rows).into_iter().map(|row| format!("({row})")).collect();
        if !rows.is_empty() {
            sql += &format!("INSERT INTO {table} ({}) VALUES\n{};\n", columns.join(","), rows.join(",\n"));
        }
    }
    std::fs::write(directory.join(DUMP), sql + "COMMIT;\n").expect("the file can be written");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("it fits")
}

fn texts(raw: &Connection, sql: &str) -> Vec<String> {
    let mut statement = raw.prepare(sql).expect("the statement is right");
    let rows = statement.query_map([], |row| row.get(0)).expect("it can be read");
    rows.map(|row| row.expect("it can be read")).collect()
}

/// Makes the store again that was kept; where it is.
pub(crate) async fn restore(directory: &Path, scratch: &Path) -> String {
    let location = create(scratch).await;
    let raw = Connection::open(&location).expect("the file opens");
    raw.execute_batch(&text(&directory.join(DUMP))).expect("the dump is SQL");
    location
}

/// What a node could not read and set aside.
pub(crate) use duroxide::providers::sqlite::SetAsideItem as SetAside;

pub(crate) async fn set_aside(location: &str) -> Vec<SetAside> {
    let store = SqliteProvider::new(&format!("sqlite:{location}"), None).await.expect("the store opens");
    store.list_set_aside().await.expect("listed")
}

/// Waits until other processes have made the store and this many nodes are on it.
pub(crate) async fn wait_for_nodes(location: &str, count: usize) {
    let nodes = || -> rusqlite::Result<i64> {
        Connection::open(location)?.query_row("SELECT count(*) FROM nodes", [], |row| row.get(0))
    };
    // Until the store is made there is no such table.
    while !nodes().is_ok_and(|nodes| usize::try_from(nodes).is_ok_and(|nodes| nodes >= count)) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
