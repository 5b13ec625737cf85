//! The generic activity.

use std::sync::Arc;
use std::time::Duration;

use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;

use crate::expect::{failed, succeeded};
use crate::program::{ACTIVITY, Act, Does, PANIC_MARK};
use crate::world::Life;

/// The activities of one process.
pub(crate) fn registry(life: Arc<Life>) -> ActivityRegistry {
    ActivityRegistry::builder()
        .register(ACTIVITY, move |ctx: ActivityContext, input: String| run(life.clone(), ctx, input))
        .build()
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
    tokio::select! {
        biased;
        () = ctx.cancelled() => {
            world.count("running activity told that its lock is gone");
            Err("cancelled".to_string())
        }
        () = tokio::time::sleep(Duration::from_millis(act.ms)) => end(&life, &act).await,
    }
}

async fn end(life: &Life, act: &Act) -> Result<String, String> {
    match act.does {
        Does::Succeed => Ok(succeeded(act)),
        Does::Fail => Err(failed(act)),
        Does::Panic => panic!("{PANIC_MARK} {}", act.tag),
        Does::Kill => {
            life.crash("in an activity");
            std::future::pending().await
        }
    }
}
