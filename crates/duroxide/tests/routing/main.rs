//! Clusters of nodes that differ: who is listed, who gets what, and what nobody can do.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "shared with other tests, which use the rest of it")]
mod common;

mod mixed;
mod nodes;
mod roles;
mod roll_out;
mod rollout;
mod sweeper;
