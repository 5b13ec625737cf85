//! The schema: numbered migrations, carried out by one process at a time.

use duroxide_provider::failpoint;
use duroxide_provider::{OpenMode, ProviderError, ProviderErrorKind, older_schema};

use crate::connections::connection::Conn;
use crate::connections::rights::Role;
use crate::fault::Fault;
use crate::store::{AFTER_COMMIT, BEFORE_COMMIT};
use crate::values::lock_number;

/// Every migration, in order. The schema's number is how many of them a database has seen. A migration that
/// was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_nodes_and_routes.sql"),
    include_str!("../migrations/0003_group_writes.sql"),
    include_str!("../migrations/0004_one_instance.sql"),
    include_str!("../migrations/0005_answers.sql"),
    include_str!("../migrations/0006_forgiven_attempts.sql"),
    include_str!("../migrations/0007_rows_found_by_key.sql"),
    include_str!("../migrations/0008_delayed_messages.sql"),
    include_str!("../migrations/0009_group_writes_in_sets.sql"),
];

/// What stands in the table that marks a schema as ours.
const MARK: &str = "CREATE TABLE IF NOT EXISTS {s}.duroxide_schema (version BIGINT NOT NULL)";

/// Brings the schema up to date. Any number of processes may do so at once: one does it, the others wait.
pub(crate) async fn migrate(conn: &Conn<'_>, schema: &str, mode: OpenMode) -> Result<(), ProviderError> {
    let failed = |fault: Fault| fault.into_error("open");
    let role = Role::check(conn, &unquoted(schema)).await?;
    let found = version(conn, schema).await.map_err(failed)?;
    check_mode(found, mode, schema)?;
    // The usual case needs no lock.
    match found {
        Some(seen) if seen == MIGRATIONS.len() => return role.check_use(conn).await,
        Some(seen) if seen < MIGRATIONS.len() => role.check_upgrade(conn).await?,
        Some(_) | None => {}
    }
    // Waiting for others that migrate may take longer than any wait of a running store.
    let lock = lock_number(schema, "migration", "");
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; \
         SELECT pg_advisory_xact_lock({lock})"
    );
    let outcome = match conn.client.batch_execute(&begin).await {
        Ok(()) => migrate_locked(conn, schema).await,
        Err(error) => Err(Fault::from(error).into_error("open")),
    };
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    failpoint::pass(BEFORE_COMMIT);
    let ended = conn.client.batch_execute(end).await;
    failpoint::pass(AFTER_COMMIT);
    outcome.and_then(|()| ended.map_err(|error| Fault::from(error).into_error("open")))
}

/// The number of the schema that this build uses.
pub(crate) const KNOWN: usize = MIGRATIONS.len();

/// Refuses a schema that an opening in this mode must leave as it is. One that is newer is refused in any mode.
fn check_mode(found: Option<usize>, mode: OpenMode, schema: &str) -> Result<(), ProviderError> {
    let refuse = |message: String| Err(ProviderError::of_kind(ProviderErrorKind::Invalid, "open", message));
    match (mode, found) {
        (OpenMode::CreateOrMigrate, _) | (OpenMode::Migrate, Some(_)) => Ok(()),
        (OpenMode::Migrate | OpenMode::AsIs, None) => {
            refuse(format!("the schema {schema} holds no store, and opening it must not create one"))
        }
        (OpenMode::AsIs, Some(seen)) if seen < KNOWN => refuse(older_schema(seen, KNOWN)),
        (OpenMode::AsIs, Some(_)) => Ok(()),
    }
}

async fn migrate_locked(conn: &Conn<'_>, schema: &str) -> Result<(), ProviderError> {
    let failed = |fault: Fault| fault.into_error("open");
    let seen = version(conn, schema).await.map_err(failed)?;
    let known = MIGRATIONS.len();
    if let Some(seen) = seen.filter(|seen| *seen > known) {
        return Err(ProviderError::of_kind(
            ProviderErrorKind::Invalid,
            "open",
            format!(
                "schema {seen} is newer than this build's {known}: upgrade every program that uses this store"
            ),
        ));
    }
    let first = seen.unwrap_or(0);
    if first == known {
        return Ok(());
    }
    let mut script = String::new();
    if seen.is_none() {
        // Even IF NOT EXISTS takes the right to create schemas.
        if !exists(conn, schema).await.map_err(failed)? {
            script += &format!("CREATE SCHEMA {schema};\n");
        }
        script += &format!("{MARK}; INSERT INTO {{s}}.duroxide_schema VALUES (0);\n");
    }
    for migration in MIGRATIONS.iter().skip(first) {
        script += migration;
    }
    script += &format!("UPDATE {{s}}.duroxide_schema SET version = {known};\n");
    let script = script.replace("{s}", schema);
    conn.client.batch_execute(&script).await.map_err(|error| failed(error.into()))
}

/// The name of a schema as the catalogue has it.
fn unquoted(schema: &str) -> String {
    let quoted = schema.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(schema);
    quoted.replace("\"\"", "\"")
}

async fn exists(conn: &Conn<'_>, schema: &str) -> Result<bool, Fault> {
    const FOUND: &str = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1::text::name";
    Ok(!conn.client.query(FOUND, &[&unquoted(schema)]).await?.is_empty())
}

/// How many migrations a schema has seen; `None` for one that is not ours, or not there.
pub(crate) async fn version(conn: &Conn<'_>, schema: &str) -> Result<Option<usize>, Fault> {
    // The catalogue itself: what a connection has cached of it may be older than the lock it waited for.
    const FOUND: &str = "SELECT 1 FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1::text::name AND c.relname = 'duroxide_schema'";
    let name = unquoted(schema);
    if conn.client.query(FOUND, &[&name]).await?.is_empty() {
        return Ok(None);
    }
    let table = format!("{schema}.duroxide_schema");
    let rows = conn.client.query(&format!("SELECT max(version) FROM {table}"), &[]).await?;
    let version: Option<i64> = rows.first().and_then(|row| row.get(0));
    Ok(version.map(|version| usize::try_from(version).unwrap_or(0)))
}
