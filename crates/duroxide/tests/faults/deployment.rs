//! Changed code: delays for one instance, never a silent loss.

use std::time::Duration;

use duroxide::runtime::OnNondeterminism;
use duroxide::runtime::process::ProcessScope;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};

use crate::common::{World, activities, options, orchestrations};

/// An orchestration that calls `activity` and then waits for `go`.
fn changing(activity: &'static str) -> duroxide::OrchestrationRegistryBuilder {
    orchestrations().register("Changes", move |ctx: OrchestrationContext, _input: String| async move {
        let result = ctx.schedule_activity(activity, "in").await?;
        ctx.schedule_wait("go").await;
        Ok(result)
    })
}

fn old_activity() -> duroxide::runtime::registry::ActivityRegistryBuilder {
    activities().register("Old", |_ctx: ActivityContext, input: String| async move { Ok(input) })
}

/// Brings an instance to its wait under the old code.
async fn begun_by_old_code(world: &World) {
    let runtime = world.start(old_activity(), changing("Old"), options()).await;
    world.client.start_orchestration("i", "Changes", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.shutdown(None).await;
}

const MISMATCH: &str = "nondeterministic: schedule mismatch at event 2: recorded activity 'Old' (input of 2 bytes), \
    but the code now asks for activity 'New' (input of 2 bytes); differs in name (recorded 'Old', now 'New')";

#[tokio::test(start_paused = true)]
async fn changed_code_fails_as_nondeterministic_and_says_what_differs() {
    let world = World::new();
    begun_by_old_code(&world).await;
    let runtime = world.start(old_activity(), changing("New"), options()).await;
    world.client.raise_event("i", "go", "").await.expect("raise");
    let text = world.failure("i").await.display_message();
    assert!(text.starts_with(MISMATCH) && text.contains("deployment.rs:"), "{text}");
    assert_eq!(world.store.calls("abandon_orchestration_item"), 0);
    runtime.shutdown(None).await;
}

fn handing_back(max_attempts: u32, seed: u64) -> RuntimeOptions {
    RuntimeOptions {
        max_attempts,
        on_nondeterminism: OnNondeterminism::HandBack,
        unregistered_backoff: duroxide::runtime::UnregisteredBackoffConfig::default(),
        process: ProcessScope::simulated(seed),
        ..options()
    }
}

#[tokio::test(start_paused = true)]
async fn changed_code_hands_back_what_it_does_not_fit_until_a_node_with_the_old_code_takes_it() {
    let world = World::new();
    begun_by_old_code(&world).await;
    let new = world.start(old_activity(), changing("New"), handing_back(10, 1)).await;
    world.client.raise_event("i", "go", "").await.expect("raise");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.store.calls("abandon_orchestration_item") >= 3, "1, 2 and 4 s");
    new.shutdown(None).await;
    let old = world.start(old_activity(), changing("Old"), handing_back(10, 2)).await;
    assert_eq!(world.output("i").await, "in");
    old.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn what_no_node_fits_fails_as_nondeterministic_at_the_last_attempt() {
    for max_attempts in [1, 3, 10] {
        let world = World::new();
        begun_by_old_code(&world).await;
        let options = handing_back(max_attempts, 1);
        let expected: Duration =
            (1..max_attempts).map(|attempt| options.unregistered_backoff.delay(attempt)).sum();
        let runtime = world.start(old_activity(), changing("New"), options).await;
        let begun = tokio::time::Instant::now();
        world.client.raise_event("i", "go", "").await.expect("raise");
        let text = world.failure("i").await.display_message();
        assert!(text.starts_with(MISMATCH) && text.contains("deployment.rs:"), "{text}");
        assert_eq!(world.store.calls("abandon_orchestration_item"), u64::from(max_attempts) - 1);
        let elapsed = begun.elapsed();
        assert!(elapsed >= expected && elapsed < expected + Duration::from_secs(1), "{elapsed:?}");
        runtime.shutdown(None).await;
    }
}
