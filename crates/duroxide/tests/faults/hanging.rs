//! Calls of the store that hang: they hold up nothing else, and cost no lock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistryBuilder, RuntimeOptions};
use tokio::time::Instant;

use crate::common::{Fault, World, activities, options, orchestrations};

/// Longer than anything here takes.
const HANGS: Fault = Fault::DelayBefore(Duration::from_secs(100_000));

/// When an activity began, as which attempt, and when it was told to stop, if it was.
#[derive(Debug, Clone, Copy)]
struct Run {
    attempt: u32,
    began: Instant,
    told: Option<Instant>,
}

#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<Run>>>);

impl Runs {
    fn all(&self) -> Vec<Run> {
        self.0.lock().expect("no panic under it").clone()
    }

    /// An activity that takes `time` unless it is told to stop.
    fn activity(&self, time: Duration) -> ActivityRegistryBuilder {
        let runs = self.0.clone();
        activities().register("Work", move |ctx: ActivityContext, input: String| {
            let runs = runs.clone();
            async move {
                let run = {
                    let mut runs = runs.lock().expect("no panic under it");
                    runs.push(Run { attempt: ctx.attempt(), began: Instant::now(), told: None });
                    runs.len() - 1
                };
                tokio::select! {
                    () = tokio::time::sleep(time) => Ok(input),
                    () = ctx.cancelled() => {
                        runs.lock().expect("no panic under it")[run].told = Some(Instant::now());
                        Err("told to stop".to_string())
                    }
                }
            }
        })
    }
}

fn calls_work() -> OrchestrationRegistryBuilder {
    orchestrations().register("CallsWork", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Work", input).await
    })
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_hangs_is_given_up() {
    let world = World::new();
    let runs = Runs::default();
    world.store.plan("fetch_turns", [HANGS]);
    world.store.plan("fetch_work", [HANGS]);
    let begun = Instant::now();
    let runtime = world.start(runs.activity(Duration::from_secs(1)), calls_work(), options()).await;
    world.client.start_orchestration("i", "CallsWork", "x").await.expect("start");
    assert_eq!(world.output("i").await, "x");
    // The poll timeout and the lock of an activity.
    assert!(begun.elapsed() < Duration::from_secs(30 + 30 + 5), "after {:?}", begun.elapsed());
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_or_an_ack_that_hangs_is_made_again() {
    for hangs in [HANGS, Fault::DelayAfter(Duration::from_secs(100_000))] {
        let world = World::new();
        let runs = Runs::default();
        world.store.plan("ack_orchestration_item", [hangs]);
        world.store.plan("ack_work_item", [hangs]);
        let begun = Instant::now();
        let runtime = world.start(runs.activity(Duration::from_secs(1)), calls_work(), options()).await;
        world.client.start_orchestration("i", "CallsWork", "x").await.expect("start");
        assert_eq!(world.output("i").await, "x");
        assert!(begun.elapsed() < Duration::from_secs(2 * 65), "after {:?}", begun.elapsed());
        assert_eq!(runs.all().len(), 1, "the activity ran once");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_for_cancelled_activities_that_hangs_costs_no_lock() {
    let world = World::new();
    world.store.plan("lost_work_items", [HANGS]);
    run_once_all(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_is_asked_for_again_and_holds_up_no_other() {
    let world = World::new();
    world.store.plan("renew_work_item_lock", [HANGS; 3]);
    run_once_all(&world).await;
    assert!(world.store.calls("renew_work_item_lock") >= 3 + 3 * 3, "and the locks were renewed");
}

/// Three activities that take as long as four locks.
async fn run_once_all(world: &World) {
    let runs = Runs::default();
    let runtime = world.start(runs.activity(Duration::from_secs(120)), calls_work(), options()).await;
    for n in 0..3 {
        world.client.start_orchestration(format!("i{n}"), "CallsWork", "x").await.expect("start");
    }
    for n in 0..3 {
        assert_eq!(world.output(&format!("i{n}")).await, "x");
    }
    let all = runs.all();
    assert_eq!(all.len(), 3, "each ran once: {all:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_renewals_all_hang_is_told_when_its_lock_has_ended() {
    let world = World::new();
    let runs = Runs::default();
    let time = Duration::from_secs(200);
    let (first, link) = world.start_apart(runs.activity(time), calls_work(), options()).await;
    link.plan("renew_work_item_lock", [HANGS; 100]);
    link.plan("lost_work_items", [HANGS; 100]);
    world.client.start_orchestration("i", "CallsWork", "x").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let process = ProcessScope::simulated(2);
    let second =
        world.start(runs.activity(time), calls_work(), RuntimeOptions { process, ..options() }).await;
    assert_eq!(world.output("i").await, "x");
    let [ours, next, ..] = runs.all()[..] else { panic!("it ran again: {:?}", runs.all()) };
    assert_eq!((ours.attempt, next.attempt), (1, 2));
    let told = ours.told.expect("nobody answered in time");
    assert!(
        told - ours.began >= Duration::from_secs(30),
        "not while the lock lasts: {:?}",
        told - ours.began
    );
    assert!(told < next.began + Duration::from_secs(1), "about when it may begin elsewhere");
    // Either node may have had it again.
    let (questions, runs) = (link.calls("renew_work_item_lock"), runs.all().len());
    assert!(
        questions <= 4 * 2 * runs as u64,
        "no more than a few hang at a time: {questions} in {runs} runs"
    );
    first.shutdown(None).await;
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn attempts_whose_locks_could_not_be_renewed_are_excused() {
    let world = World::new();
    let runs = Runs::default();
    let runtime = world.start(runs.activity(Duration::from_secs(100)), calls_work(), options()).await;
    // Far more than the attempts that an activity has.
    world.store.plan("renew_work_item_lock", [HANGS; 4 * 20]);
    world.client.start_orchestration("i", "CallsWork", "x").await.expect("start");
    assert_eq!(world.output("i").await, "x");
    assert_eq!(runs.all().len(), 21, "the last is renewed");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_sessions_that_hangs_is_asked_for_again() {
    let world = World::new();
    let runs = Runs::default();
    let orchs =
        orchestrations().register("InSession", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity_on_session("Work", input, "session").await
        });
    let runtime = world.start(runs.activity(Duration::from_secs(1)), orchs, options()).await;
    world.client.start_orchestration("i", "InSession", "x").await.expect("start");
    assert_eq!(world.output("i").await, "x");
    world.store.plan("renew_session_lock", [HANGS; 3]);
    let mut ends = Vec::new();
    for _ in 0..10 {
        let sessions = world.memory.snapshot().sessions;
        ends.push(sessions.values().next().expect("it is claimed").locked_until);
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    // A claim lasts 30 s, is renewed 5 s before its end, and looked at every 10 s.
    let apart: Vec<i64> = ends.windows(2).map(|pair| pair[1] - pair[0]).filter(|apart| *apart > 0).collect();
    assert!(
        apart.len() >= 3 && apart.iter().all(|apart| *apart < 30_000),
        "renewed before its end: {ends:?}"
    );
    runtime.shutdown(None).await;
}
