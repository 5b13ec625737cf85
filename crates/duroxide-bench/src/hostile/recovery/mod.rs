//! After a kill and after an outage, running work ends in the time that it needs plus the lock, on a real store with real
//! processes.
//!
//! | file | what it does |
//! |---|---|
//! | `cases` | the three cases and how long each takes |
//! | `store` | the store that processes share, and the outage of it |
//! | `worker` | the process that runs the work |

mod cases;
mod store;
mod worker;

pub(crate) use cases::run;
pub(crate) use worker::{Orders, run as run_worker};

/// The command that starts a worker.
pub(crate) const WORKER: &str = "recovery-worker";
