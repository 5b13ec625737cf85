//! Real processes on one server: killed, stopped and continued, while the server itself is restarted.
//!
//! The child processes are this test binary itself, started with the name of a job in its environment.

#[path = "../../../duroxide/tests/processes/audit.rs"]
mod audit;
mod child;
mod cluster;
mod crash_points;
#[path = "../../../duroxide/tests/processes/crash_workload.rs"]
mod crash_workload;
mod recovery;
#[path = "../../../duroxide/tests/processes/recovery_workload.rs"]
mod recovery_workload;
mod stopped;
