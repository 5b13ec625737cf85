//! What an activity knows of itself, the progress it reports, and the workers that its tag leads to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::runtime::limits::MAX_PROGRESS_BYTES;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, Either2, HeartbeatError, OrchestrationContext, OrchestrationRegistryBuilder,
    RuntimeOptions, TagFilter,
};
use tokio::sync::Notify;

use crate::common::{World, activities, options, orchestrations};

fn node(seed: u64) -> RuntimeOptions {
    RuntimeOptions { process: ProcessScope::simulated(seed), ..options() }
}

fn accepting(seed: u64, tags: TagFilter) -> RuntimeOptions {
    RuntimeOptions { worker_tag_filter: tags, ..node(seed) }
}

/// What each attempt saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    attempt: u32,
    activity_id: u64,
    key: String,
    progress: Option<String>,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    reported: Notify,
}

/// Reports progress; hangs at its first attempt and ends at the next.
fn stumbling(log: &Arc<Log>) -> ActivityRegistryBuilder {
    let log = log.clone();
    activities().register("Stumble", move |ctx: ActivityContext, input: String| {
        let log = log.clone();
        async move {
            log.seen.lock().expect("nobody panics under it").push(Seen {
                attempt: ctx.attempt(),
                activity_id: ctx.activity_id(),
                key: ctx.idempotency_key(),
                progress: ctx.last_progress().map(str::to_string),
            });
            if ctx.attempt() == 1 {
                ctx.heartbeat("row 1").await.expect("recorded");
                ctx.heartbeat("row 2").await.expect("recorded");
                log.reported.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(format!("{input} after {}", ctx.last_progress().unwrap_or("nothing")))
        }
    })
}

fn calling(name: &'static str) -> OrchestrationRegistryBuilder {
    orchestrations().register("Call", move |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity(name, input).await
    })
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_reads_what_the_last_one_reported_and_keeps_its_key() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let first = world.start(stumbling(&log), calling("Stumble"), node(1)).await;
    world.client.start_orchestration("i", "Call", "done").await.expect("start");
    log.reported.notified().await;
    first.kill();
    let second = world.start(stumbling(&log), calling("Stumble"), node(2)).await;
    assert_eq!(world.output("i").await, "done after row 2");
    let seen = log.seen.lock().expect("nobody panics under it").clone();
    let saw = |attempt, progress: Option<&str>| Seen {
        attempt,
        activity_id: 2,
        key: "i:1:2".to_string(),
        progress: progress.map(str::to_string),
    };
    assert_eq!(seen, [saw(1, None), saw(2, Some("row 2"))]);
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_progress_runs_the_activity_all_the_same() {
    let world = World::with(crate::common::Faulty::plain);
    let log = Arc::new(Log::default());
    let first = world.start(stumbling(&log), calling("Stumble"), node(1)).await;
    world.client.start_orchestration("i", "Call", "done").await.expect("start");
    log.reported.notified().await;
    first.kill();
    let second = world.start(stumbling(&log), calling("Stumble"), node(2)).await;
    assert_eq!(world.output("i").await, "done after nothing");
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_tells_of_cancellation_and_refuses_what_is_too_large() {
    let world = World::new();
    let (told, wait) = tokio::sync::mpsc::unbounded_channel();
    let mut wait = wait;
    let acts = activities().register("Beat", move |ctx: ActivityContext, _input: String| {
        let told = told.clone();
        async move {
            let largest = "x".repeat(MAX_PROGRESS_BYTES);
            ctx.heartbeat(largest.clone()).await.expect("at the limit");
            let refused = ctx.heartbeat(largest + "x").await;
            assert!(matches!(refused, Err(HeartbeatError::TooLarge { .. })), "{refused:?}");
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if let Err(error) = ctx.heartbeat("on").await {
                    told.send((error, ctx.is_cancelled())).expect("the test waits");
                    return Ok(String::new());
                }
            }
        }
    });
    let orchs = orchestrations().register("Drop", |ctx: OrchestrationContext, _input: String| async move {
        let beat = ctx.schedule_activity("Beat", "");
        match ctx.select2(beat, ctx.schedule_timer(Duration::from_secs(5))).await {
            Either2::First(_) => Err("it never ends".to_string()),
            Either2::Second(()) => Ok("dropped".to_string()),
        }
    });
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("i", "Drop", "").await.expect("start");
    let (error, cancelled) = wait.recv().await.expect("the activity tells");
    assert!(matches!(error, HeartbeatError::Cancelled), "{error:?}");
    assert!(cancelled);
    assert_eq!(world.output("i").await, "dropped");
    runtime.shutdown(None).await;
}

/// Tells which worker ran it, and with which tag.
fn telling(name: &'static str) -> ActivityRegistryBuilder {
    activities().register("Where", move |ctx: ActivityContext, _input: String| async move {
        Ok(format!("{name} {}", ctx.tag().unwrap_or("-")))
    })
}

/// Calls `Where` once for each tag in the input, `-` for none.
fn routed() -> OrchestrationRegistryBuilder {
    orchestrations().register("Route", |ctx: OrchestrationContext, input: String| async move {
        let calls = input.split(' ').map(|tag| {
            let call = ctx.schedule_activity("Where", "");
            if tag == "-" { call } else { call.with_tag(tag) }
        });
        let answers = ctx.join(calls.collect()).await;
        Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.join(", "))
    })
}

