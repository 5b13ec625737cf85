//! The SQLite store of duroxide: inside the process, in one file.
//!
//! | this crate owns | it must not have |
//! |---|---|
//! | the schema and its migrations, SQL, the thread that writes | the runtime, the client, the engine, another store |
//!
//! One thread owns the connection that writes; calls come to it over a channel. It carries out all that wait
//! in one transaction: it loads the rows that they are about, lets the [rules](duroxide_provider::rules) apply them,
//! serves the fetches that wait for what they made ready, writes every row that changed once, and commits once
//! (`group`). Answers and wake-ups leave after the commit. Reads go to connections of their own (`readers`).
//!
//! | file | what it does |
//! |---|---|
//! | `store`, `provider`, `provider_admin` | the provider, and its traits forwarded |
//! | `options`, `location`, `open`, `schema` | how a store is opened |
//! | `inspect` | what a file is, without opening it as a store; and a copy of it |
//! | `open_failure` | why one could not be opened |
//! | `writer`, `group`, `call`, `parked` | the writer's thread, group commit, fetches that wait |
//! | `shared_file`, `waiters`, `readers` | other processes, clients that wait, reads |
//! | `open_file` | noticing that the file was deleted, moved or replaced |
//! | `db`, `tx`, `values`, `fault`, `statistics` | what all operations use |
//! | `batch`, `load`, `flush`, `serve` | calls applied by the rules: what they need, what they changed, who waits for it |
//! | `remembered` | the rows that were read or written last |
//! | `instance_row`, `execution_row` | reading the rows of instances and executions |
//! | `caller` | messages sent inside a transaction of the caller |
//! | `early`, `set_aside`, `redrive` | messages beside the inboxes |
//! | `fetch_turn`, `raw_turn`, `release_turn`, `history` | turns |
//! | `work`, `fetch_work`, `sessions` | work items |
//! | `nodes`, `route_turn`, `route_work` | who works on the store, and finding what a node has handlers for |
//! | `bounces` | why turns and work items were given back |
//! | `sweep` | work that no node can do |
//! | `damaged` | rows that cannot be read |
//! | `clock_steps` | what was stored while the clock was ahead |
//! | `status`, `admin`, `delete`, `prune` | what clients and operators read and remove |
//!
//! Invariants:
//! - Nothing polls by SQL. A store with fetches that wait runs at most one statement a second, and that only
//!   for a file.
//! - `ready_at` is NULL exactly when an inbox is empty; while a row is locked it is when the lock expires, so
//!   that an expired lock needs no cleaning up.
//! - No answer leaves before the commit that it speaks of, nor once the path leads to another file.

mod admin;
mod batch;
mod bounces;
mod call;
mod caller;
mod clock_steps;
mod damaged;
mod db;
mod delete;
mod early;
mod execution_row;
mod fault;
mod fetch_turn;
mod fetch_work;
mod flush;
mod group;
mod health;
mod history;
mod inspect;
mod instance_row;
mod listing;
mod load;
mod location;
mod nodes;
mod open;
mod open_failure;
mod open_file;
mod options;
mod parked;
mod provider;
mod provider_admin;
mod prune;
mod raw_turn;
mod readers;
mod redrive;
mod release_turn;
mod remembered;
mod route_turn;
mod route_work;
mod schema;
mod serve;
mod sessions;
mod set_aside;
mod shared_file;
mod statistics;
mod status;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod tx;
mod values;
mod work;
mod writer;

pub use caller::SqliteTransaction;
pub use inspect::{backup, inspect};
pub use options::{GroupLimits, SqliteOptions, Synchronous};
/// The version of rusqlite that this store is built with, for transactions of the caller.
pub use rusqlite;
pub use set_aside::SetAsideItem;
pub use statistics::SqliteStatistics;
pub use store::SqliteProvider;
