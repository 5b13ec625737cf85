//! How one part is done.

use std::time::Duration;

use super::built::{Built, Kind, Program};
use super::lanes::Run;
use super::parts::Work;
use super::stage::{Stage, cargo, plain};
use super::test_programs;
use crate::{say, tidy};

/// How many seeds are simulated: enough to see every kind of fault, few enough for a minute.
const SIMULATED_SEEDS: &str = "1000";
/// And in the quick run.
const QUICK_SEEDS: &str = "100";

/// Calls of the short soak run: enough to see memory that is kept for each call, few enough for half a minute.
const SOAK_CALLS: &str = "20000";
/// Executions of the short run of an eternal orchestration.
const SOAK_EXECUTIONS: &str = "1000";

/// Orchestrations of the short run of killed processes.
const KILLED_ORCHESTRATIONS: &str = "600";
/// And how long the processes are killed: some twenty kills.
const KILLED_SECONDS: &str = "15";

/// How long one example may run. They finish in a second or two; a minute means that one hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn carry_out(run: &Run<'_>, stage: Stage<'_>, work: &Work) -> Result<(), String> {
    match work {
        Work::Cargo(arguments) => stage.finish(cargo(stage.root).args(*arguments)),
        Work::StrictDocs(arguments) => {
            stage.finish(cargo(stage.root).args(*arguments).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Work::Tidy => {
            say("\n=== tidy");
            if tidy::run(stage.root) { Ok(()) } else { Err("the findings are above".to_string()) }
        }
        Work::Build(arguments) => {
            say("\n=== build");
            let built = Built::by_cargo(stage.root, arguments)?;
            run.built.set(built).map_err(|_| "built twice".to_string())
        }
        Work::Tests => test_programs::run_all(run, stage, run.built()?),
        Work::Soak => soak(stage, run.built()?),
        Work::Examples => examples(stage, run.built()?),
        Work::Simulator => simulator(stage),
        Work::SimulatorAsBuilt => {
            let program = run.built()?.plain("duroxide-sim")?;
            stage.finish(plain(&program.path).current_dir(stage.root).args(["--seeds", QUICK_SEEDS]))
        }
    }
}

/// Builds the simulator in its own profile, which pays for itself within the first hundreds of seeds, and runs it:
/// many seeds, and with each protection switched off in turn.
fn simulator(stage: Stage<'_>) -> Result<(), String> {
    let simulator = ["run", "--quiet", "--profile", "sim", "--package", "duroxide-sim", "--"];
    stage.finish(cargo(stage.root).args(simulator).args(["--seeds", SIMULATED_SEEDS]))?;
    let protections = ["--protections", "--seeds", SIMULATED_SEEDS];
    stage.finish_as("simulator: protections", cargo(stage.root).args(simulator).args(protections))
}

/// Runs the long runs briefly.
fn soak(stage: Stage<'_>, built: &Built) -> Result<(), String> {
    let program = built.plain("duroxide-bench")?;
    let runs: [&[&str]; 3] = [
        &["soak", "--count", SOAK_CALLS],
        &["eternal", "--count", SOAK_EXECUTIONS],
        &["kills", "--count", KILLED_ORCHESTRATIONS, "--seconds", KILLED_SECONDS],
    ];
    for arguments in runs {
        let heading = format!("soak: {}", arguments[0]);
        stage.finish_as(&heading, plain(&program.path).current_dir(stage.root).args(arguments))?;
    }
    Ok(())
}

/// Runs each example and looks at how it ended. The files that they write begin empty and are no part of the tree.
fn examples(stage: Stage<'_>, built: &Built) -> Result<(), String> {
    let directory = stage.root.join("target/example-files");
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    }
    std::fs::create_dir_all(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    let mut examples: Vec<&Program> = built.of_kind(Kind::Example).collect();
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    for example in examples {
        let name = &example.name;
        let mut command = plain(&example.path);
        stage.finish_within(EXAMPLE_LIMIT, &format!("example {name}"), command.current_dir(&directory))?;
    }
    Ok(())
}
