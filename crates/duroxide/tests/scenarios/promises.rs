//! What the documents promise, as programs: payments that are retried, loops that are cancelled, calls that are
//! made first and awaited later.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions, UnregisteredBackoffConfig};
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

/// What the attempts of a payment saw: their key and number.
type Attempts = Arc<Mutex<Vec<(String, u32)>>>;

/// A payment that succeeds at its third attempt.
fn payments(seen: &Attempts) -> ActivityRegistry {
    let seen = seen.clone();
    let pay = move |ctx: ActivityContext, _input: String| {
        let seen = seen.clone();
        async move {
            let mut seen = seen.lock().expect("not poisoned");
            seen.push((ctx.idempotency_key(), ctx.attempt()));
            if seen.len() < 3 { Err("the bank is away".to_string()) } else { Ok("paid".to_string()) }
        }
    };
    ActivityRegistry::builder().register("Pay", pay).build()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_retried_call_survives_a_restart_and_a_redrive() {
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("Order", |ctx: OrchestrationContext, _input: String| async move {
                // Long enough that the second attempt is still to come when the process ends.
                let policy = RetryPolicy::new(5)
                    .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(300) });
                ctx.schedule_activity_with_retry("Pay", "10", policy).await
            })
            .build()
    };
    let seen = Attempts::default();
    let store = store().await;
    let client = Client::new(store.clone());
    let first = Runtime::start_with_store(store.clone(), payments(&seen), orchestrations()).await;
    client.start_orchestration("o", "Order", "").await.expect("a start");
    let begun = Instant::now();
    while seen.lock().expect("not poisoned").is_empty() {
        assert!(begun.elapsed() < LONG, "the first attempt does not run");
        tokio::task::yield_now().await;
    }
    first.shutdown(None).await;

    // A release that forgot the activity: the second attempt is poisoned, and the order with it.
    let options = RuntimeOptions {
        max_attempts: 1,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(1),
        },
        ..RuntimeOptions::default()
    };
    let nothing = ActivityRegistry::builder().build();
    let broken = Runtime::start_with_options(store.clone(), nothing, orchestrations(), options).await;
    let status = client.wait_for_orchestration("o", LONG).await.expect("an end");
    assert!(
        matches!(status, OrchestrationStatus::Failed { details: ErrorDetails::Poison { .. }, .. }),
        "{status:?}"
    );
    broken.shutdown(None).await;

    client.redrive("o").await.expect("it goes on");
    let fixed = Runtime::start_with_store(store, payments(&seen), orchestrations()).await;
    assert_eq!(output(client.wait_for_orchestration("o", LONG).await.expect("an end")), "paid");
    assert_eq!(client.get_instance_info("o").await.expect("the instance").current_execution_id, 2);
    let key = "o:1:2".to_string();
    assert_eq!(*seen.lock().expect("not poisoned"), [(key.clone(), 1), (key.clone(), 2), (key, 3)]);
    fixed.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_value_is_named_with_its_place_and_type_and_not_quoted() {
    let activities = ActivityRegistry::builder()
        .register_typed("Sum", |_ctx: ActivityContext, numbers: Vec<u64>| async move {
            Ok(numbers.iter().sum::<u64>())
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Call", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Sum", input).await
        })
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait_typed::<Vec<u64>>("numbers").await.len().to_string())
        })
        .register_typed(
            "Typed",
            |_ctx: OrchestrationContext, numbers: Vec<u64>| async move { Ok(numbers.len()) },
        )
        .build();
    let store = store().await;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    let wrong = r#"[1, 2, "secret"]"#;
    for (id, orchestration, named) in [
        ("call", "Call", "input of activity 'Sum'"),
        ("wait", "Wait", "data of event 'numbers'"),
        ("typed", "Typed", "input of orchestration 'Typed'"),
    ] {
        client.start_orchestration(id, orchestration, wrong).await.expect("a start");
        client.raise_event(id, "numbers", wrong).await.expect("an event");
        let status = client.wait_for_orchestration(id, LONG).await.expect("an end");
        let OrchestrationStatus::Failed { details, .. } = status else { panic!("{id}: {status:?}") };
        let text = details.display_message();
        for part in [named, "Vec<u64>", "line 1 column 15"] {
            assert!(text.contains(part), "{id}: '{text}' does not name {part}");
        }
        assert!(!text.contains("secret"), "{id}: {text}");
    }
    runtime.shutdown(None).await;
}

/// What a handler may panic with: it panics again when it is dropped.
struct Bomb {
    left: u32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.left > 0 {
            std::panic::panic_any(Bomb { left: self.left - 1 });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_whose_payload_panics_when_it_is_dropped_fails_like_any_other() {
    let activities = ActivityRegistry::builder()
        .register("Explode", |_ctx: ActivityContext, _input: String| async move {
            std::panic::panic_any(Bomb { left: 2 })
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Call", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Explode", "").await
        })
        .register("Explode", |_ctx: OrchestrationContext, _input: String| async move {
            std::panic::panic_any(Bomb { left: 2 })
        })
        .build();
    let store = store().await;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    for (name, text) in [
        ("Call", "activity panicked: the panic carried no text"),
        ("Explode", "orchestration panicked: the panic carried no text"),
    ] {
        client.start_orchestration(name, name, "").await.expect("a start");
        let status = client.wait_for_orchestration(name, LONG).await.expect("an end");
        let OrchestrationStatus::Failed { details, .. } = status else { panic!("{name}: {status:?}") };
        assert_eq!(details.display_message(), text);
    }
    runtime.shutdown(None).await;
}
