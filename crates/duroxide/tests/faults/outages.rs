//! The store is away, slow, or loses answers; nothing fails or runs twice because of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};

use crate::common::{Fault, World, activities, options, orchestrations};

/// An activity that counts its runs and takes `time`.
fn counting(runs: &Arc<AtomicU32>, time: Duration) -> ActivityRegistryBuilder {
    let runs = runs.clone();
    activities().register("Work", move |_ctx: ActivityContext, input: String| {
        let runs = runs.clone();
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(time).await;
            Ok(input)
        }
    })
}

fn chain(steps: u32) -> duroxide::OrchestrationRegistryBuilder {
    orchestrations().register("Chain", move |ctx: OrchestrationContext, input: String| async move {
        let mut value = input;
        for _ in 0..steps {
            value = ctx.schedule_activity("Work", value).await?;
        }
        Ok(value)
    })
}

#[tokio::test(start_paused = true)]
async fn a_transient_error_while_renewing_a_lock_is_not_a_cancellation() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_secs(100)), chain(1), options()).await;
    world.store.plan("renew_work_item_lock", [Fault::FailBefore, Fault::LoseAnswer, Fault::FailBefore]);
    world.store.plan("lost_work_items", [Fault::FailBefore; 3]);
    world.client.start_orchestration("slow", "Chain", "x").await.expect("start");
    assert_eq!(world.output("slow").await, "x");
    assert_eq!(runs.load(Ordering::SeqCst), 1, "the activity ran once");
    assert!(
        world.store.calls("renew_work_item_lock") >= 6,
        "three failed and the lock was renewed all the same"
    );
    runtime.shutdown(None).await;
}

async fn outage_of(outage: Duration) {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_millis(20)), chain(10), options()).await;
    for n in 0..20 {
        world.client.start_orchestration(format!("i{n}"), "Chain", "x").await.expect("start");
    }
    tokio::time::sleep(Duration::from_millis(70)).await;
    let fetches_before = world.store.calls("fetch_turns") + world.store.calls("fetch_work");
    world.store.set_away(true);
    tokio::time::sleep(outage).await;
    let fetches = world.store.calls("fetch_turns") + world.store.calls("fetch_work") - fetches_before;
    world.store.set_away(false);
    for n in 0..20 {
        assert_eq!(world.output(&format!("i{n}")).await, "x");
    }
    let allowed = 100 + outage.as_secs() * 4;
    assert!(fetches <= allowed, "{fetches} fetches in an outage of {outage:?}: a dispatcher spins");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_half_a_second_fails_no_workflow() {
    outage_of(Duration::from_millis(500)).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_five_minutes_fails_no_workflow_and_no_dispatcher_spins() {
    outage_of(Duration::from_secs(300)).await;
}

#[tokio::test(start_paused = true)]
async fn acks_that_fail_while_fetches_work_poison_nothing() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let options = RuntimeOptions { max_attempts: 3, ..options() };
    let runtime = world.start(counting(&runs, Duration::from_millis(1)), chain(3), options).await;
    world.store.set_away_for_acks(true);
    world.client.start_orchestration("stubborn", "Chain", "x").await.expect("start");
    // Far longer than all attempts together; the lock cannot be renewed either.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.store.calls("ack_orchestration_item") > 50, "many rounds were tried");
    world.store.set_away_for_acks(false);
    assert_eq!(world.output("stubborn").await, "x");
    runtime.shutdown(None).await;
}

/// Every round fetches, runs and is told that its commit will never be taken; it cannot give the work back either.
#[tokio::test(start_paused = true)]
async fn fifty_rounds_of_fetches_without_a_commit_poison_nothing() {
    const ROUNDS: usize = 50;
    let ack = ["ack_orchestration_item", "ack_work_item"];
    let give_back = ["abandon_orchestration_item", "abandon_work_item"];
    for (ack, give_back) in ack.into_iter().zip(give_back) {
        let world = World::new();
        let runs = Arc::new(AtomicU32::new(0));
        let options = RuntimeOptions { max_attempts: 3, ..options() };
        let runtime = world.start(counting(&runs, Duration::from_millis(1)), chain(3), options).await;
        // An ack is tried three times in each round.
        world.store.plan(ack, [Fault::Refuse; 3 * ROUNDS]);
        world.store.plan(give_back, [Fault::Refuse; ROUNDS]);
        world.client.start_orchestration("stubborn", "Chain", "x").await.expect("start");
        assert_eq!(world.output("stubborn").await, "x");
        assert_eq!(world.store.given_back(give_back).len(), ROUNDS, "every round was one fetch");
        let counted = runtime.metrics_snapshot().expect("always there");
        let fetched = counted.orch_dispatcher_items_fetched + counted.worker_dispatcher_items_fetched;
        // Four turns and three activities, and one of them fifty times in vain.
        assert_eq!(fetched, 7 + 50);
        assert_eq!((counted.orch_poison, counted.activity_poison), (0, 0));
        runtime.shutdown(None).await;
    }
}

