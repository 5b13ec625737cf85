//! Tests of programs in virtual time: no server, no sleeps, mocks by function. Feature `testing`.
//!
//! | file | its job |
//! |---|---|
//! | `test_env` | the environment: a store in memory, a node, a clock that jumps |
//! | `node` | starting the node, and the options that keep it quiet |
//! | `pace` | when time jumps, and when it must not |
//! | `mocks`, `calls` | replacing handlers, and what was called |
//! | `watched` | what the handlers of an environment and its store report |
//! | `watched_handlers` | handlers that are recorded and can be replaced |
//! | `test_run` | one instance under test |
//! | `waits` | what an instance waits for, in words |
//! | `golden` | histories in files, and their replay by the registered code |
//! | `chaos`, `deck` | the same program while the store fails and the process dies; what goes wrong when |
//! | `run_test` | running a test function |

mod calls;
mod chaos;
mod deck;
mod golden;
mod mocks;
mod node;
mod pace;
mod run_test;
mod test_env;
mod test_run;
mod waits;
mod watched;
mod watched_handlers;

pub use crate::replay::ReplayError;
pub use calls::Called;
pub use golden::{replay, replay_dir};
pub use mocks::Mockable;
pub use run_test::{TestOutcome, run_test, run_test_with};
pub use test_env::TestEnv;
pub use test_run::TestRun;
