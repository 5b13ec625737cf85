//! The command line against a store of known content: what it writes, where, and its exit code.
//!
//! The store is built once. Commands that change something get a copy of it. `UPDATE_EXPECT=1` writes what is expected anew.

#[cfg(test)]
mod changing;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod replaying;
#[cfg(test)]
mod store;
