//! Recorded histories: written, replayed, and what is wrong with those that are not.

use std::path::PathBuf;

use duroxide::prelude::*;
use duroxide::testing::{ReplayError, run_test_with};

async fn step(_ctx: ActivityContext, number: u32) -> Result<u32> {
    Ok(number)
}

/// What was released.
async fn release_one(ctx: OrchestrationContext, input: u32) -> Result<u32> {
    ctx.sleep(Duration::from_secs(60)).await;
    Ok(ctx.call(step, input).await?)
}

/// The same name with another order: it does not replay what `release_one` recorded.
async fn release_two(ctx: OrchestrationContext, input: u32) -> Result<u32> {
    let stepped = ctx.call(step, input).await?;
    ctx.sleep(Duration::from_secs(60)).await;
    Ok(stepped)
}

/// The same commands with another result.
async fn release_three(ctx: OrchestrationContext, input: u32) -> Result<u32> {
    Ok(release_one(ctx, input).await? + 1)
}

/// The same with changes behind patches, at its begin and at its end.
async fn release_patched(ctx: OrchestrationContext, input: u32) -> Result<u32> {
    if ctx.patched("check-first") {
        ctx.call(step, 0).await?;
    }
    let stepped = release_one(ctx.clone(), input).await?;
    if ctx.patched("check-last") {
        ctx.call(step, stepped).await?;
    }
    Ok(stepped)
}

async fn other(_ctx: OrchestrationContext, input: u32) -> Result<u32> {
    Ok(input)
}

/// Counts down over several executions.
async fn counts_down(ctx: OrchestrationContext, left: u32) -> Result<u32> {
    ctx.sleep(Duration::from_secs(1)).await;
    if left == 0 {
        return Ok(0);
    }
    ctx.continue_as(counts_down, left - 1).await
}

fn program() -> duroxide::Builder {
    TestEnv::builder()
        .discover(false)
        .activity("step", step)
        .orchestration("other", other)
        .orchestration("counts_down", counts_down)
}

fn file(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let path = directory.path().join("histories").join(name);
    (directory, path)
}

/// The history of `release_one`, in a file.
fn recorded() -> (tempfile::TempDir, PathBuf) {
    let (directory, path) = file("release.json");
    let recorded = path.clone();
    let blessed: Result<()> =
        run_test_with(program().orchestration("release", release_one), |env| async move {
            let run = env.start(release_one, "one", 5).await?;
            assert_eq!(run.result().await?, 5);
            run.bless(&recorded)?;
            run.golden(&recorded)
        });
    blessed.expect("its own history replays");
    (directory, path)
}

#[test]
fn a_file_says_what_it_is_of_and_is_the_same_each_time() {
    let ((_one, first), (_two, second)) = (recorded(), recorded());
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(read(&first), read(&second));
    let json: serde_json::Value = serde_json::from_str(&read(&first)).expect("it is JSON");
    assert_eq!((json["orchestration"].as_str(), json["version"].as_str()), (Some("release"), Some("1.0.0")));
    assert!(json["duroxide_version"].is_string());
}

#[test]
fn changed_code_is_found_by_the_recorded_history() -> Result<()> {
    let (directory, path) = recorded();
    let json = std::fs::read_to_string(&path)?;
    let env = TestEnv::new(program().orchestration("release", release_one));
    env.replay(&json)?;
    env.replay_dir(path.parent().expect("it is in a directory"))?;
    let env = TestEnv::new(program().orchestration("release", release_two));
    let Err(mismatch) = env.replay(&json) else { panic!("the order of its commands is another") };
    assert!(
        matches!(&mismatch, ReplayError::Mismatch { diff, .. } if diff.contains("at event 2")),
        "{mismatch}"
    );
    assert!(mismatch.to_string().contains("differs in kind"), "{mismatch}");
    let Err(in_directory) = env.replay_dir(path.parent().expect("it is in a directory")) else {
        panic!("the only file of the directory is not replayed")
    };
    assert!(in_directory.to_string().contains("release.json"), "{in_directory}");
    let env = TestEnv::new(program().orchestration("release", release_three));
    let Err(mismatch) = env.replay(&json) else { panic!("its result is another") };
    assert!(mismatch.to_string().contains("OrchestrationCompleted"), "{mismatch}");
    drop(directory);
    Ok(())
}

