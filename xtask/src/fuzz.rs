//! `cargo xtask fuzz [CASES]`: every decoder and parser against made-up and damaged texts, for long.

use std::path::Path;
use std::time::Instant;

use crate::say;
use crate::test_run::{cargo, finish, seconds};

/// Cases of each test when no number is given: about ten minutes.
const DEFAULT_CASES: u32 = 500_000;

/// The package, the test and the share of the cases that it gets, as a divisor: opening stores is slow.
const TESTS: [(&str, &str, u32); 2] = [("duroxide-core", "fuzz", 1), ("duroxide", "fuzz", 200)];

/// Runs all of them; whether each held.
pub(crate) fn run(root: &Path, cases: Option<&str>) -> bool {
    let cases = match cases.map(str::parse) {
        None => DEFAULT_CASES,
        Some(Ok(cases)) if cases > 0 => cases,
        Some(_) => {
            say("the number of cases must be a number above zero, such as 500000");
            return false;
        }
    };
    let mut all_held = true;
    for (package, test, divisor) in TESTS {
        let started = Instant::now();
        let mut command = cargo(root);
        command.args([
            "test",
            "--quiet",
            "--release",
            "--all-features",
            "--package",
            package,
            "--test",
            test,
        ]);
        command.env("DUROXIDE_FUZZ_CASES", (cases / divisor).max(1).to_string());
        let outcome = finish(&mut command);
        let word = outcome.as_ref().map_or("FAILED", |()| "ok");
        say(&format!("{package}: {word} after {}", seconds(started.elapsed())));
        all_held &= outcome.is_ok();
    }
    all_held
}
