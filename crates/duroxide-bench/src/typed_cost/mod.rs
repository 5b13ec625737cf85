//! What the typed API costs beside the text-based one: the same programs in both styles, counted in instructions by
//! valgrind's callgrind, in events and in statements. Counts, unlike times, hardly depend on what else the machine does.
//!
//! | file | its job |
//! |---|---|
//! | `programs` | hello world and the chain in both styles |
//! | `counted` | runs one of them on one store, and counts its events and statements |
//! | `callgrind` | this program under valgrind, and the instructions that it took |
//! | `compare` | both styles side by side, and the verdict |

mod callgrind;
mod compare;
mod counted;
mod programs;

pub(crate) use compare::run;
pub(crate) use counted::{Orders, run_alone};

/// The command that callgrind runs.
pub(crate) const COUNTED: &str = "typed-cost-counted";
