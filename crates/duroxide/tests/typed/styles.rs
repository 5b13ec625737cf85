//! Calls by function and calls by name: they work together, and one replays what the other recorded.

use std::sync::Arc;

use duroxide::prelude::*;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Builder, OrchestrationRegistry};

use super::{LONG, check, stores};

const GO: EventName<u32> = EventName::new("go");

async fn add(_ctx: ActivityContext, (one, other): (u32, u32)) -> Result<u32, String> {
    Ok(one + other)
}

async fn triple(_ctx: OrchestrationContext, number: u32) -> Result<u32, String> {
    Ok(3 * number)
}

fn quick() -> RetryPolicy {
    RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(1) })
}

async fn by_function(ctx: OrchestrationContext, number: u32) -> Result<u32, String> {
    let text = |error: CallError<String>| error.to_string();
    let sum = ctx.call(add, (number, 1)).await.map_err(text)?;
    let retried = ctx.call(add, (sum, 1)).retry(quick()).await.map_err(text)?;
    ctx.sleep(Duration::from_millis(1)).await;
    let tripled = ctx.child(triple, retried).await.map_err(text)?;
    let more = ctx.wait(GO).await;
    ctx.call(add, (tripled, more)).await.map_err(text)
}

async fn by_name(ctx: OrchestrationContext, number: u32) -> Result<u32, String> {
    let sum: u32 = ctx.schedule_activity_typed("Add", &(number, 1)).await?;
    let retried: u32 = ctx.schedule_activity_with_retry_typed("Add", &(sum, 1), quick()).await?;
    ctx.schedule_timer(Duration::from_millis(1)).await;
    let tripled: u32 = ctx
        .schedule_sub_orchestration_versioned("Triple", Some("1.0.0".to_string()), retried.to_string())
        .await?
        .parse()
        .map_err(|_| "no number".to_string())?;
    let more: u32 = ctx.schedule_wait_typed("go").await;
    ctx.schedule_activity_typed("Add", &(tripled, more)).await
}

/// Both handlers as functions.
fn functions(builder: Builder) -> Builder {
    builder.activity("Add", add).orchestration("Triple", triple).orchestration("Sum", by_function)
}

/// The same handlers by name.
fn names(builder: Builder) -> Builder {
    let activities = ActivityRegistry::builder().register_typed("Add", add).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("Triple", triple)
        .register_typed("Sum", by_name)
        .build();
    builder.registries(activities, &orchestrations)
}

async fn check_replay(first: fn(Builder) -> Builder, second: fn(Builder) -> Builder) {
    for store in stores().await {
        let before = start(&store, first).await;
        before.client().start_orchestration("s-1", "Sum", "1").await.expect("started");
        let waits = || async {
            let history = before.client().read_execution_history("s-1", 1).await.expect("it is read");
            history.iter().any(|event| matches!(event.kind, duroxide::EventKind::ExternalSubscribed { .. }))
        };
        while !waits().await {
            tokio::task::yield_now().await;
        }
        before.shutdown().await.expect("it stops");

        let after = start(&store, second).await;
        assert_eq!(after.raise("s-1", GO, &100).await.expect("raised"), SendOutcome::Delivered);
        let result: Result<u32, String> =
            after.client().wait_for_orchestration_typed("s-1", LONG).await.expect("it ends");
        assert_eq!(result, Ok(109));
        after.shutdown().await.expect("it stops");
    }
}

async fn start(store: &Arc<dyn Provider>, register: fn(Builder) -> Builder) -> Duroxide {
    register(Builder::on_store(store.clone()).discover(false)).start().await.expect("it starts")
}

#[tokio::test]
async fn what_a_program_with_functions_recorded_replays_by_name() {
    check_replay(functions, names).await;
}

#[tokio::test]
async fn what_a_program_with_names_recorded_replays_by_function() {
    check_replay(names, functions).await;
}

async fn mixed_by_function(ctx: OrchestrationContext, number: u32) -> Result<u32, String> {
    ctx.call(add, (number, 1)).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn handlers_of_both_styles_call_each_other() {
    async fn calls_a_function(ctx: OrchestrationContext, number: u32) -> Result<u32, String> {
        ctx.child(mixed_by_function, number).await.map_err(|error| error.to_string())
    }
    check(
        |b| {
            let activities = ActivityRegistry::builder().register_typed("Add", add).build();
            let orchestrations =
                OrchestrationRegistry::builder().register_typed("Outer", calls_a_function).build();
            b.declare_activity("Add", add)
                .orchestration("Inner", mixed_by_function)
                .registries(activities, &orchestrations)
        },
        |app| async move {
            app.client().start_orchestration("m-1", "Outer", "1").await.expect("started");
            let result: Result<u32, String> =
                app.client().wait_for_orchestration_typed("m-1", LONG).await.expect("it ends");
            assert_eq!(result, Ok(2));
        },
    )
    .await;
}
