//! The nodes: started, killed, restarted, until the simulation ends.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{CapabilityRouting, OrchestrationContext, OrchestrationRegistry, RuntimeOptions, TagFilter};

use crate::program::{OLD_VERSIONS, ORCHESTRATION, TAG, VERSIONS};
use crate::world::{Life, World};
use crate::{activities, interpret, store};

/// Keeps one node running: a process that ends is followed by the next.
pub(crate) async fn supervise(world: Arc<World>, node: usize) {
    for generation in 1.. {
        let upgrade_in = upgrade_in(&world, node);
        let life = Arc::new(Life::new(world.clone(), node, generation, upgrade_in.is_none()));
        let store = store::of_node(&life);
        let activities = activities::registry(&life);
        let orchestrations = orchestrations(&life);
        let options = options(&world, &life);
        world.trace(&life.name, format_args!("starts"));
        let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        life.begin(runtime, store);
        let _until_supervised = LetGo(life.clone());
        let restart_every_ms = world.weather.rates.restart_every_ms;
        let restart_after = match (restart_every_ms, world.is_calm()) {
            (0, _) | (_, true) => Duration::from_secs(24 * 60 * 60),
            (every_ms, false) => world.random(|rng| rng.millis(1, 2 * every_ms)),
        };
        let restart_after = restart_after.min(upgrade_in.unwrap_or(restart_after));
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

/// How long until a node is upgraded; `None` if it is.
fn upgrade_in(world: &World, node: usize) -> Option<Duration> {
    let upgrade = world.weather.upgrade?;
    let at_ms = upgrade.from_ms + upgrade.apart_ms * u64::try_from(node).unwrap_or(0);
    let in_ms = at_ms.checked_sub(world.now_ms()).filter(|in_ms| *in_ms > 0);
    if in_ms.is_none() {
        world.count("node upgraded");
    }
    in_ms.map(Duration::from_millis)
}

/// Whether a node takes activities with [`TAG`]: some do, one does not.
pub(crate) fn accepts_tags(node: usize) -> bool {
    node != 2
}

fn tag_filter(node: usize) -> TagFilter {
    match node {
        0 => TagFilter::default_and([TAG]),
        1 => TagFilter::any(),
        _ => TagFilter::default_only(),
    }
}

/// Healthy work stays below this, however unlucky it is.
fn max_attempts(world: &World) -> u32 {
    if world.weather.upgrade.is_some() && !world.mends {
        // Before the upgrade work without a handler is attempted as well.
        20
    } else {
        10
    }
}

/// Lets a life's runtime go when nobody supervises it any more.
struct LetGo(Arc<Life>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

fn options(world: &Arc<World>, life: &Life) -> RuntimeOptions {
    let (seed, max_live, routed) =
        world.random(|rng| (rng.next(), if rng.one_in(3) { 2 } else { 1_000 }, rng.one_in(2)));
    let few_slots = world.weather.few_slots;
    // The old release replays some programs wrong: comparing it with itself finds what is meant to be there.
    let process = if world.mends && !life.upgraded {
        ProcessScope::simulated(seed)
    } else {
        ProcessScope::audited(seed, world.clone())
    };
    let mut unregistered_backoff = UnregisteredBackoffConfig::default();
    if world.mends {
        // Attempts are to be used up before the upgrade.
        unregistered_backoff.max_delay = Duration::from_secs(2);
    }
    RuntimeOptions {
        orchestrator_lock_timeout: world.weather.turn_lock,
        orchestrator_lock_renewal_buffer: world.weather.turn_lock / 3,
        worker_lock_timeout: world.weather.work_lock,
        worker_lock_renewal_buffer: world.weather.work_lock / 3,
        activity_cancellation_grace_period: Duration::from_secs(1),
        orchestration_concurrency: if few_slots { 1 } else { 16 },
        worker_concurrency: if few_slots { 2 } else { 32 },
        max_attempts: max_attempts(world),
        unregistered_backoff,
        capability_routing: if routed {
            CapabilityRouting::Handlers
        } else {
            CapabilityRouting::ReplayVersion
        },
        max_live_executions: max_live,
        worker_tag_filter: tag_filter(life.node),
        session_lock_timeout: world.weather.work_lock,
        session_lock_renewal_buffer: world.weather.work_lock / 3,
        session_idle_timeout: world.weather.work_lock * 2,
        process,
        ..RuntimeOptions::default()
    }
}

fn orchestrations(life: &Arc<Life>) -> OrchestrationRegistry {
    let mut builder = OrchestrationRegistry::builder();
    let known = if life.upgraded { VERSIONS.len() } else { OLD_VERSIONS };
    for version in &VERSIONS[..known] {
        let life = life.clone();
        let handler =
            move |ctx: OrchestrationContext, input: String| interpret::run(life.clone(), ctx, input);
        builder = builder.register_versioned(ORCHESTRATION, version, handler);
    }
    builder.build()
}

/// The weather besides the faults of single calls, as long as there is to be any.
pub(crate) async fn blow(world: Arc<World>) {
    tokio::join!(outages(&world), clock_steps(&world), long_outage(&world));
}

async fn outages(world: &World) {
    let every_ms = world.weather.rates.outage_every_ms;
    while every_ms > 0 && !world.is_calm() {
        let pause = world.random(|rng| rng.millis(1, 2 * every_ms));
        tokio::time::sleep(pause).await;
        if !world.is_calm() {
            world.outage().await;
        }
    }
}

async fn long_outage(world: &World) {
    let Some(outage) = world.weather.long_outage else { return };
    tokio::time::sleep(Duration::from_millis(outage.from_ms)).await;
    world.long_outage(outage.from_ms + outage.for_ms).await;
}

/// The store's clock jumps. Forwards all locks expire, so that it is a disaster.
async fn clock_steps(world: &World) {
    let every_ms = world.weather.rates.clock_step_every_ms;
    while every_ms > 0 && !world.is_calm() {
        let pause = world.random(|rng| rng.millis(1, 2 * every_ms));
        tokio::time::sleep(pause).await;
        let by_ms = world.random(|rng| i64::try_from(rng.range(0, 12_000)).unwrap_or(0) - 4_000);
        if !world.is_calm() && (by_ms < 0 || world.takes_disaster()) {
            world.count(if by_ms < 0 {
                "the store's clock set back"
            } else {
                "the store's clock set forward"
            });
            world.trace("weather", format_args!("the store's clock is set by {by_ms} ms"));
            world.store_clock.step(by_ms);
        }
    }
}
