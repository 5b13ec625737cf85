//! The schema: numbered migrations, and whose database a file is.

use duroxide_provider::{OpenMode, ProviderError, ProviderErrorKind, older_schema};

use super::db::Db;

use super::fault::storage_error;

/// Marks a file as a database of this library, in SQLite's own header field for that: "duro".
const APPLICATION_ID: i64 = 0x6475_726F;

/// Every migration, in order. The schema's number is how many of them a database has seen. A migration that
/// was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_kept_messages.sql"),
    include_str!("migrations/0003_nodes_and_routes.sql"),
    include_str!("migrations/0004_answers.sql"),
    include_str!("migrations/0005_forgiven_attempts.sql"),
    include_str!("migrations/0006_clock_steps.sql"),
];

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Empty, or just created.
    Empty,
    /// Ours, with this many migrations behind it.
    Ours { schema: usize },
}

/// The number of the schema that this build uses.
pub(super) const KNOWN: usize = MIGRATIONS.len();

/// Refuses what is not ours to touch. Changes nothing.
pub(super) fn check(db: &Db, operation: &str) -> Result<Found, ProviderError> {
    look(db, operation)
}

/// Refuses a schema that an opening in this mode must leave as it is. Changes nothing.
pub(super) fn check_mode(found: Found, mode: OpenMode, operation: &str) -> Result<(), ProviderError> {
    let refuse =
        |message: String| Err(ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message));
    match (mode, found) {
        (OpenMode::CreateOrMigrate, Found::Empty | Found::Ours { .. })
        | (OpenMode::Migrate, Found::Ours { .. }) => Ok(()),
        (OpenMode::Migrate | OpenMode::AsIs, Found::Empty) => {
            refuse("the file is empty, and opening it must not create a store in it".to_string())
        }
        (OpenMode::AsIs, Found::Ours { schema: KNOWN }) => Ok(()),
        (OpenMode::AsIs, Found::Ours { schema }) => refuse(older_schema(schema, KNOWN)),
    }
}

/// The schema's number, also one that is newer than this build's; `None` for an empty file. Refuses a database of another
/// application.
pub(super) fn number(db: &Db, operation: &str) -> Result<Option<i64>, ProviderError> {
    let pragma = |sql| {
        let found =
            db.first(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| storage_error(operation, error))?;
        Ok::<i64, ProviderError>(found.unwrap_or(0))
    };
    let application_id = pragma("PRAGMA application_id")?;
    if application_id == 0 && pragma("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(None);
    }
    if application_id != APPLICATION_ID {
        let message = "the file is a database of another application: name a file of its own";
        return Err(ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message));
    }
    pragma("PRAGMA user_version").map(Some)
}

/// Brings the schema up to date. Several processes may do so at once.
pub(super) fn migrate(db: &Db, operation: &str) -> Result<(), ProviderError> {
    if look(db, operation)? == (Found::Ours { schema: KNOWN }) {
        return Ok(());
    }
    let storage = |error| storage_error(operation, error);
    db.execute("BEGIN IMMEDIATE", []).map_err(storage)?;
    let outcome = migrate_locked(db, operation);
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = if db.in_transaction() { db.execute(end, []) } else { Ok(0) };
    outcome.and_then(|()| ended.map(|_| ()).map_err(storage))
}

fn migrate_locked(db: &Db, operation: &str) -> Result<(), ProviderError> {
    let storage = |error| storage_error(operation, error);
    // Another process may have been faster.
    let seen = match look(db, operation)? {
        Found::Empty => 0,
        Found::Ours { schema } => schema,
    };
    for migration in MIGRATIONS.iter().skip(seen) {
        db.execute_batch(migration).map_err(storage)?;
    }
    let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {KNOWN}");
    db.execute_batch(&marks).map_err(storage)
}

/// Looks at the file as it is at one moment: another process may be making it ours right now.
fn look(db: &Db, operation: &str) -> Result<Found, ProviderError> {
    if db.in_transaction() {
        return look_within(db, operation);
    }
    let storage = |error| storage_error(operation, error);
    db.execute("BEGIN", []).map_err(storage)?;
    let found = look_within(db, operation);
    let ended = if db.in_transaction() { db.execute("COMMIT", []) } else { Ok(0) };
    found.and_then(|found| ended.map(|_| found).map_err(storage))
}

fn look_within(db: &Db, operation: &str) -> Result<Found, ProviderError> {
    let Some(schema) = number(db, operation)? else { return Ok(Found::Empty) };
    match usize::try_from(schema) {
        Ok(schema) if schema <= KNOWN => Ok(Found::Ours { schema }),
        Ok(_) | Err(_) => {
            let message = format!(
                "schema {schema} is newer than this build's {KNOWN}: upgrade every program that uses this file"
            );
            Err(ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message))
        }
    }
}
