//! A connection whose statements are cached and counted. Every statement of the store runs through here.

use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Params, Row};

use super::statistics::{Counters, count};

/// More than the store has different statements.
const CACHED_STATEMENTS: usize = 256;

/// A connection of the store.
pub(super) struct OwnDb {
    connection: Connection,
    counters: Arc<Counters>,
}

impl OwnDb {
    pub(super) fn new(connection: Connection, counters: Arc<Counters>) -> rusqlite::Result<Self> {
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // Without it SQLite plans a statement anew whenever a parameter that its plan may depend on, such as
        // that of a LIMIT, is bound again: most of the time would go into parsing.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Self { connection, counters })
    }

    /// The connection for operations.
    pub(super) fn db(&self) -> Db<'_> {
        Db { connection: &self.connection, counters: &self.counters }
    }

    /// See [`Db::execute`].
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.db().execute(sql, params)
    }

    /// See [`Db::execute_batch`].
    pub(super) fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.db().execute_batch(sql)
    }

    /// See [`Db::in_transaction`].
    pub(super) fn in_transaction(&self) -> bool {
        self.db().in_transaction()
    }
}

/// A connection whose statements are cached and counted: one of the store, or one of a caller who began a
/// transaction on it.
pub(super) struct Db<'c> {
    connection: &'c Connection,
    counters: &'c Arc<Counters>,
}

impl<'c> Db<'c> {
    /// The connection of a caller, whose settings stay as they are.
    pub(super) fn of_caller(connection: &'c Connection, counters: &'c Arc<Counters>) -> Self {
        Self { connection, counters }
    }

    /// Runs a statement that returns no rows; how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        count(&self.counters.statements, 1);
        self.connection.prepare_cached(sql)?.execute(params)
    }

    /// The first row of a statement's answer.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        count(&self.counters.statements, 1);
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        match rows.next()? {
            Some(row) => map(row).map(Some),
            None => Ok(None),
        }
    }

    /// All rows of a statement's answer.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut found = Vec::new();
        self.each(sql, params, |row| {
            found.push(map(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// The rows of a statement's answer, one by one, until `visit` has enough.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>>,
    ) -> rusqlite::Result<()> {
        count(&self.counters.statements, 1);
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if visit(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Runs several statements, as they stand in a migration.
    pub(super) fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        count(&self.counters.statements, 1);
        self.connection.execute_batch(sql)
    }

    /// The key of the row that was inserted last.
    pub(super) fn last_key(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// How many rows this connection has ever changed.
    pub(super) fn total_changes(&self) -> u64 {
        self.connection.total_changes()
    }

    /// Whether a transaction is open. SQLite ends one by itself after some failures.
    pub(super) fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Several reads of one state of the store.
    pub(super) fn snapshot<T, E: From<rusqlite::Error>>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.in_transaction() {
            return read(self);
        }
        self.execute("BEGIN", [])?;
        let outcome = read(self);
        if self.in_transaction() {
            // Nothing was written: how the transaction ends makes no difference.
            self.execute("ROLLBACK", [])?;
        }
        outcome
    }
}
