//! What is particular to the PostgreSQL store: opening, other processes, and what happens to servers.

mod backups;
mod caller;
mod causes;
mod clock_steps;
mod cluster;
mod damaged_rows;
mod dropped;
mod encryption;
mod full_inboxes;
mod health;
mod held_rows;
mod held_snapshots;
mod large_turns;
#[path = "../../../duroxide/tests/faults/many_sessions.rs"]
mod many_sessions;
mod one_instance;
mod opening;
mod outages;
mod panics;
mod pooler;
mod programs;
mod proxy;
mod refused;
mod refused_values;
mod remembered;
mod servers;
mod sessions;
#[path = "../../../duroxide/tests/scenarios/stated_causes.rs"]
mod stated_causes;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;
