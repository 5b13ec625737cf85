//! Retries, custom status, KV store and size, through a whole runtime on every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::limits::{
    MAX_CUSTOM_STATUS_BYTES, MAX_KV_KEY_BYTES, MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_TAG_NAME_BYTES,
};
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, ClientError, OrchestrationContext,
    OrchestrationRegistryBuilder, OrchestrationStatus, RetryPolicy, SystemStats,
};

use crate::common::{Fault, Faulty, World, activities, options, orchestrations};

const LONG: Duration = Duration::from_secs(60);

/// An activity that fails `failures` times and then succeeds.
fn flaky(failures: u32) -> ActivityRegistryBuilder {
    let runs = Arc::new(AtomicU32::new(0));
    activities().register("Flaky", move |_ctx: ActivityContext, _input: String| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { if run > failures { Ok(format!("run {run}")) } else { Err(format!("no {run}")) } }
    })
}

fn retrying(policy: RetryPolicy) -> OrchestrationRegistryBuilder {
    orchestrations().register("Retry", move |ctx: OrchestrationContext, _input: String| {
        let policy = policy.clone();
        async move { ctx.schedule_activity_with_retry("Flaky", "", policy).await }
    })
}

#[tokio::test(start_paused = true)]
async fn retries_wait_as_the_policy_says_and_survive_a_deployment_with_another_policy() {
    let world = World::new();
    let hour = Duration::from_secs(3600);
    let patient = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed { delay: hour });
    let runtime = world.start(flaky(9), retrying(patient), options()).await;
    let began = tokio::time::Instant::now();
    world.client.start_orchestration("r", "Retry", "").await.expect("start");
    while world.client.read_execution_history("r", 1).await.map_or(0, |history| history.len()) < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runtime.shutdown(None).await;
    let hasty = RetryPolicy::new(1).with_backoff(BackoffStrategy::None);
    let runtime = world.start(flaky(1), retrying(hasty), options()).await;
    assert_eq!(world.output("r").await, "run 2");
    assert!(began.elapsed() >= 2 * hour, "after {:?}", began.elapsed());
    world.client.start_orchestration("new", "Retry", "").await.expect("start");
    assert_eq!(world.output("new").await, "run 3", "one attempt was enough");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_given_up_and_not_retried() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let slow = activities().register("Flaky", move |ctx: ActivityContext, _input: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.cancelled().await;
            Ok(String::new())
        }
    });
    let policy = RetryPolicy::new(5).with_timeout(Duration::from_secs(20));
    let runtime = world.start(slow, retrying(policy), options()).await;
    world.client.start_orchestration("r", "Retry", "").await.expect("start");
    assert_eq!(world.failure("r").await.display_message(), "timeout: activity timed out");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    runtime.shutdown(None).await;
}

fn violating() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Violate", |ctx: OrchestrationContext, what: String| async move {
            match what.as_str() {
                "status" => ctx.set_custom_status("x".repeat(MAX_CUSTOM_STATUS_BYTES + 1)),
                "tag" => {
                    return ctx.schedule_activity("A", "").with_tag("t".repeat(MAX_TAG_NAME_BYTES + 1)).await;
                }
                "key" => ctx.set_kv_value("k".repeat(MAX_KV_KEY_BYTES + 1), ""),
                "value" => ctx.set_kv_value("k", "x".repeat(MAX_KV_VALUE_BYTES + 1)),
                _ => (0..=MAX_KV_KEYS).for_each(|n| ctx.set_kv_value(n.to_string(), "")),
            }
            ctx.schedule_wait("never").await;
            Ok(String::new())
        })
        .register("Parent", |ctx: OrchestrationContext, what: String| async move {
            let told = ctx.schedule_sub_orchestration_with_id("Violate", format!("child-{what}"), what).await;
            Ok(format!("{told:?}"))
        })
}

