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
//! about in one round trip, carries them out in memory, and writes, serves waiting fetches and commits in
//! another. Rows that it remembers need no reading: then one statement does all of it. Every statement is about
//! any number of rows. Reads and management calls use a pool.
//!
//! | file | what it does |
//! |---|---|
//! | `store`, `provider`, `provider_admin` | the provider, and its traits forwarded |
//! | `options`, `sslmode`, `tls`, `connection`, `pipeline`, `schema` | connections, round trips, migrations |
//! | `requirements`, `rights` | servers and roles that are refused |
//! | `carrier`, `group`, `attempt`, `call`, `parked` | the task, group commit, fetches that wait |
//! | `blocked`, `row_probe` | calls whose rows another transaction has locked |
//! | `wait`, `endings` | waiting for an instance, and being told of its end |
//! | `listener`, `news` | other processes |
//! | `upkeep` | clearing away what the queues leave behind |
//! | `open`, `caller` | a store by its URL; messages sent inside a transaction of the caller |
//! | `working_set`, `instance_row`, `execution_row` | the rows of a transaction |
//! | `memory`, `serve` | rows that need not be read again; fetches that need not look |
//! | `messages`, `outcome`, `late`, `turn_commit`, `release`, `work`, `set_aside`, `append`, `redrive` | what calls change in them |
//! | `writes`, `write_one`, `one_statement`, `write_group`, `write_pieces`, `flush` | what is then written |
//! | `take`, `fetch_turn`, `fetch_work`, `sessions` | fetches |
//! | `horizon`, `behind` | where a look begins, and rows behind that |
//! | `clock_steps` | what was stored while the clock was ahead |
//! | `nodes`, `route_turn`, `route_work` | who works on the store, and finding what a node has handlers for |
//! | `sweep`, `sweep_take`, `health`, `repair` | what nobody can do, takes or has, and what is done about it |
//! | `bounces` | why turns and work items were given back |
//! | `history`, `status`, `admin`, `listing`, `delete`, `prune` | what clients and operators read and remove |
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
mod append;
mod attempt;
mod behind;
mod blocked;
mod bounces;
mod call;
mod caller;
mod carrier;
mod clock_steps;
mod connection;
mod delete;
mod effects;
mod endings;
mod execution_row;
mod fault;
mod fetch_turn;
mod fetch_work;
mod filtered_out;
mod flush;
mod group;
mod health;
mod history;
mod horizon;
mod instance_row;
mod item;
mod late;
mod listener;
mod listing;
mod memory;
mod messages;
mod news;
mod nodes;
mod one_statement;
mod open;
mod options;
mod outcome;
mod parked;
mod pipeline;
mod provider;
mod provider_admin;
mod prune;
mod redrive;
mod release;
mod repair;
mod requirements;
mod rights;
mod route_turn;
mod route_work;
mod row_probe;
mod schema;
mod serve;
mod sessions;
mod set_aside;
mod sslmode;
mod statistics;
mod status;
mod store;
mod sweep;
mod sweep_take;
mod take;
mod tls;
mod token;
mod turn_commit;
mod upkeep;
mod values;
mod wait;
mod work;
mod working_set;
mod write_group;
mod write_one;
mod write_pieces;
mod writes;

pub use caller::PostgresTransaction;
pub use open::open;
pub use options::{GroupLimits, PostgresOptions, Tls};
pub use set_aside::SetAsideItem;
pub use statistics::PostgresStatistics;
pub use store::PostgresProvider;
/// The version of tokio-postgres that this store is built with, for transactions of the caller.
pub use tokio_postgres;
