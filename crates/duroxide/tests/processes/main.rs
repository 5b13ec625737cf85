//! Real processes that die: the store is a file, the signal is SIGKILL, the audit reads every history.
//!
//! The child processes are this test binary itself, started with the name of a job in its environment.

mod audit;
mod child;
mod crash_points;
mod crash_workload;
mod kill_loop;
mod killer;
mod recovery;
mod recovery_workload;
mod stopped;