#[tokio::test(start_paused = true)]
async fn a_limit_violation_in_a_child_tells_its_parent_once() {
    let world = World::new();
    let runtime = world.start(activities(), violating(), options()).await;
    for (what, text) in [
        ("status", "Custom status size (262145 bytes) exceeds limit (262144 bytes)"),
        ("tag", "Activity 'A' tag size (257 bytes) exceeds limit (256 bytes)"),
        ("key", "KV key size (1025 bytes) exceeds limit (1024 bytes)"),
        ("value", "KV value for key 'k' (1048577 bytes) exceeds limit (1048576 bytes)"),
        ("keys", "KV key count (10001) exceeds limit (10000)"),
    ] {
        world.client.start_orchestration(what, "Parent", what).await.expect("start");
        assert_eq!(world.output(what).await, format!("{:?}", Err::<String, _>(text)));
        let details = world.failure(&format!("child-{what}")).await;
        let duroxide::ErrorDetails::Application { kind, retryable, .. } = &details else {
            panic!("{details:?}")
        };
        assert_eq!((kind, *retryable), (&duroxide::AppErrorKind::OrchestrationFailed, false));
        let child = format!("child-{what}");
        let history = world.client.read_execution_history(&child, 1).await.expect("history");
        assert_eq!(history.iter().filter(|event| event.is_terminal()).count(), 1);
        let parent = world.client.read_execution_history(what, 1).await.expect("history");
        assert_eq!(parent.iter().filter(|event| event.source_event_id() == Some(2)).count(), 1);
    }
    runtime.shutdown(None).await;
}

fn aging() -> OrchestrationRegistryBuilder {
    orchestrations().register("Age", |ctx: OrchestrationContext, _input: String| async move {
        let hour = Duration::from_secs(3600);
        for n in 0..4 {
            ctx.set_kv_value(format!("k{n}"), n.to_string());
            ctx.schedule_timer(hour).await;
        }
        let now = ctx.utc_now().await?;
        let since = now.duration_since(std::time::UNIX_EPOCH).map_err(|error| error.to_string())? - 2 * hour;
        let limit = u64::try_from(since.as_millis()).map_err(|error| error.to_string())? - 1_000;
        let pruned = ctx.prune_kv_values_updated_before(limit);
        ctx.schedule_wait("end").await;
        Ok(format!("{pruned} {:?}", ctx.get_kv_all_keys()))
    })
}

/// Every turn is replayed, by a runtime that was started at another time.
#[tokio::test(start_paused = true)]
async fn kv_stamps_are_recorded_and_replay_reads_neither_a_clock_nor_a_hash_order() {
    let world = World::new();
    world.client.start_orchestration("a", "Age", "").await.expect("start");
    for key in ["k0", "k1", "k2", "k3"] {
        let runtime = world.start(activities(), aging(), options()).await;
        world.client.wait_for_kv_value("a", key, 10 * LONG * 60).await.expect("it is set");
        runtime.shutdown(None).await;
    }
    let runtime = world.start(activities(), aging(), options()).await;
    world.client.raise_event("a", "end", "").await.expect("raise");
    assert_eq!(world.output("a").await, r#"2 ["k2", "k3"]"#);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_while_a_program_reads_another_instance_fails_nobody() {
    let world = World::new();
    let reading = orchestrations()
        .register("Set", |ctx: OrchestrationContext, value: String| async move {
            ctx.set_kv_value("k", value);
            Ok(String::new())
        })
        .register("Read", |ctx: OrchestrationContext, _input: String| async move {
            Ok(format!("{:?}", ctx.get_kv_value_from_instance("set", "k").await?))
        });
    let runtime = world.start(activities(), reading, options()).await;
    world.client.start_orchestration("set", "Set", "there").await.expect("start");
    world.output("set").await;
    // So many that the instance is given back more often than it has attempts.
    world.store.plan("get_kv_value", std::iter::repeat_n(Fault::FailBefore, 250));
    world.client.start_orchestration("read", "Read", "").await.expect("start");
    assert_eq!(world.output("read").await, r#"Some("there")"#);
    assert_eq!(world.store.calls("get_kv_value"), 251);
    assert!(world.store.calls("abandon_orchestration_item") > 10, "given back uncounted");
    runtime.shutdown(None).await;
}

fn stateful() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Count", |ctx: OrchestrationContext, input: String| async move {
            let left: u64 = input.parse().map_err(|_| "a number".to_string())?;
            ctx.set_custom_status(format!("{left} left"));
            ctx.dequeue_event("go").await;
            let count: u64 = ctx.get_kv_value_typed("count")?.unwrap_or(0);
            ctx.set_kv_value_typed("count", &(count + 1));
            if left > 0 {
                ctx.continue_as_new((left - 1).to_string()).await?;
            }
            Ok(format!("{} {:?}", count + 1, ctx.get_custom_status()))
        })
        .register("Read", |ctx: OrchestrationContext, from: String| async move {
            let count: Option<u64> = ctx.get_kv_value_from_instance_typed(from, "count").await?;
            let nobody = ctx.get_kv_value_from_instance("nobody", "count").await?;
            Ok(format!("{count:?} {nobody:?}"))
        })
}

