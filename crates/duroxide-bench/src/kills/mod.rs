//! Four processes on one SQLite file, each killed with SIGKILL every few seconds, while clients in them start, send,
//! cancel and wait. What the store acknowledged is written down outside it, and compared with it in the end.

mod audit;
mod log;
mod options;
mod supervise;
mod worker;
mod workload;

pub(crate) use options::Options;
pub(crate) use supervise::run;
pub(crate) use worker::{Orders, run as run_worker};

/// Processes that share the file.
const PROCESSES: usize = 4;
/// The command that starts one of them.
pub(crate) const WORKER: &str = "kills-worker";
