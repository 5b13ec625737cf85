//! The PostgreSQL store of duroxide: one cluster, many processes.
//!
//! | this crate owns | it must not have |
//! |---|---|
//! | the schema and its migrations, SQL, connections | the runtime, the client, the engine, another store |
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use duroxide_postgres::PostgresProvider;
//!
//! let store = PostgresProvider::new("postgres://app@db.example/app", None).await?;
//! let client = duroxide::Client::new(Arc::new(store));
//! # Ok(()) }
//! ```
//!
//! The calls of a runtime share transactions: one task takes all that wait, locks and reads the rows they are
//! about in one round trip, has the [rules](duroxide_provider::rules) applied to them in memory, and writes, serves
//! waiting fetches and commits in another. Rows that it remembers need no reading: then one statement does all of
//! it. Every statement is about any number of rows. Reads and management calls use a pool.
//!
//! | module | what it does |
//! |---|---|
//! | `store`, `provider`, `provider_admin` | the provider, and its traits forwarded |
//! | `options`, `open`, `caller` | how a store is opened, and messages sent inside a transaction of the caller |
//! | `inspect` | what a schema is, without opening it as a store |
//! | `connections` | connections, round trips, migrations |
//! | `group` | group commit, fetches that wait, other processes |
//! | `rows` | loading what calls want, writing what the rules changed |
//! | `fetch` | finding what is ready, and locking it |
//! | `upkeep` | dead rows, steps of the clock, nodes, and work that nobody can do |
//! | `admin` | what clients and operators read and remove |
//! | `fault`, `statistics`, `values` | why a call failed; counters; values of columns |
//!
//! A call crosses `provider`, `group` (`call`, `carrier`, `run_group`, `attempt`) and `rows` (`working_set`, `flush`,
//! `write_group` or `write_one`); what it changes is decided by the rules alone.
//!
//! Invariants:
//! - Whoever changes an instance or its inbox holds the lock on its row of `queues`; an id that has no row is
//!   reserved by an advisory lock.
//! - Every change of a row of `queues` raises its revision, and whoever writes a row that was not locked expects
//!   the revision that was remembered.
//! - A statement that reads what was locked comes after the one that locked it, so that it sees what was
//!   committed meanwhile.
//! - `ready_at` is NULL exactly when an inbox is empty; while a row is locked it is when the lock expires, so
//!   that an expired lock needs no cleaning up.
//! - No answer leaves before the commit that it speaks of.

mod admin;
mod caller;
mod connections;
mod fault;
mod fetch;
mod group;
mod inspect;
mod open;
mod options;
mod provider;
mod provider_admin;
mod rows;
mod statistics;
mod store;
mod upkeep;
mod values;

pub use admin::set_aside::SetAsideItem;
pub use caller::PostgresTransaction;
pub use inspect::inspect;
pub use open::{open, open_with};
pub use options::{GroupLimits, PostgresOptions, Tls};
pub use statistics::PostgresStatistics;
pub use store::PostgresProvider;
/// The version of tokio-postgres that this store is built with, for transactions of the caller.
pub use tokio_postgres;
