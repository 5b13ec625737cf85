//! Hostile surroundings that take minutes to show what they do.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `neighbour` | an instance that is started again and again, and how long it takes |
//! | `memory` | how much memory the process has used |
//! | `large_inbox` | one instance is sent many messages that are large together |
//! | `large_turns` | turns that are too large, and turns that are very large |
//! | `recovery` | running work after a kill and after an outage |
//! | `snapshot` | an old snapshot on the PostgreSQL server keeps dead rows from being removed |

mod large_inbox;
mod large_turns;
mod memory;
mod neighbour;
mod options;
mod recovery;
mod snapshot;

use crate::floor::Failure;
pub(crate) use options::{Options, Probe};
pub(crate) use recovery::{
    Orders as RecoveryOrders, WORKER as RECOVERY_WORKER, run_worker as run_recovery_worker,
};

/// Runs a probe; whether what it checks holds.
pub(crate) async fn run(options: Options) -> Result<bool, Failure> {
    match options.probe {
        Probe::LargeInbox => large_inbox::run(&options).await,
        Probe::LargeTurns => large_turns::run(&options).await,
        Probe::Recovery => recovery::run(&options).await,
        Probe::Snapshot => snapshot::run(&options).await,
    }
}
