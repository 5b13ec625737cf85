//! What a user may choose about a PostgreSQL store.

use std::sync::Arc;
use std::time::Duration;

use duroxide_provider::OpenMode;
use duroxide_provider::clock::Clock;

/// Options of a [`PostgresProvider`](crate::PostgresProvider).
///
/// ```
/// use duroxide_postgres::PostgresOptions;
/// let options = PostgresOptions { schema: "billing".to_string(), ..Default::default() };
/// assert_eq!(options.pool_size, 8);
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema that holds the tables; it is created if it is missing. `duroxide` by default. Stores in
    /// different schemas of one database know nothing of each other.
    pub schema: String,
    /// How many connections may be open for reads and management calls, at least 1. 8 by default. Two more are
    /// open all the time: one carries the calls of the runtime, one listens for other processes. A third one is
    /// opened with the first turn that writes more than 2,000 rows or 4 MiB.
    pub pool_size: usize,
    /// How long a call waits for a connection of the pool, and for a new one to be made. 5 s by default.
    pub connect_timeout: Duration,
    /// How long a statement may run on the server. 30 s by default. A connection whose server says nothing for
    /// [`Self::connect_timeout`] longer is given up. Zero: no limit for either.
    pub statement_timeout: Duration,
    /// How long a statement may wait for a row that another transaction holds. 10 s by default.
    pub lock_timeout: Duration,
    /// How long a transaction may do nothing before the server ends it, so that a process that was stopped
    /// keeps nobody waiting. 10 s by default.
    pub idle_in_transaction_timeout: Duration,
    /// What the server shows for the connections. `duroxide` by default.
    pub application_name: String,
    /// Whether connections are encrypted.
    pub tls: Tls,
    /// How often a store that waits looks by itself, in case a notification was lost. 5 s by default.
    pub poll_interval: Duration,
    /// How much one commit may carry.
    pub group: GroupLimits,
    /// Whether a missing schema is created and an older one migrated. Both by default.
    pub open_mode: OpenMode,
    /// Where the store takes its time from, for tests; `None`, the default, means the server's clock.
    #[doc(hidden)]
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "duroxide".to_string(),
            pool_size: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            idle_in_transaction_timeout: Duration::from_secs(10),
            application_name: "duroxide".to_string(),
            tls: Tls::default(),
            poll_interval: Duration::from_secs(5),
            group: GroupLimits::default(),
            open_mode: OpenMode::default(),
            clock: None,
        }
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("pool_size", &self.pool_size)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("application_name", &self.application_name)
            .field("tls", &self.tls)
            .field("poll_interval", &self.poll_interval)
            .field("group", &self.group)
            .field("open_mode", &self.open_mode)
            .finish_non_exhaustive()
    }
}

/// Whether connections are encrypted. Where encryption is asked for, a server that does not offer it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tls {
    /// As the URL's `sslmode` says, in libpq's words: `disable`, `prefer`, `require`, `verify-ca`, `verify-full`, with
    /// `sslrootcert` for a file of authorities instead of those of the system. Without the word it is `prefer` for
    /// servers on this machine and `require` for all others.
    #[default]
    FromUrl,
    /// They are not.
    Off,
    /// They are, and the server's certificate, with its name, is checked against those that the system trusts.
    SystemRoots,
    /// They are, and the server's certificate, with its name, is checked against these, in PEM.
    Roots(Vec<u8>),
}

/// How much one commit may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Calls. 256 by default.
    pub calls: usize,
    /// Bytes of their payloads. 4 MiB by default.
    pub bytes: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { calls: 256, bytes: 4 * 1024 * 1024 }
    }
}
