//! The generic activity.

use std::sync::Arc;
use std::time::Duration;

use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;

use crate::expect::{failed, succeeded};
use crate::generate_hostile::REFUSED_ABOVE_BYTES;
use crate::nodes::accepts_tags;
use crate::program::{ACTIVITY, Act, Does, NEW_ACTIVITY, PANIC_MARK};
use crate::world::Life;

/// The activities of one process.
pub(crate) fn registry(life: &Arc<Life>) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder();
    for name in [ACTIVITY, NEW_ACTIVITY] {
        if name == NEW_ACTIVITY && !life.upgraded {
            continue;
        }
        let life = life.clone();
        builder =
            builder.register(name, move |ctx: ActivityContext, input: String| run(life.clone(), ctx, input));
    }
    builder.build()
}

async fn run(life: Arc<Life>, ctx: ActivityContext, input: String) -> Result<String, String> {
    let act: Act = serde_json::from_str(&input).map_err(|cause| format!("not an activity: {cause}"))?;
    let world = life.world.clone();
    world.trace(&life.name, format_args!("runs {} of {} (#{})", act.tag, ctx.instance_id(), ctx.attempt()));
    let key = (ctx.instance_id().to_string(), ctx.execution_id(), ctx.activity_id());
    if world.ledger(|ledger| ledger.completions.contains_key(&key)) {
        // Fetched before it was completed elsewhere; the answer came after the lock had expired.
        world.count("activity begun after its lock was gone");
    }
    if act.tagged != ctx.tag().is_some() || (act.tagged && !accepts_tags(life.node)) {
        world.fail(format!("{} ran {} with tag {:?}", life.name, act.tag, ctx.tag()));
    }
    if act.session.as_deref() != ctx.session_id() {
        world.fail(format!("{} ran {} in session {:?}", life.name, act.tag, ctx.session_id()));
    }
    let schedule = world.ledger(|ledger| ledger.nth_schedule(&act.tag, key.clone()));
    check_attempt(&life, &ctx, &act, schedule);
    if act.does == Does::Hang {
        world.count("activity that never ends");
        return end(&life, &act).await;
    }
    tokio::select! {
        biased;
        () = ctx.cancelled() => {
            world.count("running activity told that its lock is gone");
            Err("cancelled".to_string())
        }
        () = tokio::time::sleep(Duration::from_millis(act.ms)) => {
            world.ledger(|ledger| ledger.ran(key, &life.name));
            if schedule < act.fails_first { Err(failed(&act)) } else { end(&life, &act).await }
        }
    }
}

/// All attempts of one call have one idempotency key, and the number of an attempt counts those before it.
fn check_attempt(life: &Life, ctx: &ActivityContext, act: &Act, schedule: u32) {
    let world = &life.world;
    let (instance, key) = (ctx.instance_id(), ctx.idempotency_key());
    if let Some(other) = world.ledger(|ledger| ledger.other_key(instance, &act.tag, &key)) {
        world.fail(format!("{instance}: {} has the idempotency key {key}, and had {other}", act.tag));
    }
    if schedule > 0 {
        world.count("later attempt of a retried call");
    }
    if ctx.attempt() <= schedule {
        world.fail(format!(
            "{instance}: attempt {} of {} is said to be {}",
            schedule + 1,
            act.tag,
            ctx.attempt()
        ));
    }
}

async fn end(life: &Life, act: &Act) -> Result<String, String> {
    match act.does {
        Does::Succeed => Ok(succeeded(act)),
        Does::SucceedAtLength => Ok("x".repeat(REFUSED_ABOVE_BYTES)),
        Does::Hang => std::future::pending().await,
        Does::KillUntilFixed if life.upgraded => Ok(succeeded(act)),
        Does::Fail => Err(failed(act)),
        Does::Panic => panic!("{PANIC_MARK} {}", act.tag),
        Does::Kill | Does::KillUntilFixed => {
            life.crash("in an activity");
            std::future::pending().await
        }
    }
}
