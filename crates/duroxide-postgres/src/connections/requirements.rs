//! What a server must be for the store to work on it. Asked when the store is opened, before anything is changed or
//! acknowledged.

use duroxide_provider::{ProviderError, ProviderErrorKind};
use tokio_postgres::SimpleQueryMessage;

use crate::connections::connection::{Conn, Target};
use crate::fault::Fault;

/// The oldest server that knows all that the statements use: `AS MATERIALIZED` and `plan_cache_mode` came with it.
const OLDEST_SERVER: i64 = 120_000;

/// How often the sessions of two connections are compared. On a pooler without other traffic the third time tells at the
/// latest; on a busy one each is likely to.
const COMPARISONS: usize = 6;

/// Refuses a server that the store cannot work on.
pub(crate) async fn check(target: &Target, conn: &Conn<'static>) -> Result<(), ProviderError> {
    let failed = |fault: Fault| fault.into_error("open");
    let server = Server::ask(conn).await.map_err(failed)?;
    server.check().map_err(refused)?;
    if is_pooled(target, conn).await.map_err(failed)? {
        return Err(refused(
            "the connections go through a pooler that gives each transaction another session (PgBouncer with \
             pool_mode = transaction): settings, prepared statements and LISTEN would be lost; connect directly, or \
             use pool_mode = session"
                .to_string(),
        ));
    }
    Ok(())
}

pub(crate) fn refused(text: String) -> ProviderError {
    ProviderError::of_kind(ProviderErrorKind::Invalid, "open", text)
}

/// What a server says of itself.
#[derive(Debug)]
struct Server {
    /// As `server_version_num` counts: 150004 is 15.4.
    version: i64,
    encoding: String,
    database: String,
}

impl Server {
    async fn ask(conn: &Conn<'_>) -> Result<Self, Fault> {
        const SQL: &str = "SELECT current_setting('server_version_num'), current_setting('server_encoding'), \
             current_database()";
        let answer = ask(conn, SQL).await?;
        let [version, encoding, database] = answer.as_slice() else {
            return Err(Fault::corrupt("the server does not say what it is".to_string()));
        };
        Ok(Self {
            version: version.parse().unwrap_or(0),
            encoding: encoding.clone(),
            database: database.clone(),
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.version < OLDEST_SERVER {
            let (seen, oldest) = (self.version / 10_000, OLDEST_SERVER / 10_000);
            return Err(format!(
                "the server is PostgreSQL {seen} (server_version_num {}); the store needs {oldest} or later",
                self.version
            ));
        }
        if self.encoding != "UTF8" {
            return Err(format!(
                "the database '{}' has the encoding {}, which cannot hold every text; the store needs one that was \
                 created with ENCODING 'UTF8'",
                self.database, self.encoding
            ));
        }
        Ok(())
    }
}

/// Whether the sessions behind connections change. Two connections hold a session each, let them go in one order and then
/// in the other, and take one again: a pooler that hands out the session that was let go last, or first, has given each
/// of them the other's by then.
async fn is_pooled(target: &Target, conn: &Conn<'static>) -> Result<bool, Fault> {
    let second = target.connect().await?;
    let mut first_sessions = None;
    let mut pooled = false;
    for comparison in 0..COMPARISONS {
        second.client.batch_execute("BEGIN").await?;
        conn.client.batch_execute("BEGIN").await?;
        let sessions = (session(conn).await?, session(&second).await?);
        let (first, last) = if comparison % 2 == 0 { (&second, conn) } else { (conn, &second) };
        first.client.batch_execute("ROLLBACK").await?;
        last.client.batch_execute("ROLLBACK").await?;
        let first_sessions = first_sessions.get_or_insert_with(|| sessions.clone());
        pooled |= *first_sessions != sessions;
    }
    Ok(pooled)
}

/// The process that serves a connection.
async fn session(conn: &Conn<'_>) -> Result<Vec<String>, Fault> {
    ask(conn, "SELECT pg_backend_pid()").await
}

/// The first row that a statement answers. Nothing is prepared: behind a pooler that may fail by itself.
async fn ask(conn: &Conn<'_>, sql: &str) -> Result<Vec<String>, Fault> {
    let messages = conn.answer(conn.client.simple_query(sql)).await??;
    let row = messages
        .iter()
        .find_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None });
    let columns = row.map(|row| (0..row.len()).map(|n| row.get(n).unwrap_or_default().to_string()));
    Ok(columns.map(Iterator::collect).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: i64, encoding: &str) -> Result<(), String> {
        Server { version, encoding: encoding.to_string(), database: "d".to_string() }.check()
    }

    #[test]
    fn a_server_that_is_too_old_or_has_another_encoding_is_refused_with_what_would_be_right() {
        assert_eq!(judged(120_000, "UTF8"), Ok(()));
        assert_eq!(judged(180_001, "UTF8"), Ok(()));
        let old = judged(110_022, "UTF8").expect_err("refused");
        assert!(old.contains("PostgreSQL 11") && old.contains("12 or later"), "{old}");
        let ascii = judged(150_000, "SQL_ASCII").expect_err("refused");
        assert!(ascii.contains("'d'") && ascii.contains("SQL_ASCII") && ascii.contains("UTF8"), "{ascii}");
        assert!(judged(0, "UTF8").is_err(), "a server that does not say");
    }
}
