//! The nodes: started, killed, restarted, until the simulation ends.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::{CapabilityRouting, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

use crate::program::{ORCHESTRATION, VERSIONS};
use crate::store::FaultyStore;
use crate::world::{Actor, Life, World};
use crate::{activities, interpret};

/// Keeps one node running: a process that ends is followed by the next.
pub(crate) async fn supervise(world: Arc<World>, node: usize) {
    for generation in 1.. {
        let life = Arc::new(Life::new(world.clone(), node, generation));
        let store = Arc::new(FaultyStore::of_node(life.clone()));
        let activities = activities::registry(life.clone());
        let orchestrations = orchestrations(&life);
        let options = options(&world);
        world.trace(&life.name, format_args!("starts"));
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        life.begin(runtime);
        let _until_supervised = LetGo(life.clone());
        let restart_every_ms = world.weather.rates.restart_every_ms;
        let restart_after = match (restart_every_ms, world.is_calm()) {
            (0, _) | (_, true) => Duration::from_secs(24 * 60 * 60),
            (every_ms, false) => world.random(|rng| rng.millis(1, 2 * every_ms)),
        };
        tokio::select! {
            biased;
            () = life.ended.notified() => {}
            () = tokio::time::sleep(restart_after) => {
                let timeout_ms = world.random(|rng| rng.range(0, 3_000));
                life.shut_down(timeout_ms).await;
            }
        }
        let down = world.random(|rng| rng.millis(1, 3_000));
        tokio::time::sleep(down).await;
    }
}

/// Lets a life's runtime go when nobody supervises it any more.
struct LetGo(Arc<Life>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

fn options(world: &Arc<World>) -> RuntimeOptions {
    let (seed, max_live, few_slots, routed) =
        world.random(|rng| (rng.next(), if rng.one_in(3) { 2 } else { 1_000 }, rng.one_in(4), rng.one_in(2)));
    RuntimeOptions {
        orchestrator_lock_timeout: world.weather.turn_lock,
        orchestrator_lock_renewal_buffer: world.weather.turn_lock / 3,
        worker_lock_timeout: world.weather.work_lock,
        worker_lock_renewal_buffer: world.weather.work_lock / 3,
        activity_cancellation_grace_period: Duration::from_secs(1),
        orchestration_concurrency: if few_slots { 1 } else { 16 },
        worker_concurrency: if few_slots { 2 } else { 32 },
        capability_routing: if routed {
            CapabilityRouting::Handlers
        } else {
            CapabilityRouting::ReplayVersion
        },
        max_live_executions: max_live,
        process: ProcessScope::audited(seed, world.clone()),
        ..RuntimeOptions::default()
    }
}

fn orchestrations(life: &Arc<Life>) -> OrchestrationRegistry {
    let mut builder = OrchestrationRegistry::builder();
    for version in VERSIONS {
        let life = life.clone();
        let handler =
            move |ctx: OrchestrationContext, input: String| interpret::run(life.clone(), ctx, input);
        builder = builder.register_versioned(ORCHESTRATION, version, handler);
    }
    builder.build()
}

/// Outages, as long as there are to be any.
pub(crate) async fn blow(world: Arc<World>) {
    let every_ms = world.weather.rates.outage_every_ms;
    if every_ms == 0 {
        return;
    }
    while !world.is_calm() {
        let pause = world.random(|rng| rng.millis(1, 2 * every_ms));
        tokio::time::sleep(pause).await;
        world.begin_outage();
    }
}

/// The store as a client sees it.
pub(crate) fn client_store(world: &Arc<World>) -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(world.clone(), Actor::Client, None))
}
