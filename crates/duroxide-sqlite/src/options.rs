//! What a user may choose about a SQLite store.

use std::sync::Arc;
use std::time::Duration;

use duroxide_provider::OpenMode;
use duroxide_provider::clock::{Clock, SystemClock};

/// Options of a [`SqliteProvider`](super::SqliteProvider).
///
/// ```
/// use duroxide::providers::sqlite::SqliteOptions;
/// let options = SqliteOptions { busy_timeout: std::time::Duration::from_secs(1), ..Default::default() };
/// ```
#[derive(Clone)]
pub struct SqliteOptions {
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// How long a transaction waits for another process to finish its own before the call fails as
    /// unavailable. 5 s by default, far longer than any transaction of this store.
    pub busy_timeout: Duration,
    /// Where the store takes its time from. The system's clock by default.
    pub clock: Arc<dyn Clock>,
    /// How often a waiting store looks whether another process changed the file. 100 ms by default. The
    /// look is at the log's metadata and runs a statement only when they have changed.
    pub shared_file_poll_interval: Duration,
    /// Connections, each with its thread, for reading while the writer commits. At least 1; 2 by default.
    pub reader_connections: usize,
    /// How much one commit may carry.
    pub group: GroupLimits,
    /// Whether a missing store is created and an older one migrated. Both by default.
    pub open_mode: OpenMode,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock::default()),
            shared_file_poll_interval: Duration::from_millis(100),
            reader_connections: 2,
            group: GroupLimits::default(),
            open_mode: OpenMode::default(),
        }
    }
}

impl std::fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("synchronous", &self.synchronous)
            .field("busy_timeout", &self.busy_timeout)
            .field("shared_file_poll_interval", &self.shared_file_poll_interval)
            .field("reader_connections", &self.reader_connections)
            .field("group", &self.group)
            .field("open_mode", &self.open_mode)
            .finish_non_exhaustive()
    }
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When the log is on the disk. What a call acknowledged survives a power cut.
    #[default]
    Full,
    /// When the operating system has it. Survives a crash of the process; **a power cut or a crash of the
    /// operating system may lose the last acknowledged commits**, never the consistency of the file.
    Normal,
}

impl Synchronous {
    pub(super) fn pragma_value(self) -> i64 {
        match self {
            Self::Full => 2,
            Self::Normal => 1,
        }
    }
}

/// How much one commit may carry before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Calls. 256 by default.
    pub calls: usize,
    /// Bytes of their payloads. 4 MiB by default.
    pub bytes: usize,
    /// How long calls are carried out before the commit begins. 5 ms by default: what the first call of a
    /// group may have to wait for the others.
    pub duration: Duration,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { calls: 256, bytes: 4 * 1024 * 1024, duration: Duration::from_millis(5) }
    }
}
