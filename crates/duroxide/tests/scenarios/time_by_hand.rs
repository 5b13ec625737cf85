//! A program with timers of an hour, tested on a clock that the test moves, with the options that users begin with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

const HOURS: u64 = 20;
const HOUR: Duration = Duration::from_secs(60 * 60);
const PATIENCE: Duration = Duration::from_secs(10);
const BEGIN_MS: u64 = 1_700_000_000_000;

async fn hours_pass(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    for hour in 0..HOURS {
        ctx.set_custom_status(hour.to_string());
        ctx.schedule_timer(HOUR).await;
    }
    Ok("the day is over".to_string())
}

/// Moves the clock by an hour whenever the program has set its next timer. How long that took.
async fn advance_until_it_has_ended(clock: &ManualClock, store: Arc<dyn Provider>) -> Duration {
    let orchestrations = OrchestrationRegistry::builder().register("Hours", hours_pass).build();
    let runtime =
        Runtime::start_with_store(store.clone(), ActivityRegistry::builder().build(), orchestrations).await;
    let client = Client::new(store);
    let began = Instant::now();
    client.start_orchestration("day", "Hours", "").await.expect("started");
    let advancing = async {
        for seen in 0..HOURS {
            let next = client.wait_for_status_change("day", seen, Duration::from_millis(50), PATIENCE);
            next.await.expect("the timer before has fired");
            clock.advance(HOUR);
        }
    };
    let (status, ()) = futures::join!(client.wait_for_orchestration("day", PATIENCE), advancing);
    let took = began.elapsed();
    let OrchestrationStatus::Completed { output, .. } = status.expect("ended") else {
        panic!("not completed")
    };
    assert_eq!(output, "the day is over");
    runtime.shutdown(None).await;
    took
}

#[tokio::test]
async fn twenty_timers_of_an_hour_take_no_real_time_on_a_manual_clock_and_the_store_in_memory() {
    let clock = Arc::new(ManualClock::new(BEGIN_MS));
    let store = Arc::new(MemoryProvider::with_clock(clock.clone()));
    let took = advance_until_it_has_ended(&clock, store).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn twenty_timers_of_an_hour_take_no_real_time_on_a_manual_clock_and_sqlite() {
    let clock = Arc::new(ManualClock::new(BEGIN_MS));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let directory = tempfile::tempdir().expect("a directory can be made");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let store = SqliteProvider::new(&url, Some(options)).await.expect("opened");
    let took = advance_until_it_has_ended(&clock, Arc::new(store)).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
}
