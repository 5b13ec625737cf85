//! Activities and children by function.

use std::sync::Arc;

use duroxide::prelude::*;
use duroxide::providers::memory::MemoryProvider;
use duroxide::{Builder, EventKind};

use super::{Diary, LONG, check};

async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

async fn note(ctx: ActivityContext, line: String) -> Result<()> {
    ctx.state::<Diary>().write(line);
    Ok(())
}

#[tokio::test]
async fn a_handler_stays_a_plain_function_and_runs_by_function() {
    check(
        |b| b.activity("Greet", greet).orchestration("Hello", hello),
        |app| async move {
            assert_eq!(app.run(hello, "h-1", "world".to_string()).await.expect("greeted"), "Hello, world!");
            let history = app.handle(hello, "h-1").history().await.expect("it is read");
            let scheduled = history.iter().any(
                |event| matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name == "Greet"),
            );
            assert!(scheduled, "{history:?}");
        },
    )
    .await;
}

async fn countdown(ctx: OrchestrationContext, from: u32) -> Result<u32> {
    if from == 0 {
        return Ok(0);
    }
    Ok(1 + ctx.child(countdown, from - 1).await?)
}

#[tokio::test]
async fn an_orchestration_can_be_its_own_child() {
    check(
        |b| b.orchestration("Countdown", countdown),
        |app| async move { assert_eq!(app.run(countdown, "c-1", 5).await.expect("counted"), 5) },
    )
    .await;
}

async fn noting(ctx: OrchestrationContext, line: String) -> Result<()> {
    Ok(ctx.call(note, line).await?)
}

#[tokio::test]
async fn activities_reach_the_state_of_the_program() {
    let diary = Diary::default();
    let theirs = diary.clone();
    check(
        move |b| b.activity("Note", note).orchestration("Noting", noting).state(theirs.clone()),
        |app| async move { app.run(noting, "n-1", "a".to_string()).await.expect("noted") },
    )
    .await;
    assert!(diary.lines().len() >= 2 && diary.lines().iter().all(|line| line == "a"), "{:?}", diary.lines());
}

#[tokio::test]
async fn a_missing_state_fails_the_activity_with_the_name_of_its_type() {
    check(
        |b| b.activity("Note", note).orchestration("Noting", noting),
        |app| async move {
            let failed = app.run(noting, "n-1", "a".to_string()).await.expect_err("no state");
            assert!(failed.to_string().contains("no state of type typed::Diary"), "{failed}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_declared_activity_runs_on_the_node_that_has_it() {
    let store = Arc::new(MemoryProvider::new());
    let caller = Builder::on_store(store.clone())
        .discover(false)
        .declare_activity("Greet", greet)
        .orchestration("Hello", hello)
        .start()
        .await
        .expect("the caller starts");
    let run = caller.start(hello, "h-1", "world".to_string()).await.expect("started");
    let early = run.result_within(Duration::from_millis(100)).await;
    assert!(matches!(early, Err(RunError::NotEnded { .. })), "no node has it yet: {early:?}");
    let worker = Builder::on_store(store).discover(false).activity("Greet", greet);
    let worker = worker.start().await.expect("the worker starts");
    assert_eq!(run.result_within(LONG).await.expect("greeted"), "Hello, world!");
    caller.shutdown().await.expect("it stops");
    worker.shutdown().await.expect("it stops");
}

async fn parent(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.child(hello, name).await?)
}

#[tokio::test]
async fn a_declared_orchestration_runs_on_the_node_that_has_it() {
    let store = Arc::new(MemoryProvider::new());
    let caller = Builder::on_store(store.clone())
        .discover(false)
        .declare_orchestration("Hello", hello)
        .orchestration("Parent", parent)
        .start()
        .await
        .expect("the caller starts");
    let run = caller.start(parent, "p-1", "world".to_string()).await.expect("started");
    let other =
        Builder::on_store(store).discover(false).activity("Greet", greet).orchestration("Hello", hello);
    let other = other.start().await.expect("the other starts");
    assert_eq!(run.result_within(LONG).await.expect("greeted"), "Hello, world!");
    caller.shutdown().await.expect("it stops");
    other.shutdown().await.expect("it stops");
}

async fn calls_a_stranger(ctx: OrchestrationContext, name: String) -> Result<String> {
    Ok(ctx.call(greet, name).await?)
}

#[tokio::test]
async fn a_function_without_a_name_ends_as_poison_with_its_path_and_the_remedy() {
    let options = || RuntimeOptions {
        max_attempts: 2,
        unregistered_backoff: duroxide::runtime::UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(5),
        },
        ..RuntimeOptions::default()
    };
    check(
        move |b| b.orchestration("Caller", calls_a_stranger).options(options()),
        |app| async move {
            let failed = app.run(calls_a_stranger, "c-1", "a".to_string()).await.expect_err("no name");
            assert!(matches!(&failed, RunError::Call(CallError::Poisoned { .. })), "{failed:?}");
            let message = failed.to_string();
            assert!(message.contains("typed::calls::greet has no name on this node"), "{message}");
            assert!(message.contains("#[duroxide::activity]"), "{message}");
            assert!(message.contains(".declare_activity(\"Name\", function)"), "{message}");
        },
    )
    .await;
}

async fn with_an_id(ctx: OrchestrationContext, id: String) -> Result<String> {
    Ok(ctx.child(hello, "child".to_string()).with_id(id).await?)
}

#[tokio::test]
async fn a_child_with_an_id_has_it_and_a_taken_id_is_an_error() {
    check(
        |b| b.activity("Greet", greet).orchestration("Hello", hello).orchestration("Parent", with_an_id),
        |app| async move {
            let greeted = app.run(with_an_id, "p-1", "child-1".to_string()).await.expect("greeted");
            assert_eq!(greeted, "Hello, child!");
            let child = app.client().get_instance_info("child-1").await.expect("it exists");
            assert_eq!(child.orchestration_name, "Hello");
            let failed = app.run(with_an_id, "p-2", "child-1".to_string()).await.expect_err("taken");
            assert!(failed.to_string().contains("child-1"), "{failed}");
        },
    )
    .await;
}

async fn twice(ctx: OrchestrationContext, left: u32) -> Result<String> {
    if left == 0 {
        return Ok(format!("execution {}", ctx.execution_id()));
    }
    ctx.continue_as(twice, left - 1).await
}

async fn detaching(ctx: OrchestrationContext, id: String) -> Result<()> {
    ctx.start(hello, id, "detached".to_string());
    Ok(())
}

#[tokio::test]
async fn continue_as_starts_the_next_execution_with_the_function() {
    check(
        |b| b.orchestration("Twice", twice),
        |app| async move { assert_eq!(app.run(twice, "t-1", 2).await.expect("ended"), "execution 3") },
    )
    .await;
}

#[tokio::test]
async fn a_detached_start_needs_no_waiter() {
    check(
        |b| b.activity("Greet", greet).orchestration("Hello", hello).orchestration("Detaching", detaching),
        |app| async move {
            app.run(detaching, "d-1", "detached-1".to_string()).await.expect("started");
            let detached = app.handle(hello, "detached-1").result_within(LONG).await;
            assert_eq!(detached.expect("greeted"), "Hello, detached!");
        },
    )
    .await;
}
