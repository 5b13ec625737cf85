//! `cargo xtask test`: everything that must be green before a change lands.
//!
//! The parts run in order, the fast ones first. The first that fails ends the run; the table at the end says
//! what ran, how long it took and what failed. To add a part, add a line to [`parts`].

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::postgres::TestServer;
use crate::{say, tidy};

/// How long one example may run. They finish in a second or two; a minute means that one hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// How many seeds are simulated: enough to see every kind of fault, few enough for a minute.
const SIMULATED_SEEDS: &str = "1000";

/// Calls of the short soak run: enough to see memory that is kept for each call, few enough for half a minute.
const SOAK_CALLS: &str = "20000";
/// Executions of the short run of an eternal orchestration.
const SOAK_EXECUTIONS: &str = "1000";

/// Orchestrations of the short run of killed processes.
const KILLED_ORCHESTRATIONS: &str = "600";
/// And how long the processes are killed: some twenty kills.
const KILLED_SECONDS: &str = "15";

/// How often to look whether an example has ended.
const EXAMPLE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One line of the table.
struct Part {
    name: &'static str,
    work: Work,
}

enum Work {
    /// One call of cargo.
    Cargo(&'static [&'static str]),
    /// One call of cargo whose tests may use a PostgreSQL server.
    WithServer(&'static [&'static str]),
    /// One call of cargo where a warning of rustdoc is an error.
    StrictDocs(&'static [&'static str]),
    /// The rules of [`tidy`].
    Tidy,
    /// The simulator on its kept seeds and [`SIMULATED_SEEDS`] others, and with its protections switched off.
    Simulator,
    /// The runs that must not grow, with [`SOAK_CALLS`] and [`SOAK_EXECUTIONS`], and processes that are killed.
    Soak,
    /// Every program in an `examples` directory, run to its end.
    Examples,
}

