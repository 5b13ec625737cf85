//! New code beside old, handlers that nobody has, versions that a node does not replay, and poison.
//!
//! Most of these tests have the names that the requirement documents give them; `docs/seed-tests.md` lists them.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "other test files use the rest")]
mod common;
#[path = "../faults/recorder.rs"]
#[allow(dead_code, reason = "other test files use the rest")]
mod recorder;

mod causes;
mod compatibility;
mod deletion;
mod draining;
mod log;
mod metrics;
mod pinned;
mod poison;
mod poison_errors;
mod routing;
mod unknown;
mod unregistered;
