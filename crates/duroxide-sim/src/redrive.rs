//! The client that lets failed instances go on, once they are fixed or before.

use std::sync::Arc;
use std::time::Duration;

use duroxide::{Client, ClientError, ConfigErrorKind, ErrorDetails, OrchestrationStatus};
use futures_util::FutureExt;

use crate::clients::{WAIT, end_value, send_all};
use crate::generate::{Call, Send};
use crate::store;
use crate::world::World;

/// Waits for the end of an instance. Where it is a failure after which it may go on, lets it go on, until it ends
/// otherwise.
pub(crate) async fn until_mended(world: Arc<World>, instance: String) {
    let client = Client::new(store::of_client(&world)).with_identity("operator");
    let mut redriven = 0_u32;
    loop {
        let status = match client.wait_for_orchestration(&instance, WAIT).await {
            Ok(status) => status,
            Err(error) => return world.fail(format!("waiting for {instance} failed: {error}")),
        };
        let Some(why) = may_go_on(&status) else {
            let seen = end_value(&status);
            world.trace("client", format_args!("sees the end of {instance}"));
            return world.ledger(|ledger| drop(ledger.seen_ends.insert(instance, seen)));
        };
        if redriven > 0 {
            world.count("failed again before the fix");
        }
        wait_for_the_fix(&world, why).await;
        let (answer, ()) = tokio::join!(client.redrive(&instance), send_meanwhile(&world, &instance));
        match answer {
            Ok(_) => {
                world.count(why.word());
                redriven += 1;
            }
            // Children that are still being cancelled, or a store that is away: again, later.
            Err(ClientError::InstanceStillRunning { .. }) => {}
            Err(error) if error.is_retryable() => {}
            // The answer to the call before was lost: it goes on, or has failed again since.
            Err(_) if !is_as_before(&world, &instance, &status) => redriven += 1,
            Err(error) => {
                return world.fail(format!("{instance}: may go on after {why:?}, but: {error}"));
            }
        }
    }
}

/// Why an instance failed that may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Poison,
    Nondeterminism,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Self::Poison => "redriven after poison",
            Self::Nondeterminism => "redriven after nondeterminism",
        }
    }
}

fn may_go_on(status: &OrchestrationStatus) -> Option<Why> {
    let OrchestrationStatus::Failed { details, .. } = status else { return None };
    match details {
        ErrorDetails::Poison { .. } => Some(Why::Poison),
        ErrorDetails::Configuration { kind: ConfigErrorKind::Nondeterminism, .. } => {
            Some(Why::Nondeterminism)
        }
        ErrorDetails::Configuration { kind: ConfigErrorKind::UnsupportedReplayVersion, .. }
        | ErrorDetails::Infrastructure { .. }
        | ErrorDetails::Application { .. } => None,
    }
}

/// Mostly until all nodes are upgraded. What is poisoned may have killed processes, and charged others with it: that
/// is not tried again before.
async fn wait_for_the_fix(world: &World, why: Why) {
    let fixed_in_ms = world.upgraded_at_ms().saturating_sub(world.now_ms());
    let early = why == Why::Nondeterminism && world.random(|rng| rng.one_in(2));
    let pause_ms = world.random(|rng| rng.range(1, 5_000));
    let wait_ms = if early { pause_ms } else { fixed_in_ms + pause_ms };
    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
}

/// Mostly sends an event that nobody waits for, at about the time of a redrive. It must not get lost.
async fn send_meanwhile(world: &Arc<World>, instance: &str) {
    let (sends, at_ms, number) = world.random(|rng| (!rng.one_in(3), rng.range(0, 50), rng.next()));
    if sends {
        let what = Send::Raise { name: format!("surplus-{number}"), data: String::new() };
        send_all(world.clone(), vec![Call { at_ms, instance: instance.to_string(), what }]).await;
    }
}

/// Whether the store still has the failure that was seen.
fn is_as_before(world: &World, instance: &str, seen: &OrchestrationStatus) -> bool {
    let now = world.store.orchestration_status(instance).now_or_never();
    now.expect("a store in memory answers at once").is_ok_and(|now| now == *seen)
}