fn parts() -> Vec<Part> {
    let part = |name, work| Part { name, work };
    vec![
        part("fmt", Work::Cargo(&["fmt", "--all", "--check"])),
        part("tidy", Work::Tidy),
        part(
            "clippy",
            Work::Cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        part(
            "tests",
            Work::WithServer(&[
                "test",
                "--workspace",
                "--all-features",
                "--lib",
                "--bins",
                "--tests",
                "--examples",
            ]),
        ),
        part("simulator", Work::Simulator),
        part("soak", Work::Soak),
        part("doc tests", Work::Cargo(&["test", "--workspace", "--all-features", "--doc"])),
        part("docs", Work::StrictDocs(&["doc", "--workspace", "--all-features", "--no-deps"])),
        part("examples", Work::Examples),
    ]
}

/// Runs all parts, or the named ones; whether all of them passed.
pub(crate) fn run(root: &Path, only: &[&str]) -> bool {
    let parts = parts();
    if let Some(unknown) = only.iter().find(|name| parts.iter().all(|part| part.name != **name)) {
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        say(&format!("no part is called '{unknown}'; there are: {}", names.join(", ")));
        return false;
    }
    let mut rows = Vec::new();
    let mut failed = None;
    for part in parts.iter().filter(|part| only.is_empty() || only.contains(&part.name)) {
        if failed.is_some() {
            rows.push(Row { name: part.name, outcome: "not run", took: None });
            continue;
        }
        say(&format!("\n=== {}", part.name));
        let started = Instant::now();
        let outcome = carry_out(root, &part.work);
        let took = Some(started.elapsed());
        match outcome {
            Ok(()) => rows.push(Row { name: part.name, outcome: "ok", took }),
            Err(reason) => {
                rows.push(Row { name: part.name, outcome: "FAILED", took });
                failed = Some(format!("part '{}' failed: {reason}", part.name));
            }
        }
    }
    say(&table(&rows));
    if let Some(failure) = &failed {
        say(failure);
    }
    failed.is_none()
}

fn carry_out(root: &Path, work: &Work) -> Result<(), String> {
    match work {
        Work::Cargo(arguments) => finish(cargo(root).args(*arguments)),
        Work::WithServer(arguments) => {
            let server = TestServer::start()?;
            finish(cargo(root).args(*arguments).envs(server.variable()))
        }
        Work::StrictDocs(arguments) => {
            finish(cargo(root).args(*arguments).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Work::Tidy if tidy::run(root) => Ok(()),
        Work::Tidy => Err("the findings are above".to_string()),
        Work::Simulator => run_simulator(root),
        Work::Soak => run_soak(root),
        Work::Examples => run_examples(root),
    }
}

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

pub(crate) fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|cause| format!("{command:?} did not start: {cause}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// Builds the simulator in its own profile, which pays for itself within the first hundreds of seeds, and runs it:
/// many seeds, and with each protection switched off in turn.
fn run_simulator(root: &Path) -> Result<(), String> {
    let simulator = ["run", "--quiet", "--profile", "sim", "--package", "duroxide-sim", "--"];
    finish(cargo(root).args(simulator).args(["--seeds", SIMULATED_SEEDS]))?;
    finish(cargo(root).args(simulator).args(["--protections", "--seeds", SIMULATED_SEEDS]))
}

/// Builds the long runs with the features of the tests and runs them briefly.
fn run_soak(root: &Path) -> Result<(), String> {
    finish(cargo(root).args(["build", "--workspace", "--all-features", "--bin", "duroxide-bench"]))?;
    let program = built()?.join("duroxide-bench");
    for (run, count) in [("soak", SOAK_CALLS), ("eternal", SOAK_EXECUTIONS)] {
        finish(Command::new(&program).current_dir(root).args([run, "--count", count]))?;
    }
    let kills = ["kills", "--count", KILLED_ORCHESTRATIONS, "--seconds", KILLED_SECONDS];
    finish(Command::new(&program).current_dir(root).args(kills))
}

/// The directory that programs are built into: that of this one.
fn built() -> Result<std::path::PathBuf, String> {
    let own = std::env::current_exe().map_err(|cause| format!("where xtask was built: {cause}"))?;
    Ok(own.parent().ok_or("xtask lies in no directory")?.to_path_buf())
}

/// Builds the examples, then runs each and looks at how it ended.
fn run_examples(root: &Path) -> Result<(), String> {
    let names = example_names(root)?;
    if names.is_empty() {
        say("no examples yet");
        return Ok(());
    }
    finish(cargo(root).args(["build", "--workspace", "--all-features", "--examples"]))?;
    let built = built()?.join("examples");
    for name in names {
        let started = Instant::now();
        run_example(root, &built.join(&name)).map_err(|reason| format!("example {name}: {reason}"))?;
        say(&format!("example {name}: ok after {}", seconds(started.elapsed())));
    }
    Ok(())
}

/// The examples of all crates: `examples/<name>.rs` and `examples/<name>/main.rs`.
fn example_names(root: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for krate in entries(&root.join("crates"))? {
        let directory = krate.join("examples");
        if !directory.is_dir() {
            continue;
        }
        for entry in entries(&directory)? {
            if entry.extension().is_some_and(|extension| extension == "rs") || entry.join("main.rs").is_file()
            {
                names.extend(entry.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    Ok(names)
}

fn entries(directory: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let failed = |cause: std::io::Error| format!("{}: {cause}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

fn run_example(root: &Path, program: &Path) -> Result<(), String> {
    let mut child = Command::new(program)
        .current_dir(root)
        .spawn()
        .map_err(|cause| format!("{} did not start: {cause}", program.display()))?;
    let started = Instant::now();
    loop {
        match child.try_wait().map_err(|cause| format!("cannot be waited for: {cause}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None if started.elapsed() < EXAMPLE_LIMIT => std::thread::sleep(EXAMPLE_POLL_INTERVAL),
            None => {
                let stopped = child.kill().and_then(|()| child.wait());
                let limit = seconds(EXAMPLE_LIMIT);
                return Err(format!("did not end within {limit}; stopping it: {stopped:?}"));
            }
        }
    }
}

struct Row {
    name: &'static str,
    outcome: &'static str,
    took: Option<Duration>,
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("\n{:<12} {:<8} {:>9}\n", "part", "result", "time");
    for row in rows {
        let took = row.took.map(seconds).unwrap_or_default();
        text += &format!("{:<12} {:<8} {took:>9}\n", row.name, row.outcome);
    }
    let total = rows.iter().filter_map(|row| row.took).sum();
    text + &format!("{:<12} {:<8} {:>9}", "all", "", seconds(total))
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_every_part_with_its_time_also_what_did_not_run() {
        let rows = [
            Row { name: "fmt", outcome: "ok", took: Some(Duration::from_millis(1_250)) },
            Row { name: "tidy", outcome: "FAILED", took: Some(Duration::from_millis(2_000)) },
            Row { name: "clippy", outcome: "not run", took: None },
        ];
        let text = table(&rows);
        let lines: Vec<Vec<&str>> =
            text.trim().lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["fmt", "ok", "1.2", "s"]);
        assert_eq!(lines[2], ["tidy", "FAILED", "2.0", "s"]);
        assert_eq!(lines[3], ["clippy", "not", "run"]);
        assert_eq!(lines[4], ["all", "3.2", "s"]);
    }

    #[test]
    fn an_unknown_part_is_refused_before_anything_runs() {
        assert!(!run(Path::new("/nowhere"), &["fmt", "levitation"]));
    }

    #[test]
    fn part_names_are_unique() {
        let mut names: Vec<&str> = parts().iter().map(|part| part.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), parts().len());
    }
}
