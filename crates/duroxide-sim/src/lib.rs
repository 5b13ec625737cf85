//! Whole clusters in virtual time, decided by one seed.
//!
//! Three real runtimes share one store in memory, the model or the shared rules on plain rows, each over a line that fails: calls fail before or after they are
//! carried out, are delayed beyond their locks, and kill the process at any await. Generated programs run on
//! them while clients send, cancel and wait. The checks of [`simulate()`] look at the store after the commits and
//! at the end. Nothing reads a clock, a random number or a thread's timing: the same seed gives the same trace.
//!
//! | file | its job |
//! |---|---|
//! | `program`, `generate`, `generate_mended`, `generate_spinner`, `generate_long`, `generate_hostile` | what is run, from the seed |
//! | `interpret`, `activities`, `nodes`, `clients`, `redrive` | running it |
//! | `backing` | the store that it runs on |
//! | `faults`, `store` | what goes wrong |
//! | `ledger`, `expect`, `audit` | what was promised, and whether it was kept |
//! | `world`, `simulate` | what holds it together |

mod activities;
mod audit;
mod backing;
mod clients;
mod clock;
mod counters;
mod expect;
mod faults;
mod generate;
mod generate_hostile;
mod generate_long;
mod generate_mended;
mod generate_spinner;
mod interpret;
mod ledger;
mod names;
mod nodes;
mod program;
mod redrive;
mod rng;
mod simulate;
mod store;
mod trace;
mod world;

pub use backing::Backing;
pub use counters::Counters;
pub use duroxide_core::protection::Protection;
pub use simulate::{Breakage, Report, Setup, simulate};
pub use trace::Keep;
