//! Chores of the workspace, run as `cargo xtask <command>`.
//!
//! It uses the standard library alone, and a crate that does the same, so that it builds in a second and needs no
//! network.

mod fuzz;
mod postgres;
mod soak;
mod test_run;
mod tidy;
mod two_builds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  postgres         install PostgreSQL if it is missing, start a private server, and keep it until a key is pressed
  tidy             check the rules of the workspace that the compiler does not
  fuzz [CASES]     decoders and parsers against made-up and damaged texts, for long
  soak             the long runs: what must not grow, a late page of a long listing, killed processes (an hour or so)
  two-builds [COMMIT]
                   nodes of an earlier build (the last release) and of this one on one store, killed in a loop
  test [PART..]    run everything that must be green before a change lands, or only the named parts
  test --quick [PART..]
                   the same for many times a day, in two minutes: no server, no killed processes, 100 seeds
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root();
    let passed = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(&root),
        ["test", parts @ ..] => test_run::run(&root, parts),
        ["postgres"] => postgres::run(),
        ["soak"] => soak::run(&root),
        ["two-builds"] => two_builds::run(&root, None),
        ["two-builds", commit] => two_builds::run(&root, Some(commit)),
        ["fuzz"] => fuzz::run(&root, None),
        ["fuzz", cases] => fuzz::run(&root, Some(cases)),
        [] | ["help" | "--help" | "-h"] => {
            say(USAGE);
            true
        }
        [unknown, ..] => {
            say(&format!("unknown command or arguments: {unknown}\n\n{USAGE}"));
            false
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn workspace_root() -> PathBuf {
    // What cargo says when it runs this, not when it built it: checkouts may share a target directory.
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_string());
    Path::new(&package).parent().expect("xtask lies inside the workspace").to_path_buf()
}

/// Prints one line of a chore's report.
#[expect(clippy::print_stdout, reason = "a chore reports to the terminal")]
fn say(line: &str) {
    println!("{line}");
}
