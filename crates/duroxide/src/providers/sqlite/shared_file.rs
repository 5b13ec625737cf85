//! Noticing that another process changed the file.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::db::Db;

/// How often SQLite itself is asked. The log's metadata may miss a change within the resolution of its times.
/// Seldom enough that an idle store, with all else it does, stays below one statement a second.
const DATA_VERSION_INTERVAL: Duration = Duration::from_millis(2500);

/// Watches the write-ahead log of a file.
pub(super) struct SharedFile {
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
    pub(super) fn new(path: &Path, db: &Db) -> rusqlite::Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = PathBuf::from(log);
        let data_version = data_version(db)?;
        Ok(Self { seen: state_of(&log), log, data_version, asked_at: Instant::now() })
    }

    /// Takes the log as it is now for our own work. To be called right after a commit.
    pub(super) fn note_own_commit(&mut self) {
        self.seen = state_of(&self.log);
    }

    /// Looks at the log's metadata. Runs no statement.
    pub(super) fn look_at_log(&mut self) -> Foreign {
        let state = state_of(&self.log);
        if state == self.seen {
            return Foreign::Unchanged;
        }
        self.seen = state;
        Foreign::Changed
    }

    /// Looks at the metadata and, now and then, asks SQLite.
    pub(super) fn look(&mut self, db: &Db) -> rusqlite::Result<Foreign> {
        let by_log = self.look_at_log();
        if self.asked_at.elapsed() < DATA_VERSION_INTERVAL {
            return Ok(by_log);
        }
        self.asked_at = Instant::now();
        let version = data_version(db)?;
        let by_version = if version == self.data_version { Foreign::Unchanged } else { Foreign::Changed };
        self.data_version = version;
        Ok(if by_log == Foreign::Changed { by_log } else { by_version })
    }
}

fn state_of(log: &Path) -> Option<LogState> {
    let metadata = std::fs::metadata(log).ok()?;
    Some(LogState { length: metadata.len(), modified: metadata.modified().ok() })
}

fn data_version(db: &Db) -> rusqlite::Result<i64> {
    Ok(db.first("PRAGMA data_version", [], |row| row.get(0))?.unwrap_or_default())
}
