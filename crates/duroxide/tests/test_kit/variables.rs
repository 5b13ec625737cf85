//! What the environment variables of the kit do, and what a failed chaos run prints: seen from outside, in a process of its own.

use std::process::{Command, Output};

use duroxide::prelude::*;
use duroxide::testing::run_test_with;

/// Where the golden file of [`records`] goes.
const PATH_VARIABLE: &str = "TEST_KIT_GOLDEN_PATH";

async fn answer(_ctx: OrchestrationContext, input: u32) -> Result<u32> {
    Ok(input)
}

fn program() -> duroxide::Builder {
    TestEnv::builder().discover(false).orchestration("answer", answer)
}

#[test]
#[ignore = "fails on purpose; run by a_failed_seed_is_printed_with_its_command"]
fn fails_with_seed_17() -> Result<()> {
    run_test_with(program(), |env| async move {
        for env in env.chaos_seeds(15..20) {
            println!("runs seed {:?}", env.chaos_seed());
            assert_eq!(env.start(answer, "one", 1).await?.result().await?, 1);
            if env.chaos_seed() == Some(17) {
                return Err(Failure::from("on purpose"));
            }
        }
        Ok(())
    })
}

#[test]
#[ignore = "needs a path; run by blessing_writes_what_is_checked_afterwards"]
fn records() -> Result<()> {
    run_test_with(program(), |env| async move {
        let run = env.start(answer, "one", 1).await?;
        assert_eq!(run.result().await?, 1);
        run.golden(std::env::var(PATH_VARIABLE)?)
    })
}

/// Runs a test of this program in a process of its own.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("a test runs from a file");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.env_remove("DUROXIDE_CHAOS_SEED").env_remove("DUROXIDE_BLESS");
    command.envs(variables.iter().copied()).output().expect("the test program runs")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn a_failed_seed_is_printed_with_its_command() {
    let failed = run("variables::fails_with_seed_17", &[]);
    assert!(!failed.status.success());
    let text_of_all = text(&failed);
    let command = "DUROXIDE_CHAOS_SEED=17 cargo test variables::fails_with_seed_17";
    assert!(text_of_all.contains(command), "{text_of_all}");
    assert!(text_of_all.contains("runs seed Some(15)"), "{text_of_all}");
    let one = run("variables::fails_with_seed_17", &[("DUROXIDE_CHAOS_SEED", "17")]);
    assert!(!one.status.success());
    assert!(!text(&one).contains("runs seed Some(15)"), "only the chosen seed runs: {}", text(&one));
    let other = run("variables::fails_with_seed_17", &[("DUROXIDE_CHAOS_SEED", "3")]);
    assert!(other.status.success() && text(&other).contains("runs seed Some(3)"), "{}", text(&other));
    let wrong = run("variables::fails_with_seed_17", &[("DUROXIDE_CHAOS_SEED", "all")]);
    assert!(text(&wrong).contains("DUROXIDE_CHAOS_SEED must be a number, and is 'all'"), "{}", text(&wrong));
}

#[test]
fn blessing_writes_what_is_checked_afterwards() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let path = directory.path().join("answer.json");
    let path = path.to_str().expect("its path is text");
    let missing = run("variables::records", &[(PATH_VARIABLE, path)]);
    assert!(!missing.status.success() && text(&missing).contains("cannot read"), "{}", text(&missing));
    let blessed = run("variables::records", &[(PATH_VARIABLE, path), ("DUROXIDE_BLESS", "1")]);
    assert!(blessed.status.success(), "{}", text(&blessed));
    let checked = run("variables::records", &[(PATH_VARIABLE, path)]);
    assert!(checked.status.success(), "{}", text(&checked));
}
