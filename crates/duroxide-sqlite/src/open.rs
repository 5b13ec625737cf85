//! Opening a store: connections, their settings read back, and the schema.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duroxide_provider::{ProviderError, ProviderErrorKind};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::time::Instant;

use super::db::{Db, OwnDb};
use super::fault::storage_error;
use super::location::{Location, WhenMissing};
use super::open_failure;
use super::open_file::OpenFile;
use super::options::SqliteOptions;
use super::schema;
use super::statistics::Counters;

const OPERATION: &str = "open";

/// The log may grow to this many pages of 4 KiB before a commit also copies it into the database. Larger than
/// SQLite's 1,000, so that a page which many turns change is copied once for all of them.
const CHECKPOINT_PAGES: u32 = 4_000;

/// The pages that the writer keeps in memory, in KiB: the hot end of every index.
const WRITER_CACHE_KIB: u32 = 64 * 1024;

/// An open store.
pub(super) struct Opened {
    pub(super) writer: OwnDb,
    /// Empty for a store in memory, which has one connection only.
    pub(super) readers: Vec<OwnDb>,
    pub(super) facts: Facts,
}

/// What SQLite says about the store.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) path: Option<PathBuf>,
    /// The file behind the path; `None` for a store in memory.
    pub(super) file: Option<Arc<OpenFile>>,
    pub(super) journal_mode: String,
}

/// Opens a store. Changes nothing where it refuses.
pub(super) fn open(
    location: &Location,
    options: &SqliteOptions,
    counters: &Arc<Counters>,
) -> Result<Opened, ProviderError> {
    match location {
        Location::Memory => {
            let connection = Connection::open_in_memory().map_err(|error| storage_error(OPERATION, error))?;
            set_up(counted(connection, counters)?, None, options, counters)
        }
        Location::File { path, missing } => {
            let missing = missing.in_mode(options.open_mode);
            let log = open_failure::Log::before_opening(path, options.busy_timeout)?;
            let opened = connect(path, missing, options, counters).and_then(|writer| {
                schema::check(&writer.db(), OPERATION)
                    .and_then(|found| schema::check_mode(found, options.open_mode, OPERATION))
                    .map_err(|error| naming(Some(path), error))?;
                log.check(&writer.db(), path, options.busy_timeout)?;
                set_up(writer, Some(path.clone()), options, counters)
            });
            opened.map_err(|error| open_failure::explain(path, missing, error))
        }
    }
}

/// Settings, schema and readers.
fn set_up(
    writer: OwnDb,
    path: Option<PathBuf>,
    options: &SqliteOptions,
    counters: &Arc<Counters>,
) -> Result<Opened, ProviderError> {
    // From here on the file exists, and all connections must have opened this one.
    let file = path.as_deref().map(|path| Arc::new(OpenFile::new(path)));
    let journal_mode = match path {
        Some(_) => set_wal(&writer.db(), options.busy_timeout)?,
        None => text_pragma(&writer.db(), "PRAGMA journal_mode")?,
    };
    set_synchronous(&writer.db(), options)?;
    let settings = format!(
        "PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
         PRAGMA cache_size = -{WRITER_CACHE_KIB}"
    );
    writer.execute_batch(&settings).map_err(|error| storage_error(OPERATION, error))?;
    schema::migrate(&writer.db(), OPERATION).map_err(|error| naming(path.as_deref(), error))?;
    let mut readers = Vec::new();
    if let Some(path) = &path {
        for _ in 0..options.reader_connections.max(1) {
            let reader = connect(path, WhenMissing::Refuse, options, counters)?;
            let settings = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY";
            reader.execute_batch(settings).map_err(|error| storage_error(OPERATION, error))?;
            readers.push(reader);
        }
    }
    if let Some(file) = &file {
        file.check_with_log(OPERATION)?;
    }
    let path = path.map(|path| std::fs::canonicalize(&path).unwrap_or(path));
    Ok(Opened { writer, readers, facts: Facts { path, file, journal_mode } })
}

pub(super) fn connect(
    path: &Path,
    missing: WhenMissing,
    options: &SqliteOptions,
    counters: &Arc<Counters>,
) -> Result<OwnDb, ProviderError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if missing == WhenMissing::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let storage = |error| storage_error(OPERATION, error);
    let connection = Connection::open_with_flags(path, flags).map_err(storage)?;
    if connection.is_readonly("main").map_err(storage)? {
        return Err(open_failure::read_only(OPERATION, path));
    }
    connection.busy_timeout(options.busy_timeout).map_err(storage)?;
    counted(connection, counters)
}

fn counted(connection: Connection, counters: &Arc<Counters>) -> Result<OwnDb, ProviderError> {
    OwnDb::new(connection, Arc::clone(counters)).map_err(|error| storage_error(OPERATION, error))
}

/// Names the file in an error about it.
pub(super) fn naming(path: Option<&Path>, error: ProviderError) -> ProviderError {
    let Some(path) = path else { return error };
    let message = format!("'{}': {}", path.display(), error.message);
    ProviderError::of_kind(error.kind(), error.operation.clone(), message).with_source(error)
}

/// Turns the write-ahead log on. SQLite does not wait for other processes here by itself.
fn set_wal(db: &Db, patience: Duration) -> Result<String, ProviderError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let deadline = Instant::now() + patience;
    let mode = loop {
        match db.first("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) => break mode.unwrap_or_default(),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(storage_error(OPERATION, error)),
        }
    };
    if mode != "wal" {
        let message = format!(
            "asked for journal mode 'wal', SQLite answers '{mode}': the file system may not support it"
        );
        return Err(ProviderError::permanent(OPERATION, message));
    }
    Ok(mode)
}

fn set_synchronous(db: &Db, options: &SqliteOptions) -> Result<(), ProviderError> {
    let asked = options.synchronous.pragma_value();
    db.execute_batch(&format!("PRAGMA synchronous = {asked}"))
        .map_err(|error| storage_error(OPERATION, error))?;
    let level = db
        .first("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))
        .map_err(|error| storage_error(OPERATION, error))?;
    if level != Some(asked) {
        let message = format!("asked for synchronous level {asked}, SQLite answers {level:?}");
        return Err(ProviderError::of_kind(ProviderErrorKind::Other, OPERATION, message));
    }
    Ok(())
}

fn text_pragma(db: &Db, sql: &str) -> Result<String, ProviderError> {
    let found =
        db.first(sql, [], |row| row.get::<_, String>(0)).map_err(|error| storage_error(OPERATION, error))?;
    Ok(found.unwrap_or_default())
}
