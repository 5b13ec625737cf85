//! What a schema of a database is, told without opening it as a store.

use std::sync::Arc;

use duroxide_provider::{ProviderError, StoreFacts, StoreSetting};

use crate::connections::connection::{Conn, Target};
use crate::connections::requirements::refused;
use crate::connections::schema;
use crate::fault::Fault;
use crate::open::split;
use crate::options::PostgresOptions;
use crate::statistics::Counters;

/// The settings that are told, each with the value that risks data and what that may lose.
const SETTINGS: [(&str, &str, &str); 5] = [
    ("server_version", "", ""),
    ("fsync", "off", "a crash of the server's machine may destroy the database; set fsync = on"),
    (
        "full_page_writes",
        "off",
        "a crash of the server's machine may destroy pages; set full_page_writes = on",
    ),
    (
        "synchronous_commit",
        "off",
        "a crash of the server may lose the last acknowledged commits; set synchronous_commit = on for the role or the database of the store",
    ),
    ("max_connections", "", ""),
];

/// Tells what the schema that a URL names is, of whatever version. Changes nothing.
pub async fn inspect(url: &str) -> Result<StoreFacts, ProviderError> {
    let (url, options) = split(url);
    let target = Target::new(&url, &options, Arc::new(Counters::default())).map_err(refused)?;
    let failed = |fault: Fault| fault.into_error("inspect");
    let conn = target.connect().await.map_err(failed)?;
    facts_of(&conn, &target.schema, &options).await.map_err(failed)
}

async fn facts_of(conn: &Conn<'_>, schema: &str, options: &PostgresOptions) -> Result<StoreFacts, Fault> {
    const WHERE: &str = "SELECT current_database()::text, \
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
        (SELECT sum(pg_catalog.pg_total_relation_size(c.oid))::bigint FROM pg_catalog.pg_class c \
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
           WHERE n.nspname = $1::text::name AND c.relkind IN ('r', 'p'))";
    let version = schema::version(conn, schema).await?;
    let row = conn.client.query_one(WHERE, &[&options.schema]).await?;
    let database: String = row.get(0);
    let (now_ms, size): (i64, Option<i64>) = (row.get(1), row.get(2));
    let mut settings = Vec::new();
    for (name, risky, risk) in SETTINGS {
        let row = conn.client.query_one("SELECT current_setting($1::text)", &[&name]).await?;
        let value: String = row.get(0);
        let is_risky = !risk.is_empty() && value == risky;
        let setting = StoreSetting::safe(name, value);
        settings.push(if is_risky { setting.with_risk(risk) } else { setting });
    }
    Ok(StoreFacts {
        store: "postgres",
        location: format!("database {database}, schema {}", options.schema),
        schema: version.and_then(|version| u64::try_from(version).ok()),
        schema_of_build: u64::try_from(schema::KNOWN).unwrap_or(u64::MAX),
        size_bytes: size.and_then(|size| u64::try_from(size).ok()),
        now_ms: u64::try_from(now_ms).ok(),
        settings,
    })
}