async fn stores() -> Vec<(Arc<dyn Provider>, Option<tempfile::TempDir>)> {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let file = SqliteProvider::new(&url, None).await.expect("the file opens");
    let plain = SqliteProvider::new_in_memory().await.expect("a store in memory opens");
    vec![
        (Arc::new(MemoryProvider::new()), None),
        (Arc::new(file), Some(directory)),
        (Arc::new(Faulty::new(Arc::new(MemoryProvider::new())).plain()), None),
        (Arc::new(Faulty::new(Arc::new(plain)).plain()), None),
    ]
}

fn version(status: &OrchestrationStatus) -> u64 {
    let OrchestrationStatus::Running { custom_status_version, .. } = status else { panic!("{status:?}") };
    *custom_status_version
}

#[tokio::test]
async fn custom_status_and_kv_survive_continue_as_new_and_waits_are_woken_on_every_store() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        let runtime = Runtime::start_with_store(store, activities().build(), stateful().build()).await;
        let mut early = {
            let client = client.clone();
            tokio::spawn(async move { client.wait_for_kv_value_typed::<u64>("c", "count", LONG).await })
        };
        client.start_orchestration("c", "Count", "2").await.expect("start");
        let mut seen = 0;
        for round in 1..=3 {
            // The poll interval is far longer than the test may take: the store wakes the wait.
            let status = client.wait_for_status_change("c", seen, LONG, LONG).await.expect("it changes");
            seen = version(&status);
            assert_eq!(seen, round, "the version goes on counting in the next execution");
            client.enqueue_event("c", "go", "").await.expect("enqueue");
            if round == 1 {
                // The value stays 1 until the next message is sent.
                assert_eq!((&mut early).await.expect("no panic").expect("woken"), 1);
            }
        }
        let ended = client.wait_for_orchestration("c", LONG).await.expect("it ends");
        let OrchestrationStatus::Completed { output, custom_status, custom_status_version } = &ended else {
            panic!("{ended:?}")
        };
        assert_eq!(output, r#"3 Some("0 left")"#);
        assert_eq!((custom_status.as_deref(), *custom_status_version), (Some("0 left"), 3));
        let after = client.wait_for_status_change("c", 3, LONG, LONG).await.expect("it has ended");
        assert_eq!(after, ended, "nothing changes after the end");

        assert_eq!(client.get_kv_value("c", "count").await.expect("read").as_deref(), Some("3"));
        assert_eq!(client.get_kv_value_typed::<u64>("c", "count").await.expect("read"), Some(3));
        assert_eq!(client.get_kv_all_values("c").await.expect("read").len(), 1);
        let wrong = client.get_kv_value_typed::<bool>("c", "count").await;
        assert!(
            matches!(&wrong, Err(ClientError::InvalidInput { message }) if message.starts_with("KV deserialization error")),
            "{wrong:?}"
        );
        let none = client.wait_for_kv_value("c", "absent", Duration::from_millis(1)).await;
        assert!(matches!(none, Err(ClientError::Timeout)), "{none:?}");

        client.start_orchestration("r", "Read", "c").await.expect("start");
        let read = client.wait_for_orchestration_typed::<String>("r", LONG).await.expect("it ends");
        assert_eq!(read.as_deref(), Ok("Some(3) None"));
        let history = client.read_execution_history("r", 1).await.expect("history");
        assert_eq!(history.len(), 6, "two questions with their answers, in one turn");
        assert_eq!(history[0].timestamp_ms, history[5].timestamp_ms);
        runtime.shutdown(None).await;
    }
}

