//! What a file is, told without opening it as a store; and a copy of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide_provider::{Inspection, ProviderError, ProviderErrorKind, StoreFacts, StoreSetting};

use super::db::{Db, OwnDb};
use super::fault::storage_error;
use super::location::{Location, WhenMissing};
use super::open::{connect, naming};
use super::open_failure;
use super::open_file::log_of;
use super::options::SqliteOptions;
use super::schema;
use super::statistics::Counters;

const OPERATION: &str = "inspect";

/// Tells what the file of a URL is, of whatever schema. Changes nothing; a missing file is refused.
pub async fn inspect(url: &str, closely: Inspection) -> Result<StoreFacts, ProviderError> {
    let path = file_of(url)?;
    blocking(move || {
        let db = open_as_is(&path)?;
        let facts = facts_of(&db.db(), &path, closely);
        facts.map_err(|error| open_failure::explain(&path, WhenMissing::Refuse, error))
    })
    .await
}

/// Copies the store of a URL into a new file, as it is at one moment, while programs go on working on it. A file that exists
/// is never overwritten.
pub async fn backup(url: &str, to: &Path) -> Result<(), ProviderError> {
    let (path, to) = (file_of(url)?, to.to_path_buf());
    blocking(move || {
        if to.exists() {
            let message = format!("'{}' exists: name a new file", to.display());
            return Err(ProviderError::of_kind(ProviderErrorKind::Invalid, "backup", message));
        }
        let Some(target) = to.to_str() else {
            let message = format!("'{}' is not a path in UTF-8", to.display());
            return Err(ProviderError::of_kind(ProviderErrorKind::Invalid, "backup", message));
        };
        let db = open_as_is(&path)?;
        schema::number(&db.db(), "backup").map_err(|error| naming(Some(&path), error))?;
        db.execute("VACUUM INTO ?1", [target]).map(drop).map_err(|error| storage_error("backup", error))
    })
    .await
}

fn file_of(url: &str) -> Result<PathBuf, ProviderError> {
    let invalid = |message: String| ProviderError::of_kind(ProviderErrorKind::Invalid, OPERATION, message);
    match Location::parse(url).map_err(invalid)? {
        Location::File { path, .. } => Ok(path),
        Location::Memory => {
            Err(invalid("a store in memory is gone with its program: name a file".to_string()))
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    let gone = |_| ProviderError::permanent(OPERATION, "the thread that looked at the file panicked");
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

/// A connection that can write: one that only reads leaves the log and its index behind.
fn open_as_is(path: &Path) -> Result<OwnDb, ProviderError> {
    let options = SqliteOptions::default();
    open_failure::Log::before_opening(path, options.busy_timeout)?;
    connect(path, WhenMissing::Refuse, &options, &Arc::new(Counters::default()))
        .map_err(|error| open_failure::explain(path, WhenMissing::Refuse, error))
}

fn facts_of(db: &Db, path: &Path, closely: Inspection) -> Result<StoreFacts, ProviderError> {
    let schema = schema::number(db, OPERATION).map_err(|error| naming(Some(path), error))?;
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let size = |path: &Path| std::fs::metadata(path).map(|found| found.len()).unwrap_or(0);
    let log_bytes = size(&log_of(&path));
    let mut settings = vec![journal_mode(db)?];
    for name in ["page_size", "page_count", "freelist_count"] {
        settings.push(StoreSetting::safe(name, pragma(db, name)?));
    }
    settings.push(StoreSetting::safe("log_bytes", log_bytes.to_string()));
    if closely == Inspection::Pages {
        settings.push(pages(db)?);
    }
    Ok(StoreFacts {
        store: "sqlite",
        location: path.display().to_string(),
        schema: schema.and_then(|schema| u64::try_from(schema).ok()),
        schema_of_build: u64::try_from(schema::KNOWN).unwrap_or(u64::MAX),
        size_bytes: Some(size(&path) + log_bytes),
        now_ms: None,
        settings,
    })
}

fn journal_mode(db: &Db) -> Result<StoreSetting, ProviderError> {
    let mode = pragma(db, "journal_mode")?;
    let setting = StoreSetting::safe("journal_mode", mode.clone());
    // A store that is opened turns it on; a file that was created elsewhere may not have it yet.
    Ok(match mode.as_str() {
        "off" | "memory" => setting
            .with_risk("a crash in a commit may destroy the file; let the store open it, which sets 'wal'"),
        _ => setting,
    })
}

fn pages(db: &Db) -> Result<StoreSetting, ProviderError> {
    let found = pragma(db, "quick_check(1)")?;
    let setting = StoreSetting::safe("quick_check", found.clone());
    Ok(match found.as_str() {
        "ok" => setting,
        _ => setting.with_risk(
            "the file is damaged: restore a backup, or save what can be read with sqlite3's .recover",
        ),
    })
}

/// The value of a pragma as text, whatever type it has.
fn pragma(db: &Db, name: &str) -> Result<String, ProviderError> {
    let value = db
        .first(&format!("PRAGMA {name}"), [], |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                rusqlite::types::ValueRef::Null
                | rusqlite::types::ValueRef::Real(_)
                | rusqlite::types::ValueRef::Blob(_) => String::new(),
            })
        })
        .map_err(|error| storage_error(OPERATION, error))?;
    Ok(value.unwrap_or_default())
}
