//! A mock that fails in some way gives that kind of failure to its caller.

use duroxide::prelude::*;
use duroxide::testing::run_test_with;

async fn work(_ctx: ActivityContext, _input: ()) -> Result<(), String> {
    Ok(())
}

async fn child(_ctx: OrchestrationContext, _input: ()) -> Result<(), String> {
    Ok(())
}

/// The kind of failure that a caller sees, as a word.
fn word(result: Result<(), CallError<String>>) -> String {
    match result {
        Ok(()) => "ok".to_string(),
        Err(CallError::App(text)) => format!("app {text}"),
        Err(CallError::TimedOut { .. }) => "timed out".to_string(),
        Err(CallError::Cancelled { .. }) => "cancelled".to_string(),
        Err(CallError::Panicked { .. }) => "panicked".to_string(),
        Err(CallError::Poisoned { .. }) => "poisoned".to_string(),
        Err(_) => "other".to_string(),
    }
}

async fn calls_activity(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    Ok(word(ctx.call(work, ()).start_to_close(Duration::from_secs(60)).await))
}

async fn calls_child(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    Ok(word(ctx.child(child, ()).await))
}

fn program() -> duroxide::Builder {
    TestEnv::builder()
        .discover(false)
        .activity("work", work)
        .orchestration("child", child)
        .orchestration("calls_activity", calls_activity)
        .orchestration("calls_child", calls_child)
}

fn failures() -> [(CallError<String>, &'static str); 4] {
    let message = || "on purpose".to_string();
    [
        (CallError::App(message()), "app on purpose"),
        (CallError::Cancelled { reason: message() }, "cancelled"),
        (CallError::Panicked { message: message() }, "panicked"),
        (CallError::Other { message: message() }, "other"),
    ]
}

#[test]
fn an_activity_fails_as_its_mock_does() -> Result<()> {
    run_test_with(program(), |env| async move {
        let timed_out = CallError::TimedOut { message: "too slow".to_string() };
        for (number, (error, expected)) in
            failures().into_iter().chain([(timed_out, "timed out")]).enumerate()
        {
            env.mock_err(work, error);
            let run = env.start(calls_activity, format!("run-{number}"), ()).await?;
            assert_eq!(run.result().await?, expected);
            run.assert_replays();
        }
        Ok(())
    })
}

#[test]
fn a_child_fails_as_its_mock_does() -> Result<()> {
    run_test_with(program(), |env| async move {
        let poisoned = CallError::Poisoned { message: "again and again".to_string() };
        for (number, (error, expected)) in failures().into_iter().chain([(poisoned, "poisoned")]).enumerate()
        {
            env.mock_err(child, error);
            let run = env.start(calls_child, format!("run-{number}"), ()).await?;
            assert_eq!(run.result().await?, expected);
            run.assert_replays();
        }
        Ok(())
    })
}
