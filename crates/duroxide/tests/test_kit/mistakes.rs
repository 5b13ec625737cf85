//! A program that cannot go on fails its test at once, with the reason.

use std::panic::{AssertUnwindSafe, catch_unwind};

use duroxide::prelude::*;
use duroxide::testing::run_test_with;

async fn unnamed(_ctx: ActivityContext, _input: ()) -> Result<()> {
    Ok(())
}

async fn render(_ctx: ActivityContext, page: u32) -> Result<String> {
    Ok(format!("real {page}"))
}

async fn calls_unnamed(ctx: OrchestrationContext, _input: ()) -> Result<()> {
    Ok(ctx.call(unnamed, ()).await?)
}

async fn renders(ctx: OrchestrationContext, page: u32) -> Result<String> {
    Ok(ctx.call(render, page).await?)
}

async fn calls_by_name(ctx: OrchestrationContext, _input: ()) -> Result<String> {
    Ok(ctx.schedule_activity("Nobody", "").await?)
}

/// A client of a service.
struct Greeting(&'static str);

async fn greets(ctx: ActivityContext, name: String) -> Result<String> {
    Ok(format!("{}, {name}", ctx.state::<Greeting>().0))
}

async fn greeting(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greets, name).await?)
}

fn program() -> duroxide::Builder {
    TestEnv::builder()
        .discover(false)
        .declare_activity("render", render)
        .activity("greets", greets)
        .orchestration("calls_unnamed", calls_unnamed)
        .orchestration("calls_by_name", calls_by_name)
        .orchestration("renders", renders)
        .orchestration("greeting", greeting)
}

/// The text with which a test fails.
fn failure_of<Fut: Future<Output = Result<()>>>(test: impl FnOnce(TestEnv) -> Fut) -> String {
    match catch_unwind(AssertUnwindSafe(|| run_test_with(program(), test))) {
        Ok(Ok(())) => panic!("the test does not fail"),
        Ok(Err(failure)) => failure.to_string(),
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast::<&str>().expect("a panic has a text")).to_string(),
        },
    }
}

#[test]
fn a_call_of_a_function_without_a_name_fails_the_test_with_both_ways_to_give_it_one() {
    let text = failure_of(|env| async move {
        let run = env.start(calls_unnamed, "one", ()).await?;
        Ok(run.result().await?)
    });
    assert!(text.contains("unnamed has no name on this node: put #[duroxide::activity] on it"), "{text}");
    let text = failure_of(|env| async move {
        env.mock(unnamed, |_ctx, _input: ()| async move { Ok(()) });
        Ok(())
    });
    assert!(text.contains("unnamed has no name on this node"), "{text}");
}

#[test]
fn a_handler_that_is_only_declared_wants_a_mock() -> Result<()> {
    let text = failure_of(|env| async move {
        env.start(renders, "one", 1).await?.result().await?;
        Ok(())
    });
    assert_eq!(text, "'render' is only declared here: give it a mock with env.mock(..)");
    run_test_with(program(), |env| async move {
        env.mock(render, |_ctx, page: u32| async move { Ok(format!("mocked {page}")) });
        assert_eq!(env.start(renders, "one", 1).await?.result().await?, "mocked 1");
        Ok(())
    })
}

#[test]
fn a_missing_handler_fails_the_test_instead_of_being_waited_for() {
    let text = failure_of(|env| async move {
        env.start(calls_by_name, "one", ()).await?.result().await?;
        Ok(())
    });
    assert_eq!(
        text,
        "instance 'one' cannot go on: activity Nobody is not registered on the node that fetched it"
    );
}

#[test]
fn handlers_and_mocks_reach_the_states_of_the_environment() -> Result<()> {
    run_test_with(program(), |env| async move {
        env.state(Greeting("Hello"));
        assert_eq!(env.start(greeting, "real", "you".to_string()).await?.result().await?, "Hello, you");
        env.mock(
            greets,
            |ctx, name: String| async move { Ok(format!("{} {name}!", ctx.state::<Greeting>().0)) },
        );
        assert_eq!(env.start(greeting, "mocked", "you".to_string()).await?.result().await?, "Hello you!");
        Ok(())
    })
}
