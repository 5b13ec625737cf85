//! Work that kills its process: nobody pays for a neighbour.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::{ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationStatus, RuntimeOptions};

use crate::common::{Faulty, World, activities, options, orchestrations};

/// A process that is started again whenever what it runs has killed it.
struct Restarted {
    world: World,
    /// What kind of store its lives have.
    shape: fn(Faulty) -> Faulty,
    options: RuntimeOptions,
    /// How long an activity `Healthy` takes.
    healthy_for: Duration,
    /// The most attempts that one of them has needed.
    attempts: Arc<AtomicU32>,
}

impl Restarted {
    fn new(shape: fn(Faulty) -> Faulty, options: RuntimeOptions, healthy_for: Duration) -> Self {
        Self { world: World::new(), shape, options, healthy_for, attempts: Arc::default() }
    }

    /// One life. Its way to the store freezes at the moment of its death.
    async fn life(&self, number: u64) -> (Arc<Runtime>, Arc<Faulty>) {
        let link = Arc::new((self.shape)(Faulty::new(self.world.memory.clone())));
        let (dies, dies_too) = (link.clone(), link.clone());
        let (healthy_for, attempts) = (self.healthy_for, self.attempts.clone());
        let acts = activities()
            .register("Killer", move |_ctx: ActivityContext, _input: String| {
                dies.freeze();
                std::future::pending::<Result<String, String>>()
            })
            .register("Healthy", move |ctx: ActivityContext, _input: String| {
                attempts.fetch_max(ctx.attempt(), Ordering::SeqCst);
                async move {
                    tokio::time::sleep(healthy_for).await;
                    Ok("well".to_string())
                }
            });
        let orchs = orchestrations()
            .register("Healthy", |ctx: OrchestrationContext, _input: String| async move {
                ctx.schedule_activity("Healthy", "").await
            })
            .register("Killer", |ctx: OrchestrationContext, _input: String| async move {
                ctx.schedule_activity("Killer", "").await
            })
            .register("KillingTurn", move |_ctx: OrchestrationContext, _input: String| {
                dies_too.freeze();
                std::future::pending::<Result<String, String>>()
            });
        let options = RuntimeOptions { process: ProcessScope::simulated(number), ..self.options.clone() };
        let runtime = Runtime::start_with_options(link.clone(), acts.build(), orchs.build(), options).await;
        (runtime, link)
    }

    async fn start(&self, instance: &str, orchestration: &str) {
        self.world.client.start_orchestration(instance, orchestration, "").await.expect("start");
    }

    /// Lives until this instance has ended and these many healthy ones have. Gives how often it died.
    async fn until_ended(&self, instance: &str, healthy_count: u32) -> (u64, OrchestrationStatus) {
        let mut deaths = 0;
        loop {
            let (runtime, link) = self.life(deaths).await;
            let all_ended = async {
                let status = self.world.ended(instance).await;
                for n in 0..healthy_count {
                    assert_eq!(self.world.output(&format!("h{n}")).await, "well");
                }
                status
            };
            tokio::select! {
                () = link.has_frozen() => {
                    deaths += 1;
                    runtime.kill();
                    runtime.wait_until_ended().await;
                }
                status = all_ended => {
                    runtime.shutdown(None).await;
                    return (deaths, status);
                }
            }
        }
    }
}

fn assert_poisoned(status: OrchestrationStatus) {
    let OrchestrationStatus::Failed { details, .. } = status else { panic!("{status:?}") };
    assert!(
        matches!(details, ErrorDetails::Poison { attempt_count: 11, max_attempts: 10, .. }),
        "{details:?}"
    );
}

fn knowing(store: Faulty) -> Faulty {
    store
}

#[tokio::test(start_paused = true)]
async fn a_neighbour_that_kills_the_process_again_and_again_is_poisoned_alone() {
    crash_until_poisoned(knowing, 200).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_poisoned_alone_also_on_a_store_that_does_not_know_suspects() {
    crash_until_poisoned(Faulty::plain, 40).await;
}

/// Ten deaths of a process that runs healthy slow activities beside one that kills it.
async fn crash_until_poisoned(store: fn(Faulty) -> Faulty, healthy_count: u32) {
    let process = Restarted::new(store, options(), Duration::from_secs(2));
    for n in 0..healthy_count {
        process.start(&format!("h{n}"), "Healthy").await;
    }
    process.start("killer", "Killer").await;
    let (deaths, status) = process.until_ended("killer", healthy_count).await;
    assert_eq!(deaths, 10, "exactly max_attempts");
    assert_poisoned(status);
}

/// Locks with which a turn and an activity that died together come back together.
fn locks_of_one_length() -> RuntimeOptions {
    let lock = Duration::from_secs(5);
    RuntimeOptions { worker_lock_timeout: lock, orchestrator_lock_timeout: lock, ..options() }
}

#[tokio::test(start_paused = true)]
async fn a_long_activity_beside_a_turn_that_kills_its_process_is_not_poisoned_with_it() {
    meet_a_killing_turn(knowing, locks_of_one_length()).await;
}

#[tokio::test(start_paused = true)]
async fn nor_on_a_store_that_does_not_know_suspects() {
    meet_a_killing_turn(Faulty::plain, locks_of_one_length()).await;
}

#[tokio::test(start_paused = true)]
async fn nor_with_the_default_locks() {
    meet_a_killing_turn(knowing, options()).await;
}

/// An activity that takes longer than all the lives that the turn ends.
async fn meet_a_killing_turn(store: fn(Faulty) -> Faulty, options: RuntimeOptions) {
    let process = Restarted::new(store, options, Duration::from_secs(600));
    process.start("h0", "Healthy").await;
    process.start("killer", "KillingTurn").await;
    let (deaths, status) = process.until_ended("killer", 1).await;
    assert_eq!(deaths, 10, "exactly max_attempts");
    assert_poisoned(status);
    let attempts = process.attempts.load(Ordering::SeqCst);
    assert!(attempts >= 2, "they met");
    assert!(attempts <= 6, "half of its attempts, and the one that ends well: {attempts}");
}
