//! The tests that the failure analysis asks for, by the names it gives them, on the store that fails as told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::testing::{FaultRates, Method, SeededFaults};
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationStatus};
use proptest::prelude::*;

use crate::common::{Fault, World, activities, options, orchestrations};

/// Counts its runs and returns its input.
fn echo(runs: &Arc<AtomicU32>) -> ActivityRegistryBuilder {
    let runs = runs.clone();
    activities().register("Echo", move |_ctx: ActivityContext, input: String| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok(input) }
    })
}

/// Three activities in a row.
fn three() -> OrchestrationRegistryBuilder {
    orchestrations().register("Three", |ctx: OrchestrationContext, _input: String| async move {
        let mut all = String::new();
        for n in 0..3 {
            all += &ctx.schedule_activity("Echo", n.to_string()).await?;
        }
        Ok(all)
    })
}

#[tokio::test(start_paused = true)]
async fn test_history_append_failure_recovery() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    // Before and after the append, at every turn of the workflow.
    let faults = [Fault::FailBefore, Fault::FailBefore, Fault::LoseAnswer].repeat(6);
    world.store.plan(Method::AckTurn, faults);
    let runtime = world.start(echo(&runs), three(), options()).await;
    world.client.start_orchestration("i", "Three", "").await.expect("start");
    assert_eq!(world.output("i").await, "012");
    assert_eq!(runs.load(Ordering::SeqCst), 3, "no activity was queued by a turn that was not committed");
    let history = world.client.read_execution_history("i", 1).await.expect("read");
    let ids: Vec<u64> = history.iter().map(duroxide::Event::event_id).collect();
    let dense: Vec<u64> = (1..=u64::try_from(history.len()).expect("small")).collect();
    assert_eq!(ids, dense);
    let ends = history.iter().filter(|event| event.is_terminal()).count();
    assert_eq!(ends, 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn test_dispatch_failure_detection() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    world.client.start_orchestration("i", "Three", "").await.expect("start");
    // The store refuses what the first turn asks for, more often than a turn insists.
    world.store.plan(Method::AckTurn, [Fault::Refuse; 4]);
    let runtime = world.start(echo(&runs), three(), options()).await;
    while world.store.given_back(Method::AbandonTurn).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let history = world.client.read_execution_history("i", 1).await.expect("read");
    assert!(history.is_empty(), "no history says that something was scheduled which is not queued");
    let depths = world.client.get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (1, 0), "the start waits, nothing else");
    let given_back = world.store.given_back(Method::AbandonTurn)[0];
    assert!(
        given_back.ignore_attempt && given_back.delay.is_some(),
        "given back uncounted, to be tried later"
    );
    let errors = runtime.metrics_snapshot().expect("counted").provider_errors;
    assert!(errors >= 3, "the failures are counted, got {errors}");
    assert_eq!(world.output("i").await, "012");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    // A message that cannot be enqueued is the caller's to know of.
    world.store.plan(Method::Enqueue, [Fault::FailBefore]);
    let refused = world.client.raise_event("i", "e", "").await.expect_err("the store failed");
    assert!(refused.is_retryable());
    runtime.shutdown(None).await;
}

/// Fans out, waits for a child, a timer and an event.
fn busy() -> OrchestrationRegistryBuilder {
    let child = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_timer(Duration::from_millis(700)).await;
        ctx.schedule_activity("Echo", input).await
    };
    orchestrations().register("Child", child).register(
        "Busy",
        |ctx: OrchestrationContext, input: String| async move {
            let calls = (0..5).map(|n| ctx.schedule_activity("Echo", n.to_string())).collect();
            let results = ctx.join(calls).await;
            let child = ctx.schedule_sub_orchestration("Child", input).await?;
            let said = ctx.schedule_wait("go").await;
            Ok(format!("{} {child} {said}", results.into_iter().collect::<Result<String, String>>()?))
        },
    )
}

/// Runs ten instances while the store fails, then lets it recover; every one must have given its result.
async fn never_loses_work(seed: u64, rates: FaultRates) {
    let faults = Arc::new(SeededFaults::new(seed, rates));
    let world = World::with(|store| store.with_source(faults.clone()));
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(echo(&runs), busy(), options()).await;
    let insist = |what: &'static str, instance: String| {
        let client = world.client.clone();
        async move {
            loop {
                let sent = match what {
                    "start" => client.start_orchestration(&instance, "Busy", &instance).await,
                    _ => client.raise_event(&instance, "go", "gone").await,
                };
                if sent.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    for n in 0..10 {
        insist("start", format!("i{n}")).await;
        insist("go", format!("i{n}")).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    faults.stop();
    for n in 0..10 {
        let id = format!("i{n}");
        let status = world.ended(&id).await;
        let expected = format!("01234 {id} gone");
        let completed =
            matches!(&status, OrchestrationStatus::Completed { output, .. } if *output == expected);
        assert!(completed, "seed {seed}: {id} ended as {status:?}");
        let history = world.client.read_execution_history(&id, 1).await.expect("read");
        let scheduled =
            history.iter().filter(|event| matches!(event.kind, EventKind::ActivityScheduled { .. }));
        let completed =
            history.iter().filter(|event| matches!(event.kind, EventKind::ActivityCompleted { .. }));
        assert_eq!(scheduled.count(), completed.count(), "seed {seed}: {id}");
    }
    runtime.shutdown(None).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn orchestration_never_loses_work(
        seed in any::<u64>(),
        fail_before in 0u64..2_000,
        lose_answer in 0u64..2_000,
        duplicate in 0u64..1_000,
        run_dry in 0u64..1_000,
        delay in 0u64..1_000,
    ) {
        let rates = FaultRates { fail_before, lose_answer, duplicate, run_dry, delay, ..FaultRates::stormy() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime without I/O").block_on(never_loses_work(seed, rates));
    }
}
