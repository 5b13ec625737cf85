//! Deadlines of activities: how long one may wait for a worker, and how long an attempt may run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, OrchestrationContext, OrchestrationRegistryBuilder, RuntimeOptions, TagFilter,
};

use crate::common::{Fault, Faulty, World, activities, options, orchestrations};

fn node(seed: u64) -> RuntimeOptions {
    RuntimeOptions { process: ProcessScope::simulated(seed), ..options() }
}

/// Runs for as many seconds as its input says, or until it is cancelled; counts its attempts.
fn slow(attempts: &Arc<AtomicU32>) -> ActivityRegistryBuilder {
    let attempts = attempts.clone();
    activities().register("Slow", move |ctx: ActivityContext, input: String| {
        let attempts = attempts.clone();
        async move {
            attempts.fetch_add(1, Ordering::SeqCst);
            let seconds = input.parse().map_err(|_| "not a number".to_string())?;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok("done".to_string()),
                () = ctx.cancelled() => Err("told to stop".to_string()),
            }
        }
    })
}

fn bounded() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Start within 10", |ctx: OrchestrationContext, tag: String| async move {
            let call = ctx.schedule_activity("Slow", "100").with_tag(tag);
            call.with_schedule_to_start(Duration::from_secs(10)).await
        })
        .register("Close within 10", |ctx: OrchestrationContext, seconds: String| async move {
            ctx.schedule_activity("Slow", seconds).with_start_to_close(Duration::from_secs(10)).await
        })
}

async fn begin(world: &World, name: &str, input: &str) {
    world.client.start_orchestration("i", name, input).await.expect("start");
}

#[tokio::test(start_paused = true)]
async fn work_that_no_worker_begins_in_time_fails_and_never_runs() {
    // A plain store does not tell its time, so that its timers follow the real clock.
    let world = World::new();
    let attempts = Arc::default();
    let runtime = world.start(slow(&attempts), bounded(), node(1)).await;
    let began = tokio::time::Instant::now();
    begin(&world, "Start within 10", "gpu").await;
    let failure = world.failure("i").await.display_message();
    assert_eq!(failure, "timeout: activity 'Slow' was not started within 10000 ms");
    let took = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&took), "{took:?}");
    let gpu = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(2) };
    let late = world.start(slow(&attempts), bounded(), gpu).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(attempts.load(Ordering::SeqCst), 0);
    late.shutdown(None).await;
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_began_in_time_may_run_longer_than_its_start_deadline() {
    for world in [World::new(), World::with(Faulty::plain)] {
        let attempts = Arc::default();
        let gpu = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(1) };
        let runtime = world.start(slow(&attempts), bounded(), gpu).await;
        begin(&world, "Start within 10", "gpu").await;
        assert_eq!(world.output("i").await, "done");
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_began_in_time_may_be_taken_over_after_its_start_deadline() {
    let world = World::new();
    let attempts = Arc::default();
    let gpu = |seed| RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(seed) };
    let first = world.start(slow(&attempts), bounded(), gpu(1)).await;
    begin(&world, "Start within 10", "gpu").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.kill();
    let second = world.start(slow(&attempts), bounded(), gpu(2)).await;
    assert_eq!(world.output("i").await, "done");
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_while_a_worker_says_that_it_begins_delays_the_activity_and_loses_nothing() {
    let world = World::new();
    let attempts = Arc::default();
    let gpu = RuntimeOptions { worker_tag_filter: TagFilter::any(), ..node(1) };
    begin(&world, "Start within 10", "gpu").await;
    world.store.plan("enqueue_for_orchestrator", [Fault::FailBefore, Fault::LoseAnswer, Fault::FailBefore]);
    let runtime = world.start(slow(&attempts), bounded(), gpu).await;
    assert_eq!(world.output("i").await, "done");
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_too_long_is_told_to_stop_and_fails() {
    for world in [World::new(), World::with(Faulty::plain)] {
        let attempts = Arc::default();
        let runtime = world.start(slow(&attempts), bounded(), node(1)).await;
        let began = tokio::time::Instant::now();
        begin(&world, "Close within 10", "100").await;
        let failure = world.failure("i").await.display_message();
        assert_eq!(failure, "timeout: activity 'Slow' ran longer than 10000 ms");
        let took = began.elapsed();
        assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&took), "{took:?}");
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_ends_in_time_is_not_touched() {
    let world = World::new();
    let runtime = world.start(slow(&Arc::default()), bounded(), node(1)).await;
    begin(&world, "Close within 10", "9").await;
    assert_eq!(world.output("i").await, "done");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_listen_is_ended_after_its_grace_time() {
    let world = World::new();
    let deaf = activities().register("Slow", |_ctx: ActivityContext, _input: String| async move {
        std::future::pending().await
    });
    let grace = Duration::from_secs(3);
    let options = RuntimeOptions { activity_cancellation_grace_period: grace, ..node(1) };
    let runtime = world.start(deaf, bounded(), options).await;
    let began = tokio::time::Instant::now();
    begin(&world, "Close within 10", "").await;
    let failure = world.failure("i").await.display_message();
    assert_eq!(failure, "timeout: activity 'Slow' ran longer than 10000 ms");
    let took = began.elapsed();
    assert!((Duration::from_secs(13)..Duration::from_secs(15)).contains(&took), "{took:?}");
    runtime.shutdown(None).await;
}
