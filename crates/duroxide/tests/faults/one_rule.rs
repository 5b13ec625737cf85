//! What holds for the commit of a turn holds for the ack of an activity: who is charged with a failed try, how often the
//! store is asked, and when the work is let go.

use std::time::Duration;

use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::testing::Method;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};
use tokio::time::Instant;

use crate::common::{Fault, World, activities, options, orchestrations};

/// Two attempts, so that the third one that counts ends the work.
fn two_attempts() -> RuntimeOptions {
    RuntimeOptions { max_attempts: 2, ..options() }
}

fn echo() -> ActivityRegistryBuilder {
    activities().register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
}

fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Calls", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("CallsSoon", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).with_schedule_to_start(Duration::from_secs(10_000)).await
        })
        .register("Reads", |ctx: OrchestrationContext, _input: String| async move {
            let value = ctx.get_kv_value_from_instance("nobody", "key").await?;
            Ok(value.unwrap_or_else(|| "no value".to_string()))
        })
}

/// The call reaches the store only after the lock has ended, which could not be renewed: the first answer to it is that
/// the lock is lost, and the store is at fault.
#[tokio::test(start_paused = true)]
async fn an_attempt_whose_lock_could_not_be_renewed_before_its_first_ack_does_not_count() {
    const ROUNDS: usize = 6;
    let late = |secs| Fault::DelayBefore(Duration::from_secs(secs));
    let turn = (Method::AckTurn, Method::RenewTurn, late(7));
    let work = (Method::AckWork, Method::RenewWork, late(40));
    for (ack, renew, late) in [turn, work] {
        let world = World::new();
        world.store.plan(ack, [late; ROUNDS]);
        world.store.plan(renew, vec![Fault::FailBefore; 1_000]);
        let runtime = world.start(echo(), programs(), two_attempts()).await;
        world.client.start_orchestration("i", "Calls", "x").await.expect("start");
        assert_eq!(world.output("i").await, "x", "{ack:?}");
        assert!(world.store.calls(ack) > 3, "{ack:?}: more often than max_attempts");
        runtime.shutdown(None).await;
    }
}

/// The turn asks the store for a value, the activity must say that it begins: neither gets that far, and the store does not
/// take it back either.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_store_stops_before_its_ack_does_not_count() {
    let turn = ("Reads", Method::KvValue, Method::AbandonTurn, Method::RenewTurn, "no value");
    let work = ("CallsSoon", Method::Enqueue, Method::AbandonWork, Method::RenewWork, "x");
    for (program, asked, give_back, renew, output) in [turn, work] {
        let world = World::new();
        world.client.start_orchestration("i", program, "x").await.expect("start");
        // A lock that is not renewed ends within a minute, and so do three attempts of each kind within an hour.
        let (runtime, link) = world.start_apart(echo(), programs(), two_attempts()).await;
        link.plan(asked, [Fault::FailBefore; 200]);
        link.plan(give_back, [Fault::FailBefore; 20]);
        link.plan(renew, vec![Fault::FailBefore; 2_000]);
        assert_eq!(world.output("i").await, output, "{program}");
        assert!(link.calls(asked) > 3 * 10, "{program}: more often than max_attempts");
        runtime.shutdown(None).await;
    }
}

/// `Invalid` says that the store never will: another try of the same rows is a call for nothing.
#[tokio::test(start_paused = true)]
async fn what_the_store_will_never_accept_is_sent_once() {
    let world = World::new();
    world.store.refuse_rows_above("i", 5_000);
    let doubles = activities()
        .register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input.repeat(2)) });
    let runtime = world.start(doubles, programs(), options()).await;
    world.client.start_orchestration("i", "Calls", "x".repeat(3_000)).await.expect("start");
    let failure = world.failure("i").await.display_message();
    assert!(failure.contains("the store does not accept the result"), "{failure}");
    assert_eq!(world.store.calls(Method::AckWork), 2, "the result, and the failure instead of it");
    runtime.shutdown(None).await;
}

/// A store that is broken may be mended; until then the work is left alone for a while, uncounted.
#[tokio::test(start_paused = true)]
async fn work_that_the_store_refuses_three_times_is_let_go() {
    let turn = ("Calls", Method::AckTurn, Method::AbandonTurn);
    let result = ("Calls", Method::AckWork, Method::AbandonWork);
    let note = ("CallsSoon", Method::Enqueue, Method::AbandonWork);
    for (program, refused, give_back) in [turn, result, note] {
        let world = World::new();
        let (runtime, link) = world.start_apart(echo(), programs(), options()).await;
        link.plan(refused, [Fault::Refuse; 3]);
        world.client.start_orchestration("i", program, "x").await.expect("start");
        assert_eq!(world.output("i").await, "x", "{refused:?}");
        let given_back = link.given_back(give_back);
        let [once] = &given_back[..] else { panic!("{refused:?}: {given_back:?}") };
        assert!(once.ignore_attempt, "{refused:?}: {once:?}");
        assert_eq!(once.delay, Some(options().unregistered_backoff.max_delay), "{refused:?}");
        runtime.shutdown(None).await;
    }
}

/// Another node has the work by then, so that no further try can succeed.
#[tokio::test(start_paused = true)]
async fn a_lock_that_the_store_says_is_lost_ends_the_tries() {
    for (ack, renew) in [(Method::AckTurn, Method::RenewTurn), (Method::AckWork, Method::RenewWork)] {
        let world = World::new();
        // With one slot the node does not take the work over from itself.
        let one_slot = RuntimeOptions { orchestration_concurrency: 1, worker_concurrency: 1, ..options() };
        let (first, link) = world.start_apart(echo(), programs(), one_slot).await;
        link.plan(ack, vec![Fault::FailBefore; 10_000]);
        // Until the lock has ended.
        link.plan(renew, [Fault::FailBefore; 20]);
        world.client.start_orchestration("i", "Calls", "x").await.expect("start");
        while link.calls(ack) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let process = ProcessScope::simulated(2);
        let second = world.start(echo(), programs(), RuntimeOptions { process, ..options() }).await;
        assert_eq!(world.output("i").await, "x", "{ack:?}");
        // The next renewal, and the longest backoff.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let tried = link.calls(ack);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(link.calls(ack), tried, "{ack:?}: no try after the lock was lost");
        first.shutdown(None).await;
        second.shutdown(None).await;
    }
}

/// A panic of the store's code is no death of the process: nothing waits for the lock to expire.
#[tokio::test(start_paused = true)]
async fn work_whose_ack_panics_in_the_store_is_given_back_at_once() {
    for ack in [Method::AckTurn, Method::AckWork] {
        let world = World::new();
        world.store.plan(ack, [Fault::Panic; 2]);
        let runtime = world.start(echo(), programs(), options()).await;
        let begun = Instant::now();
        world.client.start_orchestration("i", "Calls", "x").await.expect("start");
        assert_eq!(world.output("i").await, "x", "{ack:?}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{ack:?}: after {:?}", begun.elapsed());
        runtime.shutdown(None).await;
    }
}