/// Each node takes what the others could not commit: together they fetch it more often than is allowed.
#[tokio::test(start_paused = true)]
async fn a_cluster_whose_acks_fail_while_its_fetches_work_poisons_nothing() {
    for first_away in [0, 1] {
        let world = World::new();
        let runs = Arc::new(AtomicU32::new(0));
        let mut nodes = Vec::new();
        for n in 0..8 {
            let options =
                RuntimeOptions { max_attempts: 3, process: ProcessScope::simulated(n), ..options() };
            let acts = counting(&runs, Duration::from_millis(1));
            nodes.push(world.start(acts, chain(3), options).await);
        }
        world.client.start_orchestration("stubborn", "Chain", "x").await.expect("start");
        // With 0 the first turn is never committed, with 1 the first activity.
        while world.store.calls("ack_orchestration_item") < first_away {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        world.store.set_away_for_acks(true);
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.store.set_away_for_acks(false);
        assert_eq!(world.output("stubborn").await, "x");
        for node in nodes {
            node.shutdown(None).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outages_that_cost_an_activity_its_lock_again_and_again_do_not_poison_it() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let options = RuntimeOptions { max_attempts: 2, ..options() };
    let runtime = world.start(counting(&runs, Duration::from_secs(100)), chain(1), options).await;
    world.client.start_orchestration("unlucky", "Chain", "x").await.expect("start");
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(40)).await;
        world.store.set_away(true);
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.store.set_away(false);
    }
    assert_eq!(world.output("unlucky").await, "x");
    assert!(runs.load(Ordering::SeqCst) > 3, "it lost its lock more often than max_attempts");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_whose_first_ack_fails_is_kept_and_the_activity_does_not_run_again() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_millis(1)), chain(1), options()).await;
    world.store.plan("ack_work_item", [Fault::FailBefore; 5]);
    world.client.start_orchestration("once", "Chain", "x").await.expect("start");
    assert_eq!(world.output("once").await, "x");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(world.store.calls("ack_work_item"), 6);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_first_ack_fails_is_committed_without_running_again() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_millis(1)), chain(1), options()).await;
    world.store.plan("ack_orchestration_item", [Fault::FailBefore; 5]);
    world.client.start_orchestration("kept", "Chain", "x").await.expect("start");
    assert_eq!(world.output("kept").await, "x");
    let fetched = runtime.metrics_snapshot().expect("always there").orch_dispatcher_items_fetched;
    assert_eq!(fetched, 2, "one fetch for each of the two turns");
    assert_eq!(world.store.calls("abandon_orchestration_item"), 0);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_neither_repeated_nor_a_failure() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_millis(1)), chain(5), options()).await;
    world.store.plan("ack_orchestration_item", [Fault::LoseAnswer; 6]);
    world.store.plan("ack_work_item", [Fault::LoseAnswer; 5]);
    world.client.start_orchestration("lost", "Chain", "x").await.expect("start");
    assert_eq!(world.output("lost").await, "x");
    assert_eq!(runs.load(Ordering::SeqCst), 5, "every activity ran once");
    let history = world.client.read_execution_history("lost", 1).await.expect("history");
    assert_eq!(history.len(), 12, "start, five schedules, five completions, end");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn no_step_costs_a_poll_interval() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::ZERO), chain(200), options()).await;
    let begun = tokio::time::Instant::now();
    world.client.start_orchestration("quick", "Chain", "x").await.expect("start");
    assert_eq!(world.output("quick").await, "x");
    assert!(begun.elapsed() < Duration::from_millis(500), "200 steps took {:?} of waiting", begun.elapsed());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn no_turn_and_no_activity_reads_the_history_again() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::ZERO), chain(100), options()).await;
    world.client.start_orchestration("held", "Chain", "x").await.expect("start");
    assert_eq!(world.output("held").await, "x");
    assert_eq!(world.store.calls("read"), 0, "neither turns nor activities read the history");
    assert_eq!(world.store.events_fetched(), 0, "and no fetch brought it");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_asks_the_store_next_to_nothing() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let parked = chain(1).register("Parked", |ctx: OrchestrationContext, _input: String| async move {
        Ok(ctx.schedule_wait("never").await)
    });
    let runtime = world.start(counting(&runs, Duration::ZERO), parked, options()).await;
    for n in 0..50 {
        world.client.start_orchestration(format!("p{n}"), "Parked", "").await.expect("start");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let all = |world: &World| {
        ["fetch_turns", "fetch_work", "renew_work_item_lock", "lost_work_items", "read", "wait_for_instance"]
            .iter()
            .map(|method| world.store.calls(*method))
            .sum::<u64>()
    };
    let before = all(&world);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let calls = all(&world) - before;
    assert!(calls <= 100, "{calls} calls in 100 idle seconds");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_store_fails_none_of_a_thousand_workflows_and_no_dispatcher_spins() {
    const WORKFLOWS: usize = 1_000;
    const HOUR: Duration = Duration::from_secs(60 * 60);
    // Two loops for each queue, which ask every other second once the backoff has grown.
    const FETCHES: u64 = 2 * 2 * (60 * 60 / 2 + 20);
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = world.start(counting(&runs, Duration::from_millis(500)), chain(4), options()).await;
    for n in 0..WORKFLOWS {
        world.client.start_orchestration(format!("i{n}"), "Chain", "x").await.expect("start");
    }
    while runs.load(Ordering::SeqCst) < 2 * 1_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let fetches = |world: &World| world.store.calls("fetch_turns") + world.store.calls("fetch_work");
    let before = fetches(&world);
    world.store.set_away(true);
    tokio::time::sleep(HOUR).await;
    let asked = fetches(&world) - before;
    world.store.set_away(false);
    assert!((100..=FETCHES).contains(&asked), "{asked} fetches in an hour without the store");
    for n in 0..WORKFLOWS {
        assert_eq!(world.output(&format!("i{n}")).await, "x");
    }
    let metrics = world.client.get_system_metrics().await.expect("metrics");
    assert_eq!((metrics.completed_instances, metrics.failed_instances), (1_000, 0));
    runtime.shutdown(None).await;
}