#[test]
fn changes_behind_patches_replay_what_was_recorded_before_them() -> Result<()> {
    let (_directory, path) = recorded();
    run_test_with(program().orchestration("release", release_patched), |env| async move {
        env.replay(&std::fs::read_to_string(&path)?)?;
        let run = env.start(release_patched, "new", 5).await?;
        assert_eq!(run.result().await?, 5);
        assert_eq!(env.calls(step).len(), 3, "a new execution goes the way of both patches");
        run.assert_replays();
        Ok(())
    })
}

/// What `golden` says of a file.
fn refused(path: PathBuf) -> String {
    let checked: Result<()> =
        run_test_with(program().orchestration("release", release_one), |env| async move {
            let run = env.start(release_one, "one", 5).await?;
            run.result().await?;
            run.golden(path)
        });
    checked.expect_err("the file is wrong").to_string()
}

#[test]
fn a_file_that_is_missing_damaged_or_of_another_orchestration_is_refused_with_its_name() -> Result<()> {
    let (_directory, missing) = file("missing.json");
    let text = refused(missing);
    assert!(text.contains("cannot read") && text.contains("missing.json"), "{text}");
    assert!(text.contains("DUROXIDE_BLESS=1"), "{text}");

    let (_directory, path) = recorded();
    let whole = std::fs::read_to_string(&path)?;
    std::fs::write(&path, &whole[..whole.len() / 2])?;
    let text = refused(path.clone());
    assert!(text.contains("release.json': it is not a recorded history: EOF"), "{text}");
    std::fs::write(
        &path,
        "{\"orchestration\":\"release\",\"version\":\"1.0.0\",\"duroxide_version\":\"1\",\"executions\":[]}",
    )?;
    assert!(refused(path.clone()).contains("it has no events"));
    std::fs::write(&path, whole.replacen("\"release\"", "\"older\"", 1))?;
    let text = refused(path.clone());
    assert!(text.contains("its header says 'older', its first event 'release'"), "{text}");
    std::fs::write(&path, whole.replace("\"release\"", "\"older\""))?;
    let text = refused(path);
    assert!(text.contains("it is a history of orchestration 'older', and not of 'release'"), "{text}");
    Ok(())
}

#[test]
fn a_history_of_an_orchestration_that_the_program_does_not_have_is_refused() -> Result<()> {
    let (_directory, path) = recorded();
    let env = TestEnv::new(program());
    let refused = env.replay(&std::fs::read_to_string(path)?);
    assert!(matches!(refused, Err(ReplayError::NotRegistered { .. })), "{refused:?}");
    let (_directory, nowhere) = file("none.json");
    assert!(matches!(env.replay_dir(nowhere), Err(ReplayError::Missing { .. })));
    Ok(())
}

#[test]
fn every_execution_of_a_chain_is_recorded_and_replayed() -> Result<()> {
    let (_directory, path) = file("chain.json");
    run_test_with(program(), |env| async move {
        let run = env.start(counts_down, "chain", 3).await?;
        assert_eq!(run.result().await?, 0);
        run.assert_replays();
        run.bless(&path)?;
        let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        assert_eq!(json["executions"].as_array().map(Vec::len), Some(4));
        run.golden(&path)
    })
}

/// Does something else at every replay.
async fn forgetful(ctx: OrchestrationContext, _input: ()) -> Result<()> {
    static RUNS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    if RUNS.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 0 {
        ctx.call(step, 1).await?;
    }
    ctx.sleep(Duration::from_secs(60)).await;
    Ok(())
}

#[test]
#[should_panic(expected = "schedule mismatch at event 2")]
fn a_program_that_is_not_deterministic_does_not_replay() {
    run_test_with(
        TestEnv::builder().discover(false).activity("step", step).orchestration("forgetful", forgetful),
        |env| async move {
            let run = env.start(forgetful, "one", ()).await.expect("a new id");
            run.result().await.expect("the node holds the program between its turns");
            run.assert_replays();
        },
    );
}
