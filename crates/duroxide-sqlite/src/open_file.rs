//! Noticing that the path of the store no longer leads to the file that the store has open.
//!
//! SQLite goes on writing to a file that was deleted, moved or replaced: every commit succeeds, and is gone with the
//! last handle to it. So the path is looked up before and after each commit, and before each read. It must lead to the
//! device and inode that were opened. The look takes a few microseconds, at the file itself and not at its log: see [`shared_file`](super::shared_file) for what looks at the log cost. The log is looked up when the
//! store waits, and once a second while it is busy.
//!
//! A loss is for good: also when the file is moved back, another process may have written to it under its other name,
//! where it cannot have seen this store's log. The store refuses every call until it is opened again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use duroxide_provider::ProviderError;
use tokio::time::Instant;

/// How often a busy store looks up its log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The file behind a store.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// As it was given, so that a symbolic link that leads elsewhere counts as well.
    path: PathBuf,
    /// `None` when it could not be told: then nothing is noticed.
    identity: Option<Identity>,
    log: PathBuf,
    log_seen: Mutex<LogSeen>,
    loss: OnceLock<Loss>,
}

/// What is known of the log.
#[derive(Debug)]
struct LogSeen {
    /// `None` until it was there for the first time.
    identity: Option<Identity>,
    at: Instant,
}

/// What became of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Missing,
    Replaced,
    /// The database is there, its log is not, or is another.
    Log,
}

impl OpenFile {
    /// The file that was opened under this path.
    pub(super) fn new(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let identity = Identity::of(&path).ok();
        let log = log_of(&std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone()));
        let log_seen = Mutex::new(LogSeen { identity: None, at: Instant::now() });
        Self { path, identity, log, log_seen, loss: OnceLock::new() }
    }

    /// Looks up the path. An error once it has led elsewhere.
    pub(super) fn check(&self, operation: &str) -> Result<(), ProviderError> {
        if let (Some(identity), None) = (self.identity, self.loss.get()) {
            match Identity::of(&self.path) {
                Ok(found) if found == identity => self.check_log(LOG_INTERVAL),
                Ok(_) => self.lose(Loss::Replaced),
                Err(error) if is_missing(&error) => self.lose(Loss::Missing),
                // A path that may not be looked up, such as after a process gave up its rights, says nothing.
                Err(_) => {}
            }
        }
        self.known(operation)
    }

    /// The same, and looks up the log whenever it was looked up last.
    pub(super) fn check_with_log(&self, operation: &str) -> Result<(), ProviderError> {
        self.check(operation)?;
        self.check_log(Duration::ZERO);
        self.known(operation)
    }

    /// The error once a loss was noticed. Looks nothing up.
    pub(super) fn known(&self, operation: &str) -> Result<(), ProviderError> {
        match self.loss.get() {
            Some(loss) => Err(ProviderError::retryable(operation, self.describe(*loss))),
            None => Ok(()),
        }
    }

    /// Whether the database itself is where it was, as far as is known.
    pub(super) fn is_in_place(&self) -> bool {
        match self.loss.get() {
            None | Some(Loss::Log) => true,
            Some(Loss::Missing | Loss::Replaced) => false,
        }
    }

    fn check_log(&self, interval: Duration) {
        let mut seen = self.log_seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.at.elapsed() < interval {
            return;
        }
        seen.at = Instant::now();
        match (seen.identity, Identity::of(&self.log)) {
            (None, Ok(found)) => seen.identity = Some(found),
            (Some(known), Ok(found)) if known == found => {}
            (Some(_), Ok(_)) => self.lose(Loss::Log),
            (Some(_), Err(error)) if is_missing(&error) => self.lose(Loss::Log),
            (Some(_) | None, Err(_)) => {}
        }
    }

    fn lose(&self, loss: Loss) {
        if self.loss.set(loss).is_ok() {
            tracing::error!(target: "duroxide::runtime", "{}", self.describe(loss));
        }
    }

    fn describe(&self, loss: Loss) -> String {
        let path = self.path.display();
        let refused = "the store refuses every call, because what it would write is lost";
        match loss {
            Loss::Missing => format!(
                "the database '{path}' was deleted or moved while it was open: {refused}; put the file and its \
                 -wal back, or a backup, and restart this program"
            ),
            Loss::Replaced => format!(
                "'{path}' leads to another file than the database that was opened: {refused}; put the right file in \
                 its place and restart this program"
            ),
            Loss::Log => format!(
                "the log '{}' was deleted or replaced while the database was open: {refused}; shut this program down \
                 and restart it: a store that is closed copies its log into the database",
                self.log.display()
            ),
        }
    }
}

/// Where SQLite has the log of a database whose path has no symbolic links.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Elsewhere an open file can be neither deleted nor replaced; that it is there is all there is to see.
    #[cfg(not(unix))]
    fn of(path: &Path) -> std::io::Result<Self> {
        std::fs::metadata(path).map(|_| Self {})
    }
}
