//! The raw store: one row, one durable commit, nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Failure;
use super::report::median;

/// A database beside ours, with the same durability.
pub(crate) struct Raw {
    connection: rusqlite::Connection,
}

/// What a raw commit costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawCost {
    /// Of one commit.
    pub(crate) median: Duration,
    /// In sequence.
    pub(crate) commits_per_second: f64,
}

impl Raw {
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let connection = rusqlite::Connection::open(directory.join("raw.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        if (mode.as_str(), level) != ("wal", 2) {
            return Err(format!("the raw store runs with journal mode {mode} and synchronous {level}").into());
        }
        connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, data TEXT)", [])?;
        Ok(Self { connection })
    }

    /// Measures `commits` commits of one row each.
    pub(crate) fn measure(&self, commits: usize) -> Result<RawCost, Failure> {
        let mut insert = self.connection.prepare("INSERT INTO rows (data) VALUES (?1)")?;
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
}

/// The mean of a measurement before and one after what is compared with them.
pub(crate) fn around(before: RawCost, after: RawCost) -> RawCost {
    RawCost {
        median: (before.median + after.median) / 2,
        commits_per_second: f64::midpoint(before.commits_per_second, after.commits_per_second),
    }
}
