//! Hostile surroundings that take minutes to show what they do.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `snapshot` | an old snapshot on the PostgreSQL server keeps dead rows from being removed |

mod options;
mod snapshot;

use crate::floor::Failure;
pub(crate) use options::{Options, Probe};

/// Runs a probe; whether what it checks holds.
pub(crate) async fn run(options: Options) -> Result<bool, Failure> {
    match options.probe {
        Probe::Snapshot => snapshot::run(&options).await,
    }
}