#[tokio::test]
async fn the_size_of_an_instance_is_real_on_every_store() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        let sizing =
            orchestrations().register("Size", |ctx: OrchestrationContext, _input: String| async move {
                ctx.set_kv_value("a", "12");
                ctx.set_kv_value("b", "345");
                ctx.schedule_wait("go").await;
                let stats = ctx.get_system_stats().ok_or("no stats")?;
                ctx.set_custom_status(stats.history_size_bytes.to_string());
                ctx.schedule_wait("go").await;
                Ok(format!("{stats:?}"))
            });
        let runtime = Runtime::start_with_store(store, activities().build(), sizing.build()).await;
        client.start_orchestration("s", "Size", "").await.expect("start");
        client.wait_for_kv_value("s", "b", LONG).await.expect("set");
        let before = client.get_orchestration_stats("s").await.expect("read").expect("it exists");
        assert_eq!(
            (before.history_event_count, before.kv_user_key_count, before.kv_total_value_bytes),
            (4, 2, 5)
        );
        client.raise_event("s", "go", "").await.expect("raise");
        client.wait_for_status_change("s", 0, LONG, LONG).await.expect("it changes");
        client.raise_event("s", "go", "").await.expect("raise");
        let seen =
            client.wait_for_orchestration_typed::<String>("s", LONG).await.expect("it ends").expect("output");
        let history = client.read_execution_history("s", 1).await.expect("history");
        let bytes: usize =
            history.iter().take(5).map(|event| serde_json::to_string(event).expect("JSON").len()).sum();
        let expected = SystemStats {
            history_event_count: 5,
            history_size_bytes: u64::try_from(bytes).expect("small"),
            queue_pending_count: 0,
            kv_user_key_count: 2,
            kv_total_value_bytes: 5,
        };
        assert_eq!(seen, format!("{expected:?}"));
        assert_eq!(client.get_orchestration_stats("nobody").await.expect("read"), None);
        runtime.shutdown(None).await;
    }
}

#[tokio::test]
async fn messages_carried_by_continue_as_new_are_pending_until_they_are_read() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        let reading =
            orchestrations().register("Read", |ctx: OrchestrationContext, input: String| async move {
                if input.is_empty() {
                    ctx.schedule_wait("go").await;
                    return ctx.continue_as_new("again").await;
                }
                let seen = |ctx: &OrchestrationContext| {
                    ctx.get_system_stats().map(|stats| stats.queue_pending_count)
                };
                ctx.set_custom_status(format!("{:?}", seen(&ctx)));
                ctx.schedule_wait("go").await;
                ctx.dequeue_event("q").await;
                ctx.set_custom_status("read one");
                ctx.schedule_wait("go").await;
                Ok(format!("{:?}", seen(&ctx)))
            });
        let runtime = Runtime::start_with_store(store, activities().build(), reading.build()).await;
        client.start_orchestration("r", "Read", "").await.expect("start");
        for message in ["1", "2", "3"] {
            client.enqueue_event("r", "q", message).await.expect("enqueue");
        }
        client.raise_event("r", "go", "").await.expect("raise");
        let status = client.wait_for_status_change("r", 0, LONG, LONG).await.expect("it changes");
        assert!(matches!(&status, OrchestrationStatus::Running { custom_status, .. }
            if custom_status.as_deref() == Some("Some(3)")));
        let pending = async || {
            let stats = client.get_orchestration_stats("r").await.expect("read").expect("it exists");
            stats.queue_pending_count
        };
        assert_eq!(pending().await, 3, "carried");
        client.raise_event("r", "go", "").await.expect("raise");
        client.wait_for_status_change("r", 1, LONG, LONG).await.expect("it changes");
        assert_eq!(pending().await, 2, "one was read");
        client.raise_event("r", "go", "").await.expect("raise");
        let seen = client.wait_for_orchestration_typed::<String>("r", LONG).await.expect("it ends");
        assert_eq!(seen.as_deref(), Ok("Some(2)"));
        runtime.shutdown(None).await;
    }
}
