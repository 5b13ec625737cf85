//! What the documents promise, as programs: payments that are retried, loops that are cancelled, calls that are
//! made first and awaited later.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, AppErrorKind, BackoffStrategy, Client, ErrorDetails, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus, RetryPolicy,
};

const LONG: Duration = Duration::from_secs(20);

async fn store() -> Arc<SqliteProvider> {
    Arc::new(SqliteProvider::new_in_memory().await.expect("a store in memory"))
}

fn quick(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::new(max_attempts).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(5) })
}

fn output(status: OrchestrationStatus) -> String {
    let OrchestrationStatus::Completed { output, .. } = status else { panic!("not completed: {status:?}") };
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_of_a_retried_call_has_the_same_key_and_the_next_number() {
    type Seen = Arc<Mutex<Vec<(String, u32)>>>;
    let seen: Seen = Arc::default();
    let of_activity = seen.clone();
    let activities = ActivityRegistry::builder()
        .register("Pay", move |ctx: ActivityContext, _input: String| {
            let seen = of_activity.clone();
            async move {
                let mut seen = seen.lock().expect("not poisoned");
                seen.push((ctx.idempotency_key(), ctx.attempt()));
                if seen.len() < 4 { Err("the bank is away".to_string()) } else { Ok("paid".to_string()) }
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity_with_retry("Pay", "10", quick(5)).await
        })
        .build();
    let store = store().await;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("o", "Order", "").await.expect("a start");
    assert_eq!(output(client.wait_for_orchestration("o", LONG).await.expect("an end")), "paid");
    let seen = seen.lock().expect("not poisoned").clone();
    let key = "o:1:2".to_string();
    assert_eq!(seen, [(key.clone(), 1), (key.clone(), 2), (key.clone(), 3), (key, 4)]);
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_calls_that_are_made_first_and_awaited_later_run_side_by_side() {
    let running = Arc::new(tokio::sync::Barrier::new(2));
    let activities = ActivityRegistry::builder()
        .register("Meet", move |_ctx: ActivityContext, name: String| {
            let running = running.clone();
            // Ends only if both run at the same time.
            async move {
                running.wait().await;
                Ok(name)
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Two", |ctx: OrchestrationContext, _input: String| async move {
            let first = ctx.schedule_activity_with_retry("Meet", "first", quick(3));
            let second = ctx.schedule_activity_with_retry("Meet", "second", quick(3));
            Ok(format!("{} {}", first.await?, second.await?))
        })
        .build();
    let store = store().await;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("two", "Two", "").await.expect("a start");
    let status = client.wait_for_orchestration("two", Duration::from_secs(5)).await.expect("an end");
    assert_eq!(output(status), "first second");
    runtime.shutdown(None).await;
}

fn cancelled_with(status: &OrchestrationStatus) -> Option<&str> {
    if let OrchestrationStatus::Failed {
        details: ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. },
        ..
    } = status
    {
        Some(reason)
    } else {
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_never_waits_is_cancelled() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Spin", |ctx: OrchestrationContext, input: String| async move {
            ctx.continue_as_new(input).await
        })
        .build();
    let store = store().await;
    let runtime =
        Runtime::start_with_store(store.clone(), ActivityRegistry::builder().build(), orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("spin", "Spin", "").await.expect("a start");
    let begun = Instant::now();
    while client.get_instance_info("spin").await.expect("the instance").current_execution_id < 5 {
        assert!(begun.elapsed() < LONG, "the loop does not run");
        tokio::task::yield_now().await;
    }
    client.cancel_instance("spin", "enough").await.expect("a cancel");
    let status = client.wait_for_orchestration("spin", Duration::from_secs(5)).await.expect("an end");
    assert_eq!(cancelled_with(&status), Some("enough"), "{status:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_cancelled_before_its_first_turn_never_runs() {
    let ran = Arc::new(Mutex::new(false));
    let of_program = ran.clone();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Greet", move |_ctx: OrchestrationContext, _input: String| {
            *of_program.lock().expect("not poisoned") = true;
            async move { Ok("hello".to_string()) }
        })
        .build();
    let store = store().await;
    let client = Client::new(store.clone());
    client.start_orchestration("greet", "Greet", "").await.expect("a start");
    client.cancel_instance("greet", "changed my mind").await.expect("a cancel");
    let runtime = Runtime::start_with_store(store, ActivityRegistry::builder().build(), orchestrations).await;
    let status = client.wait_for_orchestration("greet", LONG).await.expect("an end");
    assert_eq!(cancelled_with(&status), Some("changed my mind"), "{status:?}");
    assert!(!*ran.lock().expect("not poisoned"), "the program ran");
    runtime.shutdown(None).await;
}
