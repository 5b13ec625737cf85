//! What fails again and again is poisoned after exactly `max_attempts`, however its attempts end, and alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationRegistryBuilder, PoisonMessageType,
    RuntimeOptions,
};

use crate::common::{Fault, World, activities, options, orchestrations};

const TURN: &str = "ack_orchestration_item";
const ACTIVITY: &str = "ack_work_item";

/// How the attempts end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The process is gone before it could commit, again and again.
    Crash,
    /// The process neither commits nor renews, and is still there when the next one has the work.
    Hang,
}

/// `Deadly` is both an orchestration and the activity that it calls; each counts how often it was run.
struct Runs {
    turns: Arc<AtomicU32>,
    activities: Arc<AtomicU32>,
}

impl Runs {
    fn new() -> Self {
        Self { turns: Arc::default(), activities: Arc::default() }
    }

    fn activities(&self) -> ActivityRegistryBuilder {
        let runs = self.activities.clone();
        activities().register("Deadly", move |_ctx: ActivityContext, input: String| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move { Ok(input) }
        })
    }

    fn orchestrations(&self) -> OrchestrationRegistryBuilder {
        let runs = self.turns.clone();
        orchestrations()
            .register("Deadly", move |_ctx: OrchestrationContext, input: String| {
                runs.fetch_add(1, Ordering::SeqCst);
                async move { Ok(input) }
            })
            .register("Calls", |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("Deadly", input).await
            })
    }
}

/// Runs `Deadly` on nodes that end as told when they would commit it; the error once a node has poisoned it.
async fn poisoned_after(max_attempts: u32, commit: &'static str, ends: Ends) -> (ErrorDetails, Runs) {
    let world = World::new();
    let runs = Runs::new();
    let name = if commit == TURN { "Deadly" } else { "Calls" };
    world.client.start_orchestration("bad", name, "").await.expect("start");
    let mut hung = Vec::new();
    for n in 0..=max_attempts {
        let process = ProcessScope::simulated(n.into());
        let options = RuntimeOptions { max_attempts, process, ..options() };
        let (node, store) = world.start_apart(runs.activities(), runs.orchestrations(), options).await;
        if n < max_attempts {
            store.plan(commit, [Fault::Freeze]);
            store.has_frozen().await;
            match ends {
                Ends::Crash => node.kill(),
                Ends::Hang => {}
            }
        }
        hung.push(node);
    }
    let details = world.failure("bad").await;
    for node in hung {
        node.kill();
    }
    (details, runs)
}

fn check(details: ErrorDetails, max: u32, is_expected: impl FnOnce(&PoisonMessageType) -> bool) {
    let ErrorDetails::Poison { attempt_count, max_attempts, message_type, .. } = details else {
        panic!("{details:?}")
    };
    assert_eq!((attempt_count, max_attempts), (max + 1, max), "the attempt after the last one poisons");
    assert!(is_expected(&message_type), "{message_type:?}");
}

async fn check_turns(ends: Ends) {
    for max in [1, 3, 10] {
        let (details, runs) = poisoned_after(max, TURN, ends).await;
        check(details, max, |kind| matches!(kind, PoisonMessageType::Orchestration { .. }));
        assert_eq!(runs.turns.load(Ordering::SeqCst), max, "run {max} times and not once more");
    }
}

async fn check_activities(ends: Ends) {
    for max in [1, 3, 10] {
        let (details, runs) = poisoned_after(max, ACTIVITY, ends).await;
        check(details, max, |kind| matches!(kind, PoisonMessageType::Activity { .. }));
        assert_eq!(runs.activities.load(Ordering::SeqCst), max, "run {max} times and not once more");
    }
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_crashes_its_process_is_poisoned_after_exactly_max_attempts() {
    check_turns(Ends::Crash).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_crashes_its_process_is_poisoned_after_exactly_max_attempts() {
    check_activities(Ends::Crash).await;
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_hangs_its_process_is_poisoned_after_exactly_max_attempts() {
    check_turns(Ends::Hang).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_hangs_its_process_is_poisoned_after_exactly_max_attempts() {
    check_activities(Ends::Hang).await;
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_crashes_the_dispatcher_is_poisoned_after_exactly_max_attempts() {
    for max in [1, 3, 10] {
        let world = World::new();
        let runs = Runs::new();
        let crashes = usize::try_from(max).expect("small");
        world.store.plan(TURN, vec![Fault::Panic; crashes]);
        let limited = RuntimeOptions { max_attempts: max, ..options() };
        let runtime = world.start(runs.activities(), runs.orchestrations(), limited).await;
        world.client.start_orchestration("bad", "Deadly", "").await.expect("start");
        let details = world.failure("bad").await;
        check(details, max, |kind| matches!(kind, PoisonMessageType::Orchestration { .. }));
        assert_eq!(runs.turns.load(Ordering::SeqCst), max, "run {max} times and not once more");
        assert_eq!(
            world.store.given_back("abandon_orchestration_item").len(),
            crashes,
            "given back each time"
        );
        runtime.shutdown(None).await;
    }
}

/// How long 1,000 healthy orchestrations take beside some that are poisoned meanwhile.
async fn healthy_beside(bad: u32) -> Duration {
    const HEALTHY: u32 = 1_000;
    let world = World::new();
    let acts = activities().register("Healthy", |_ctx: ActivityContext, input: String| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(input)
    });
    let call = |name: &'static str| {
        move |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity(name, input).await }
    };
    let orchs = orchestrations().register("Healthy", call("Healthy")).register("Calls", call("Missing"));
    for n in 0..bad {
        let name = if n % 2 == 0 { "Missing" } else { "Calls" };
        world.client.start_orchestration(format!("bad{n}"), name, "").await.expect("start");
    }
    for n in 0..HEALTHY {
        world.client.start_orchestration(format!("healthy{n}"), "Healthy", "well").await.expect("start");
    }
    let begun = tokio::time::Instant::now();
    let limited = RuntimeOptions { max_attempts: 2, worker_concurrency: 16, ..options() };
    let runtime = world.start(acts, orchs, limited).await;
    for n in 0..HEALTHY {
        assert_eq!(world.output(&format!("healthy{n}")).await, "well");
    }
    let took = begun.elapsed();
    for n in 0..bad {
        assert_eq!(world.failure(&format!("bad{n}")).await.category(), "poison");
    }
    let counted = runtime.metrics_snapshot().expect("always there");
    assert_eq!((counted.orch_completions, counted.orch_failures), (HEALTHY.into(), bad.into()));
    runtime.shutdown(None).await;
    took
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_neighbour_does_not_delay_a_mixed_workload() {
    let (alone, beside) = (healthy_beside(0).await, healthy_beside(50).await);
    assert!(alone > Duration::from_secs(5), "the healthy ones wait for each other: {alone:?}");
    let throughput = alone.as_secs_f64() / beside.as_secs_f64();
    assert!(throughput >= 0.9, "{beside:?} instead of {alone:?}");
}
