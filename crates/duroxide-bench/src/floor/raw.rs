//! The raw store: one row, one durable commit, nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Failure;
use super::report::median;

/// The same server or the same disk, with the same durability, and nothing but one row for each commit.
pub(crate) enum Raw {
    Sqlite(rusqlite::Connection),
    Postgres(String),
}

/// Clients that commit at the same time where a server serves many.
const CLIENTS: usize = 32;

/// What a raw commit costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawCost {
    /// Of one commit.
    pub(crate) median: Duration,
    /// In sequence.
    pub(crate) commits_per_second: f64,
}

impl Raw {
    /// A database in a file beside ours.
    pub(crate) fn sqlite(directory: &Path) -> Result<Self, Failure> {
        let connection = rusqlite::Connection::open(directory.join("raw.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        if (mode.as_str(), level) != ("wal", 2) {
            return Err(format!("the raw store runs with journal mode {mode} and synchronous {level}").into());
        }
        connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, data TEXT)", [])?;
        Ok(Self::Sqlite(connection))
    }

    /// A table of the same server.
    pub(crate) async fn postgres(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        client
            .batch_execute("CREATE TABLE IF NOT EXISTS raw_rows (id BIGSERIAL PRIMARY KEY, data TEXT)")
            .await?;
        Ok(Self::Postgres(url.to_string()))
    }

    /// Measures `commits` commits of one row each, one after another.
    pub(crate) async fn measure(&self, commits: usize) -> Result<RawCost, Failure> {
        match self {
            Self::Sqlite(connection) => measure_sqlite(connection, commits),
            Self::Postgres(url) => {
                let begun = Instant::now();
                let mut times = insert(url.clone(), commits).await?;
                let all = begun.elapsed();
                let commits_per_second = commits as f64 / all.as_secs_f64();
                Ok(RawCost { median: median(&mut times), commits_per_second })
            }
        }
    }

    /// Measures `commits` commits of one row each, by as many clients at once as the store can serve.
    pub(crate) async fn measure_many(&self, commits: usize) -> Result<RawCost, Failure> {
        let url = match self {
            Self::Sqlite(_) => return self.measure(commits).await,
            Self::Postgres(url) => url,
        };
        let each = commits.div_ceil(CLIENTS);
        let begun = Instant::now();
        let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(insert(url.clone(), each))).collect();
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await??);
        }
        let all = begun.elapsed();
        let commits_per_second = (each * CLIENTS) as f64 / all.as_secs_f64();
        Ok(RawCost { median: median(&mut times), commits_per_second })
    }
}

fn measure_sqlite(connection: &rusqlite::Connection, commits: usize) -> Result<RawCost, Failure> {
    let mut insert = connection.prepare("INSERT INTO rows (data) VALUES (?1)")?;
    let mut times = Vec::with_capacity(commits);
    let begun = Instant::now();
    for _ in 0..commits {
        let one = Instant::now();
        insert.execute(["one row of the raw store"])?;
        times.push(one.elapsed());
    }
    let all = begun.elapsed();
    Ok(RawCost { median: median(&mut times), commits_per_second: commits as f64 / all.as_secs_f64() })
}

/// Inserts rows, each with its own commit; how long each took.
async fn insert(url: String, commits: usize) -> Result<Vec<Duration>, Failure> {
    let client = connect(&url).await?;
    let insert = client.prepare("INSERT INTO raw_rows (data) VALUES ($1)").await?;
    let mut times = Vec::with_capacity(commits);
    for _ in 0..commits {
        let one = Instant::now();
        client.execute(&insert, &[&"one row of the raw store"]).await?;
        times.push(one.elapsed());
    }
    Ok(times)
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The mean of a measurement before and one after what is compared with them.
pub(crate) fn around(before: RawCost, after: RawCost) -> RawCost {
    RawCost {
        median: (before.median + after.median) / 2,
        commits_per_second: f64::midpoint(before.commits_per_second, after.commits_per_second),
    }
}
