//! A store that keeps rows in plain maps and leaves every change to the [rules](crate::rules), for tests.
//!
//! Nothing survives the process. It shows how little a store has to bring along, and it lets the simulator and the random
//! comparison run on the rules without a database. With [`RowStore::with_clock_and_seed`] all it does is a function of
//! the calls.
//!
//! | module | what it does |
//! |---|---|
//! | `tables` | the rows: what the rules ask for is looked up, what they changed is written |
//! | `fetch`, `sessions` | finding rows that are ready, and locking them |
//! | `clock_steps` | what came while the clock was ahead |
//! | `store` | one transaction at a time, and the calls that wait |
//! | `provider`, `read` | the trait, and what is read without a lock |
//! | `admin`, `deletion` | the management calls |
//! | `nodes` | the nodes that work on the store, and the work that none of them can do |
//! | `group_tests` | random calls, alone and in groups |
//! | `validations` | the tests of the contract on this store |
//! | `inspect` | looking at the rows, and making them undecodable |

mod admin;
mod clock_steps;
mod deletion;
mod fetch;
#[cfg(test)]
mod group_tests;
mod inspect;
mod nodes;
mod provider;
mod read;
mod sessions;
mod store;
mod tables;
#[cfg(all(test, feature = "provider-test"))]
mod validations;

pub use store::{Dropped, RowStore};
