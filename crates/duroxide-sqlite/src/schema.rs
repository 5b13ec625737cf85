//! The schema: numbered migrations, and whose database a file is.

use duroxide_provider::{ProviderError, ProviderErrorKind};

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

/// Refuses what is not ours to touch. Changes nothing.
pub(super) fn check(db: &Db, operation: &str) -> Result<Found, ProviderError> {
    look(db, operation)
}

/// Brings the schema up to date. Several processes may do so at once.
pub(super) fn migrate(db: &Db, operation: &str) -> Result<(), ProviderError> {
    if look(db, operation)? == (Found::Ours { schema: MIGRATIONS.len() }) {
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
    let marks =
        format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}", MIGRATIONS.len());
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
    let number = |sql| {
        let found =
            db.first(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| storage_error(operation, error))?;
        Ok::<i64, ProviderError>(found.unwrap_or(0))
    };
    let refuse =
        |message: String| Err(ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message));
    let application_id = number("PRAGMA application_id")?;
    if application_id == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Found::Empty);
    }
    if application_id != APPLICATION_ID {
        return refuse("the file is a database of another application: name a file of its own".to_string());
    }
    let schema = number("PRAGMA user_version")?;
    match usize::try_from(schema) {
        Ok(schema) if schema <= MIGRATIONS.len() => Ok(Found::Ours { schema }),
        Ok(_) | Err(_) => refuse(format!(
            "schema {schema} is newer than this build's {}: upgrade every program that uses this file",
            MIGRATIONS.len()
        )),
    }
}
