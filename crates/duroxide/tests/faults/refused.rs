//! A store that does not accept what one instance writes: that instance fails with the cause, and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::testing::{Fault, Method};
use duroxide::{ActivityContext, ErrorDetails, OrchestrationContext};

use crate::common::{World, activities, options, orchestrations};

/// Rows above this are not accepted.
const MAX_ROW_BYTES: usize = 10_000;

/// Gives so many bytes.
fn giving(runs: &Arc<AtomicU32>) -> ActivityRegistryBuilder {
    let runs = runs.clone();
    activities().register("Give", move |_ctx: ActivityContext, bytes: String| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok("x".repeat(bytes.parse().map_err(|_| "not a number")?)) }
    })
}

/// A parent of a child that passes a large input on, and one that is given a large result.
fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Parent", |ctx: OrchestrationContext, child: String| async move {
            let told = ctx.schedule_sub_orchestration_with_id("Passes", child, "").await;
            Ok(told.expect_err("the child fails"))
        })
        .register("Passes", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Give", "1").await?;
            ctx.schedule_activity("Give", "1".repeat(100_000)).await
        })
        .register("Gets", |ctx: OrchestrationContext, bytes: String| async move {
            Ok(ctx
                .schedule_activity("Give", bytes)
                .await
                .map_or_else(|error| error, |text| text.len().to_string()))
        })
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_the_store_never_accepts_fails_its_instance_and_tells_the_parent() {
    let world = World::new();
    world.store.refuse_rows_above("child", MAX_ROW_BYTES);
    let runtime = world.start(giving(&Arc::default()), programs(), options()).await;
    world.client.start_orchestration("parent", "Parent", "child").await.expect("start");
    world.client.start_orchestration("neighbour", "Gets", "100000").await.expect("start");
    assert_eq!(world.output("neighbour").await, "100000");
    let details = world.failure("child").await;
    let ErrorDetails::Infrastructure { operation, message, retryable: false } = &details else {
        panic!("not the store's failure: {details:?}")
    };
    assert_eq!(operation, "committing a turn");
    assert!(message.starts_with("the store does not accept what the turn writes: a row of 100"), "{message}");
    assert!(message.ends_with(" bytes is too large (10 attempts)"), "{message}");
    assert_eq!(world.output("parent").await, details.display_message());
    let history = world.client.read_execution_history("child", 1).await.expect("read");
    assert_eq!(history.iter().filter(|event| event.is_terminal()).count(), 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_never_accepts_fails_the_activity_after_one_run() {
    let world = World::new();
    world.store.refuse_rows_above("i", MAX_ROW_BYTES);
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(giving(&runs), programs(), options()).await;
    world.client.start_orchestration("i", "Gets", "100000").await.expect("start");
    let output = world.output("i").await;
    let expected =
        "infrastructure:acknowledging an activity: the store does not accept the result: a row of 100";
    assert!(output.starts_with(expected), "{output}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    runtime.shutdown(None).await;
}

/// Outages in between do not count as refusals, nor do refusals of the store as a whole.
#[tokio::test(start_paused = true)]
async fn an_outage_or_a_broken_store_is_not_taken_for_a_refusal() {
    let world = World::new();
    for ack in [Method::AckTurn, Method::AckWork] {
        world.store.plan(ack, [Fault::FailBefore, Fault::Refuse, Fault::Corrupt].repeat(20));
    }
    let runtime = world.start(giving(&Arc::default()), programs(), options()).await;
    world.client.start_orchestration("i", "Gets", "5").await.expect("start");
    assert_eq!(world.output("i").await, "5");
    runtime.shutdown(None).await;
}
