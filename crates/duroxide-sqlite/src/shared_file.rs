//! Noticing that another process changed the file.
//!
//! SQLite itself knows: the data version of a connection changes with every commit of another. A store that has
//! work to do asks for it in the transaction that it begins anyway. One that waits looks at the log's metadata,
//! which runs no statement, and asks when they have changed.
//!
//! A busy store leaves the metadata alone. A file system that gives exact times only to files whose times somebody
//! looks at would have to write the log's inode with every commit, and each would take up to half as long again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::db::Db;
use super::open_file::{OpenFile, log_of};

/// How often SQLite itself is asked. The log's metadata may miss a change within the resolution of its times.
/// Seldom enough that an idle store, with all else it does, stays below one statement a second.
const DATA_VERSION_INTERVAL: Duration = Duration::from_millis(2500);

/// Watches the write-ahead log of a file.
pub(super) struct SharedFile {
    pub(super) file: Arc<OpenFile>,
    log: PathBuf,
    seen: Option<LogState>,
    data_version: i64,
    asked_at: Instant,
}

/// What the file system says about the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogState {
    length: u64,
    modified: Option<SystemTime>,
}

/// Whether somebody else changed the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    Changed,
    Unchanged,
}

impl SharedFile {
    pub(super) fn new(path: &Path, file: Arc<OpenFile>, db: &Db) -> rusqlite::Result<Self> {
        let log = log_of(path);
        let data_version = data_version(db)?;
        Ok(Self { file, seen: state_of(&log), log, data_version, asked_at: Instant::now() })
    }

    /// Looks at the log's metadata, and asks SQLite when they have changed, and now and then.
    pub(super) fn look(&mut self, db: &Db) -> rusqlite::Result<Foreign> {
        let state = state_of(&self.log);
        if state == self.seen && self.asked_at.elapsed() < DATA_VERSION_INTERVAL {
            return Ok(Foreign::Unchanged);
        }
        self.seen = state;
        self.ask(db)
    }

    /// Asks SQLite. Our own commits do not count.
    pub(super) fn ask(&mut self, db: &Db) -> rusqlite::Result<Foreign> {
        let version = data_version(db)?;
        self.asked_at = Instant::now();
        let before = std::mem::replace(&mut self.data_version, version);
        Ok(if version == before { Foreign::Unchanged } else { Foreign::Changed })
    }
}

fn state_of(log: &Path) -> Option<LogState> {
    let metadata = std::fs::metadata(log).ok()?;
    Some(LogState { length: metadata.len(), modified: metadata.modified().ok() })
}

fn data_version(db: &Db) -> rusqlite::Result<i64> {
    Ok(db.first("PRAGMA data_version", [], |row| row.get(0))?.unwrap_or_default())
}
