//! The same result whatever fails, and a program that depends on luck is found.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use duroxide::prelude::*;
use duroxide::testing::run_test_with;

const APPROVED: EventName<String> = EventName::new("approved");
const HOUR: Duration = Duration::from_secs(3_600);

/// The stock of a shop: reservations by idempotency key, and how many times it was asked.
#[derive(Clone, Default)]
struct Stock {
    reserved: Arc<Mutex<BTreeSet<String>>>,
    failures: Arc<AtomicU32>,
}

async fn reserve(ctx: ActivityContext, line: u32) -> Result<u32> {
    let stock = ctx.state::<Stock>();
    // Lets the process die in the middle.
    tokio::task::yield_now().await;
    stock.reserved.lock().expect("no holder panics").insert(ctx.idempotency_key());
    tokio::task::yield_now().await;
    Ok(line * 10)
}

/// Fails now and then.
async fn pack(ctx: ActivityContext, parcel: String) -> Result<String> {
    if ctx.state::<Stock>().failures.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
        return Err(Failure::from("the tape is empty"));
    }
    Ok(format!("packed {parcel}"))
}

async fn ship(ctx: OrchestrationContext, parcel: String) -> Result<String> {
    ctx.sleep(HOUR).await;
    let backoff = BackoffStrategy::Fixed { delay: Duration::from_secs(1) };
    Ok(ctx.call(pack, parcel).retry(RetryPolicy::new(10).with_backoff(backoff)).await?)
}

/// Parallel calls, an approval with a deadline, a child, retries.
async fn order(ctx: OrchestrationContext, lines: u32) -> Result<String> {
    let reserved = ctx.try_join_all((0..lines).map(|line| ctx.call(reserve, line))).await?;
    let approved = ctx.timeout(24 * HOUR, ctx.wait(APPROVED)).await;
    let Ok(by) = approved else { return Ok("not approved".to_string()) };
    let parcel = format!("{} for {by}", reserved.iter().sum::<u32>());
    Ok(ctx.child(ship, parcel).with_id("parcel").await?)
}

/// How many times a careless activity has counted.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU32>);

/// Counts without its idempotency key: a second attempt counts twice.
async fn count(ctx: ActivityContext, _input: ()) -> Result<u32> {
    Ok(ctx.state::<Counter>().0.fetch_add(1, Ordering::SeqCst) + 1)
}

async fn careless(ctx: OrchestrationContext, times: u32) -> Result<u32> {
    let mut last = 0;
    for _ in 0..times {
        last = ctx.call(count, ()).await?;
    }
    Ok(last)
}

fn program() -> duroxide::Builder {
    TestEnv::builder()
        .discover(false)
        .activity("reserve", reserve)
        .activity("pack", pack)
        .activity("count", count)
        .orchestration("ship", ship)
        .orchestration("order", order)
        .orchestration("careless", careless)
}

#[test]
fn fifty_seeds_of_a_careful_program_give_the_same_result() -> Result<()> {
    let begun = Instant::now();
    run_test_with(program(), |env| async move {
        let stock = Stock::default();
        env.state(stock.clone());
        for env in env.chaos_seeds(0..50) {
            stock.reserved.lock().expect("no holder panics").clear();
            let run = env.start(order, "order-1", 4).await?;
            env.settle().await;
            assert_eq!(run.raise(APPROVED, &"Ann".to_string()).await?, SendOutcome::Delivered);
            assert_eq!(run.result().await?, "packed 60 for Ann");
            assert_eq!(stock.reserved.lock().expect("no holder panics").len(), 4);
            assert_eq!(env.calls(order).len(), 1, "an execution is one call, however often it is replayed");
            run.assert_replays();
            env.handle(ship, "parcel").assert_replays();
            let faults = env.faults();
            assert!(faults["process died"] >= 3, "{faults:?}");
            assert_eq!(faults.len(), 9, "each kind of fault, and deaths: {faults:?}");
        }
        println!("50 seeds took {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        Ok(())
    })
}

#[test]
fn a_deadline_still_passes_in_chaos() -> Result<()> {
    run_test_with(program(), |env| async move {
        env.state(Stock::default());
        for env in env.chaos_seeds(0..10) {
            let run = env.start(order, "order-1", 2).await?;
            env.advance(23 * HOUR).await;
            assert!(matches!(run.status().await?, duroxide::OrchestrationStatus::Running { .. }));
            assert_eq!(run.result().await?, "not approved");
            assert!(env.elapsed() >= 24 * HOUR, "{:?}", env.elapsed());
        }
        Ok(())
    })
}

#[test]
fn an_activity_that_counts_without_its_key_is_found_by_some_seed() -> Result<()> {
    run_test_with(program(), |env| async move {
        let counter = Counter::default();
        env.state(counter.clone());
        let run = env.start(careless, "calm", 10).await?;
        assert_eq!(run.result().await?, 10, "nothing is wrong while nothing fails");
        let mut found = Vec::new();
        for env in env.chaos_seeds(0..50) {
            counter.0.store(0, Ordering::SeqCst);
            let run = env.start(careless, "careless", 10).await?;
            if run.result().await? != 10 {
                found.extend(env.chaos_seed());
            }
        }
        println!("seeds that find it: {found:?}");
        assert!(found.len() >= 5, "{found:?}");
        Ok(())
    })
}

#[test]
fn a_seed_does_the_same_each_time() -> Result<()> {
    run_test_with(program(), |env| async move {
        env.state(Stock::default());
        let mut seen = Vec::new();
        for _ in 0..2 {
            let env = env.chaos(7);
            let run = env.start(order, "order-1", 3).await?;
            run.result().await?;
            seen.push((env.faults(), env.elapsed(), run.history().await?));
        }
        assert_eq!(seen[0], seen[1]);
        Ok(())
    })
}

#[test]
fn time_is_real_again_after_chaos_and_a_panic_in_it_leaves_nothing_behind() {
    let failed = catch_unwind(AssertUnwindSafe(|| {
        run_test_with(program(), |env| async move {
            let env = env.chaos(3);
            assert_eq!(env.chaos_seed(), Some(4), "on purpose");
        });
    }));
    assert!(failed.is_err());
    run_test_with(program(), |env| async move {
        drop(env.chaos(3));
        let (begun, virtual_time) = (Instant::now(), tokio::time::Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        assert!(virtual_time.elapsed() >= Duration::from_millis(20), "tokio's time goes on by itself");
        assert!(begun.elapsed() >= Duration::from_millis(20));
    });
}
