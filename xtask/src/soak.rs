//! `cargo xtask soak`: runs that are too long for every change. Each must hold what its program checks.

use std::path::Path;
use std::time::Instant;

use crate::say;
use crate::test_run::{cargo, finish, seconds};

/// The long runs of `duroxide-bench`, the quick ones first.
const RUNS: [&str; 4] = ["eternal", "listing", "kills", "soak"];

/// Runs all of them; whether each held.
pub(crate) fn run(root: &Path) -> bool {
    let mut all_held = true;
    for name in RUNS {
        let started = Instant::now();
        let program = ["run", "--quiet", "--release", "--package", "duroxide-bench", "--", name];
        let outcome = finish(cargo(root).args(program));
        say(&format!(
            "{name}: {} after {}",
            outcome.as_ref().map_or("FAILED", |()| "ok"),
            seconds(started.elapsed())
        ));
        all_held &= outcome.is_ok();
    }
    all_held
}
