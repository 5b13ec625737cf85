//! `cargo xtask test`: everything that must be green before a change lands; `--quick`: what to run many times a day.
//!
//! Three things make the whole run short. Everything that tests, soak and examples run is built by one call of cargo.
//! The tests mostly wait, so what only computes (the simulator, clippy, the documentation) runs beside them, at low
//! priority. And the tests of the PostgreSQL store run beside all other tests. The first part that fails ends the run:
//! what has begun is finished, nothing else begins.
//!
//! - [`parts`]: what there is to do; to add a part, add a line there
//! - [`lanes`]: does it, in order and side by side
//! - [`work`]: how one part is done
//! - [`built`]: what cargo built
//! - [`test_programs`]: runs the tests that were built
//! - [`stage`]: starts programs, shows or keeps their output
//! - [`table`]: what ran and how long it took

mod built;
mod lanes;
mod parts;
mod stage;
mod table;
mod test_programs;
mod work;

pub(crate) use lanes::run;
pub(crate) use stage::{cargo, finish};
pub(crate) use table::seconds;
