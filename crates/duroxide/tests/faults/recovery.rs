//! After a crash or an outage, work goes on as wide as it ran before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tokio::time::Instant;

use crate::common::{Faulty, World, activities, options, orchestrations};

/// How long an activity `Works` takes.
const WORK: Duration = Duration::from_secs(3);

fn acts() -> ActivityRegistryBuilder {
    activities()
        .register("Works", |_ctx: ActivityContext, _input: String| async move {
            tokio::time::sleep(WORK).await;
            Ok("done".to_string())
        })
        .register("Never", |_ctx: ActivityContext, _input: String| {
            std::future::pending::<Result<String, String>>()
        })
}

fn orchs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Works", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Works", "").await
        })
        .register("Never", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Never", "").await
        })
        .register("Chain", |ctx: OrchestrationContext, _input: String| async move {
            for _ in 0..3 {
                ctx.schedule_activity("Works", "").await?;
            }
            Ok("done".to_string())
        })
}

/// One process on the world's store.
async fn process(world: &World, number: u64, link: Arc<Faulty>) -> Arc<Runtime> {
    let options = process_options(number);
    let runtime = Runtime::start_with_options(link, acts().build(), orchs().build(), options).await;
    // The client's own way to the store is another one.
    assert!(!world.store.is_frozen());
    runtime
}

fn process_options(number: u64) -> RuntimeOptions {
    RuntimeOptions { process: ProcessScope::simulated(number), ..options() }
}

/// Kills the process: it neither commits nor gives anything back.
async fn kill(runtime: Arc<Runtime>, link: &Faulty) {
    link.freeze();
    runtime.kill();
    runtime.wait_until_ended().await;
}

/// The longest time that work may take that a dead process held: one and a half times what it and its lock need.
fn allowed(work: Duration) -> Duration {
    (work + RuntimeOptions::default().worker_lock_timeout).mul_f64(1.5)
}

/// Starts these many instances, and kills the process once their activities have begun.
async fn die_with(world: &World, names: &[(String, &str)]) {
    let link = Arc::new(Faulty::new(world.memory.clone()));
    let runtime = process(world, 1, link.clone()).await;
    for (instance, orchestration) in names {
        world.client.start_orchestration(instance, *orchestration, "").await.expect("start");
    }
    tokio::time::sleep(WORK / 2).await;
    kill(runtime, &link).await;
}

fn named(count: u32, orchestration: &'static str) -> Vec<(String, &'static str)> {
    (0..count).map(|n| (format!("{orchestration}-{n}"), orchestration)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_ran_is_run_again_as_wide_as_before() {
    let world = World::new();
    let names = named(40, "Works");
    die_with(&world, &names).await;
    let died = Instant::now();
    let runtime = process(&world, 2, Arc::new(Faulty::new(world.memory.clone()))).await;
    for (instance, _) in &names {
        assert_eq!(world.output(instance).await, "done");
    }
    let took = died.elapsed();
    assert!(took <= allowed(WORK), "{took:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_never_ends_keeps_no_other_from_being_run_again() {
    let world = World::new();
    let mut names = named(1, "Never");
    names.extend(named(20, "Works"));
    die_with(&world, &names).await;
    let died = Instant::now();
    let runtime = process(&world, 2, Arc::new(Faulty::new(world.memory.clone()))).await;
    for (instance, _) in &names[1..] {
        assert_eq!(world.output(instance).await, "done");
    }
    let took = died.elapsed();
    assert!(took <= allowed(WORK), "{took:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_everything_goes_on_at_once() {
    const OUTAGE: Duration = Duration::from_secs(60);
    let world = World::new();
    let link = Arc::new(Faulty::new(world.memory.clone()));
    let runtime = process(&world, 1, link.clone()).await;
    let names = named(30, "Chain");
    for (instance, orchestration) in &names {
        world.client.start_orchestration(instance, *orchestration, "").await.expect("start");
    }
    tokio::time::sleep(WORK / 2).await;
    link.set_away(true);
    tokio::time::sleep(OUTAGE).await;
    link.set_away(false);
    let back = Instant::now();
    for (instance, _) in &names {
        assert_eq!(world.output(instance).await, "done");
    }
    let took = back.elapsed();
    assert!(took <= allowed(3 * WORK), "{took:?}");
    runtime.shutdown(None).await;
}

/// A turn that kills its process, beside an activity that never ends: they meet at every life, and once both have used
/// half of their attempts, one of them must give way.
#[tokio::test(start_paused = true)]
async fn an_activity_that_never_ends_is_not_charged_with_the_deaths_of_a_killer() {
    let world = World::new();
    world.client.start_orchestration("never", "Never", "").await.expect("start");
    world.client.start_orchestration("killer", "KillingTurn", "").await.expect("start");
    let begun = Arc::new(AtomicU32::new(0));
    let mut deaths = 0;
    loop {
        let link = Arc::new(Faulty::new(world.memory.clone()));
        let (dies, begun) = (link.clone(), begun.clone());
        let acts = activities().register("Never", move |ctx: ActivityContext, _input: String| {
            begun.fetch_max(ctx.attempt(), Ordering::SeqCst);
            std::future::pending::<Result<String, String>>()
        });
        let orchs = orchs().register("KillingTurn", move |_ctx: OrchestrationContext, _input: String| {
            dies.freeze();
            std::future::pending::<Result<String, String>>()
        });
        // Locks with which a turn and an activity that died together come back together.
        let options =
            RuntimeOptions { worker_lock_timeout: Duration::from_secs(5), ..process_options(deaths) };
        let runtime = Runtime::start_with_options(link.clone(), acts.build(), orchs.build(), options).await;
        tokio::select! {
            () = link.has_frozen() => {
                deaths += 1;
                runtime.kill();
                runtime.wait_until_ended().await;
            }
            details = world.failure("killer") => {
                assert_eq!(details.category(), "poison");
                runtime.shutdown(None).await;
                break;
            }
        }
    }
    assert_eq!(deaths, 10, "exactly max_attempts");
    // It goes on in a process that lives; it would have been poisoned long ago if it had been charged.
    let link = Arc::new(Faulty::new(world.memory.clone()));
    let runtime = process(&world, 100, link).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let status = world.client.get_orchestration_status("never").await.expect("status");
    assert!(matches!(status, duroxide::OrchestrationStatus::Running { .. }), "{status:?}");
    assert!(begun.load(Ordering::SeqCst) >= 6, "they met at most of the lives");
    runtime.shutdown(None).await;
}
