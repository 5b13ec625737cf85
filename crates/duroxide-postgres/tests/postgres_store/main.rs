//! What is particular to the PostgreSQL store: opening, other processes, and what happens to servers.

mod backups;
mod caller;
mod cluster;
mod dropped;
mod encryption;
mod full_inboxes;
mod health;
mod one_instance;
mod opening;
mod outages;
mod programs;
mod proxy;
mod remembered;
mod servers;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;
