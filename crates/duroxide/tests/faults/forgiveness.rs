//! A grave suspect that has passed its probation is to be forgiven the attempt, and the store does not do so at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::process::ProcessScope;
use duroxide::testing::Method;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tokio::time::Instant;

use crate::common::{Fault, Faulty, World, activities, options, orchestrations};

/// How long an activity takes: much longer than a probation.
const WORK: Duration = Duration::from_secs(3_000);
/// The first probation of a grave suspect.
const PROBATION: Duration = Duration::from_secs(600);
/// How long the store may take to answer at last, with the backoff between.
const RETRIES: Duration = Duration::from_secs(200);

type Begun = Arc<Mutex<Vec<Instant>>>;

async fn life(world: &World, number: u64, begun: &Begun) -> (Arc<Runtime>, Arc<Faulty>) {
    let link = Arc::new(Faulty::new(world.memory.clone()));
    let noted = begun.clone();
    let acts = activities().register("Long", move |_: ActivityContext, _: String| {
        noted.lock().expect("no panic under it").push(Instant::now());
        async {
            tokio::time::sleep(WORK).await;
            Ok("done".to_string())
        }
    });
    let orchs = orchestrations().register("Long", |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Long", "").await
    });
    let options = RuntimeOptions { process: ProcessScope::simulated(number), ..options() };
    let runtime = Runtime::start_with_options(link.clone(), acts.build(), orchs.build(), options).await;
    (runtime, link)
}

async fn both_begun(begun: &Begun) {
    while begun.lock().expect("no panic under it").len() < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Two activities that were in so many processes that died that each has to run alone for a while; how long after the
/// first one the second one begins if forgiving fails in this way, and how often the store was asked.
async fn second_begins_after(faults: impl IntoIterator<Item = Fault>) -> (Duration, u64) {
    let world = World::new();
    for instance in ["one", "two"] {
        world.client.start_orchestration(instance, "Long", "").await.expect("start");
    }
    for number in 0..4 {
        let begun = Begun::default();
        let (runtime, link) = life(&world, number, &begun).await;
        both_begun(&begun).await;
        link.freeze();
        runtime.kill();
        runtime.wait_until_ended().await;
    }
    let begun = Begun::default();
    let (runtime, link) = life(&world, 100, &begun).await;
    link.plan(Method::ForgiveAttempt, faults);
    both_begun(&begun).await;
    let asked = link.calls(Method::ForgiveAttempt);
    for instance in ["one", "two"] {
        assert_eq!(world.output(instance).await, "done");
    }
    runtime.shutdown(None).await;
    let begun = begun.lock().expect("no panic under it").clone();
    assert_eq!(begun.len(), 2, "each runs once in this life");
    (begun[1].duration_since(begun[0]), asked)
}

#[tokio::test(start_paused = true)]
async fn a_forgiveness_that_fails_is_asked_for_again_until_the_store_has_it() {
    let (after, asked) = second_begins_after([]).await;
    assert_eq!(asked, 1);
    assert!(after >= PROBATION && after < PROBATION + RETRIES, "{after:?}");
    let hangs = Fault::DelayBefore(Duration::from_secs(100_000));
    for fault in [Fault::FailBefore, Fault::LoseAnswer, hangs] {
        let (after, asked) = second_begins_after(vec![fault; 3]).await;
        assert_eq!(asked, 4, "{fault:?}: three times in vain");
        assert!(after >= PROBATION && after < PROBATION + RETRIES, "{fault:?}: {after:?}");
    }
}

/// Otherwise the next one, which may be the killer, would charge it with more than half of its attempts.
#[tokio::test(start_paused = true)]
async fn what_the_store_refuses_to_forgive_keeps_its_place_to_its_end() {
    let (after, asked) = second_begins_after([Fault::Refuse]).await;
    assert_eq!(asked, 1);
    assert!(after >= WORK && after < WORK + RETRIES, "{after:?}");
}
