//! Why a store could not be opened, and what to do about it.
//!
//! SQLite says "unable to open database file" for most causes. So when an opening fails, the path and its directory are
//! looked at. The database itself is not: closing a handle to it would release the locks that other connections of this
//! process hold on it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duroxide_provider::{ProviderError, ProviderErrorKind};
use rusqlite::ErrorCode;
use tokio::time::Instant;

use super::db::Db;
use super::location::WhenMissing;
use super::open_file::log_of;
use super::schema::{self, Found};

/// How much the directory must take for the disk not to count as full: a page and the index of the log.
const PROBE_BYTES: usize = 64 * 1024;

/// An error of an opening, with its cause in words and what to do.
pub(super) fn explain(path: &Path, missing: WhenMissing, error: ProviderError) -> ProviderError {
    let Some(code) = error.cause::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code) else {
        return error;
    };
    let name = path.display();
    let in_the_path = matches!(
        code,
        ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::SystemIoFailure
    );
    let (kind, message) = if code == ErrorCode::NotADatabase {
        let todo = "name another file or restore a backup";
        (
            ProviderErrorKind::Corrupt,
            format!("'{name}' is not a database, or is encrypted or damaged: {todo}"),
        )
    } else if code == ErrorCode::DatabaseCorrupt {
        let todo = format!(
            "restore a backup, or save what can be read with 'sqlite3 {name} .recover' into a new file"
        );
        (ProviderErrorKind::Corrupt, format!("'{name}' is damaged: {todo}"))
    } else if code == ErrorCode::DiskFull {
        full(path)
    } else if let Some(found) = in_the_path.then(|| look(path, missing)).flatten() {
        found
    } else {
        (error.kind(), format!("'{name}' cannot be opened: {}", error.message))
    };
    ProviderError::of_kind(kind, error.operation.clone(), message).with_source(error)
}

/// A file that SQLite opened for reading although it was to be written.
pub(super) fn read_only(operation: &str, path: &Path) -> ProviderError {
    let message = format!(
        "'{}' can be read but not written: check its permissions, whether it is marked immutable (lsattr), and whether \
         its file system is mounted read-only",
        path.display()
    );
    ProviderError::permanent(operation, message)
}

fn full(path: &Path) -> (ProviderErrorKind, String) {
    let message = format!(
        "the file system of '{}' is full: free some space and open the store again; nothing was changed",
        path.display()
    );
    (ProviderErrorKind::Unavailable, message)
}

/// What is wrong with the path or its directory, if that can be seen.
fn look(path: &Path, missing: WhenMissing) -> Option<(ProviderErrorKind, String)> {
    let permanent = |message: String| Some((ProviderErrorKind::Other, message));
    let name = path.display();
    if path.is_dir() {
        return permanent(format!("'{name}' is a directory: name a file in it"));
    }
    let directory = directory_of(path);
    let shown = directory.display();
    match std::fs::metadata(&directory) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return permanent(format!("'{shown}' is not a directory: name a file in a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return permanent(format!("the directory '{shown}' does not exist: create it"));
        }
        Err(error) => return permanent(format!("the directory '{shown}' cannot be looked at: {error}")),
    }
    if missing == WhenMissing::Refuse && !path.exists() {
        return permanent(format!("'{name}' does not exist: check the path, or let mode=rwc create it"));
    }
    match probe(&directory) {
        Ok(()) => None,
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Some(full(path)),
        Err(error) => permanent(format!(
            "the directory '{shown}' cannot be written ({error}): check its permissions and whether its file system is \
             mounted read-only; SQLite keeps the -wal and the -shm of the database there"
        )),
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// Whether a file can be written in a directory.
fn probe(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".duroxide-{:016x}", duroxide_provider::random::bits_64()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    let written = file.write_all(&[0; PROBE_BYTES]);
    drop(file);
    std::fs::remove_file(&path)?;
    written
}

/// Whether the log was there before this store opened the database.
///
/// A missing log can be told by its index, or by a database that says that it has a log and is empty without it. If both
/// are deleted after the log was copied into the database at least once, nothing shows that something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    Present,
    Absent,
}

impl Log {
    /// Looks, and refuses a database with an index and without a log: SQLite creates the log before its index and deletes
    /// it after, so that this is a moment of another process, or somebody deleted the log. Comes before the database is
    /// opened, because closing it would delete the index.
    pub(super) fn before_opening(path: &Path, patience: Duration) -> Result<Self, ProviderError> {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let deadline = Instant::now() + patience;
        loop {
            let index = index_of(&path).exists();
            if log_of(&path).exists() {
                return Ok(Self::Present);
            }
            if !index {
                return Ok(Self::Absent);
            }
            if Instant::now() >= deadline {
                return Err(missing_log(&path, "its index, the -shm, is there", "delete the -shm"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Refuses a database that is empty without its log.
    pub(super) fn check(self, db: &Db, path: &Path, patience: Duration) -> Result<(), ProviderError> {
        match self {
            Self::Absent if is_empty_without_its_log(db, patience)? => {
                Err(missing_log(path, "the database is empty without it", "delete the database"))
            }
            Self::Absent | Self::Present => Ok(()),
        }
    }
}

fn missing_log(path: &Path, evidence: &str, to_go_on: &str) -> ProviderError {
    let message = format!(
        "the log '{}' is missing, and {evidence}: what was committed last is in the log; put the -wal back or restore a \
         backup. To go on without what is missing, {to_go_on}",
        log_of(path).display()
    );
    ProviderError::permanent("open", message)
}

const PAUSE: Duration = Duration::from_millis(5);

/// Whether the database says that it has a log, and has no tables. Another process may be creating them right now.
fn is_empty_without_its_log(db: &Db, patience: Duration) -> Result<bool, ProviderError> {
    const OPERATION: &str = "open";
    let deadline = Instant::now() + patience;
    loop {
        let empty = schema::check(db, OPERATION)? == Found::Empty;
        let mode = db.first("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
        let mode = mode.map_err(|error| super::fault::storage_error(OPERATION, error))?;
        if !empty || mode.as_deref() != Some("wal") {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
}

fn index_of(path: &Path) -> PathBuf {
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    PathBuf::from(index)
}