#[tokio::test(start_paused = true)]
async fn activities_run_on_workers_that_accept_their_tag() {
    let world = World::new();
    let plain = world.start(telling("plain"), routed(), node(1)).await;
    let gpu = world.start(telling("gpu"), routed(), accepting(2, TagFilter::tags(["gpu"]))).await;
    let none = world.start(telling("none"), routed(), accepting(3, TagFilter::none())).await;
    world.client.start_orchestration("i", "Route", "- gpu - gpu").await.expect("start");
    assert_eq!(world.output("i").await, "plain -, gpu gpu, plain -, gpu gpu");
    for runtime in [plain, gpu, none] {
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_no_live_worker_accepts_is_visible_by_tag_and_can_be_bounded() {
    let world = World::new();
    let orchs = routed().register("Bounded", |ctx: OrchestrationContext, _input: String| async move {
        let call = ctx.schedule_activity("Where", "").with_tag("gpu");
        match ctx.select2(call, ctx.schedule_timer(Duration::from_secs(600))).await {
            Either2::First(answer) => answer,
            Either2::Second(()) => Ok("nobody took it".to_string()),
        }
    });
    let runtime = world.start(telling("plain"), orchs, node(1)).await;
    world.client.start_orchestration("a", "Route", "- gpu disk gpu").await.expect("start");
    world.client.start_orchestration("b", "Bounded", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(300)).await;
    let waiting = world.client.get_waiting_by_tag().await.expect("counted");
    let counts: Vec<(Option<&str>, usize)> =
        waiting.iter().map(|waiting| (waiting.tag.as_deref(), waiting.waiting)).collect();
    assert_eq!(counts, [(Some("disk"), 1), (Some("gpu"), 3)]);
    let age = Duration::from_secs(299)..=Duration::from_secs(301);
    assert!(waiting.iter().all(|waiting| age.contains(&waiting.oldest_age)), "{waiting:?}");
    assert_eq!(world.output("b").await, "nobody took it");
    let late = world.start(telling("late"), routed(), accepting(2, TagFilter::any())).await;
    assert_eq!(world.output("a").await, "plain -, late gpu, late disk, late gpu");
    assert_eq!(world.client.get_waiting_by_tag().await.expect("counted"), []);
    runtime.shutdown(None).await;
    late.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_text_that_is_too_large_is_cut_with_a_note() {
    let world = World::new();
    let acts = activities().register("Fail", |_ctx: ActivityContext, _input: String| async move {
        Err::<String, _>("x".repeat(duroxide::runtime::limits::MAX_PAYLOAD_BYTES + 1))
    });
    let orchs = orchestrations().register("Call", |ctx: OrchestrationContext, _input: String| async move {
        Ok(ctx.schedule_activity("Fail", "").await.expect_err("it fails"))
    });
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("i", "Call", "").await.expect("start");
    let output = world.output("i").await;
    assert!(output.starts_with("xxx"), "{}", output.chars().take(100).collect::<String>());
    assert!(output.ends_with("… (8388609 bytes in all, cut to 8387584)"), "{} bytes", output.len());
    runtime.shutdown(None).await;
}
