//! The store that the processes share, and its outages.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide_postgres::{PostgresOptions, PostgresProvider};
use private_postgres::{Durability, Server};

use super::super::Options;
use crate::floor::{Failure, Kind};

/// The schema on the private server.
const SCHEMA: &str = "recovery";

/// How the store goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// Another connection keeps the file's write lock.
    FileLocked,
    /// The server is stopped: connections break and new ones are refused.
    ServerStopped,
    /// The server's processes stand still: connections stay open and no answer comes.
    ServerFrozen,
}

impl Outage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FileLocked => "file locked",
            Self::ServerStopped => "server stopped",
            Self::ServerFrozen => "server frozen",
        }
    }
}

/// A store of this run.
pub(super) struct Shared {
    directory: tempfile::TempDir,
    /// Where processes find it.
    place: String,
    kind: Kind,
    server: Option<Server>,
}

impl Shared {
    pub(super) async fn make(options: &Options) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("duroxide-recovery").tempdir_in(&options.dir)?;
        let (place, server) = match options.store {
            Kind::Sqlite => (format!("sqlite:{}", directory.path().join("store.db").display()), None),
            Kind::Postgres => {
                // One of its own, whatever the environment names: it is stopped.
                let server = Server::start_in(&options.dir, Durability::Full)?;
                (server.url().to_string(), Some(server))
            }
        };
        // Made before the processes race for it.
        open(options.store, &place).await?;
        Ok(Self { directory, place, kind: options.store, server })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) async fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(open(self.kind, &self.place).await?))
    }

    /// Takes the store away until [`Away::end`].
    pub(super) fn take_away(&self, outage: Outage) -> Result<Away<'_>, Failure> {
        let server = self.server.as_ref();
        match outage {
            Outage::FileLocked => {
                let path = self.place.trim_start_matches("sqlite:");
                let other = rusqlite::Connection::open(path)?;
                other.busy_timeout(std::time::Duration::from_secs(10))?;
                other.execute_batch("BEGIN EXCLUSIVE")?;
                Ok(Away::FileLocked(other))
            }
            Outage::ServerStopped => {
                let server = server.ok_or("there is no server")?;
                server.stop()?;
                Ok(Away::ServerStopped(server))
            }
            Outage::ServerFrozen => {
                let frozen = processes(server.ok_or("there is no server")?)?;
                let away = Away::ServerFrozen(frozen);
                away.signal("-STOP")?;
                Ok(away)
            }
        }
    }
}

/// A store that is away.
pub(super) enum Away<'a> {
    FileLocked(rusqlite::Connection),
    ServerStopped(&'a Server),
    ServerFrozen(Vec<String>),
}

impl Away<'_> {
    /// Brings the store back.
    pub(super) fn end(self) -> Result<(), Failure> {
        match &self {
            Self::FileLocked(other) => other.execute_batch("ROLLBACK")?,
            Self::ServerStopped(server) => server.start_again()?,
            Self::ServerFrozen(_) => self.signal("-CONT")?,
        }
        Ok(())
    }

    fn signal(&self, signal: &str) -> Result<(), Failure> {
        let Self::ServerFrozen(processes) = self else { return Ok(()) };
        let status = Command::new("kill").arg(signal).args(processes).status()?;
        // A background process of the server may have ended by itself meanwhile; the first one is the server.
        if !status.success() && !Path::new("/proc").join(&processes[0]).exists() {
            return Err(format!("the server has ended: {status}").into());
        }
        Ok(())
    }
}

/// The server's main process, and all that it has started.
fn processes(server: &Server) -> Result<Vec<String>, Failure> {
    let file = std::fs::read_to_string(server.directory().join("data/postmaster.pid"))?;
    let main = file.lines().next().ok_or("the server has no number")?.trim().to_string();
    let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children"))?;
    Ok(std::iter::once(main).chain(children.split_whitespace().map(str::to_string)).collect())
}

/// Opens the store as an application does.
pub(super) async fn open(kind: Kind, place: &str) -> Result<Arc<dyn Provider>, Failure> {
    Ok(match kind {
        Kind::Sqlite => Arc::new(SqliteProvider::new(place, None).await?),
        Kind::Postgres => {
            let options = PostgresOptions { schema: SCHEMA.to_string(), ..PostgresOptions::default() };
            Arc::new(PostgresProvider::new(place, Some(options)).await?)
        }
    })
}
