//! Panics, slow activities and shutdown: capacity is never lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::WorkItem;
use duroxide::{ActivityContext, OrchestrationContext, RuntimeOptions};

use crate::common::{Fault, World, activities, options, orchestrations};

fn one_slot() -> RuntimeOptions {
    RuntimeOptions { orchestration_concurrency: 1, worker_concurrency: 1, ..options() }
}

#[tokio::test(start_paused = true)]
async fn panics_in_handlers_take_no_capacity() {
    let world = World::new();
    let acts = activities()
        .register("Panic", |_ctx: ActivityContext, _input: String| async move { panic!("activity boom") })
        .register("Fine", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let orchs = orchestrations()
        .register("Panics", |_ctx: OrchestrationContext, _input: String| async move {
            panic!("orchestration boom")
        })
        .register("CallsPanic", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Panic", "").await
        })
        .register("Fine", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Fine", input).await
        });
    let runtime = world.start(acts, orchs, one_slot()).await;
    for n in 0..5 {
        world.client.start_orchestration(format!("p{n}"), "Panics", "").await.expect("start");
        world.client.start_orchestration(format!("c{n}"), "CallsPanic", "").await.expect("start");
    }
    for n in 0..5 {
        let panicked = world.failure(&format!("p{n}")).await;
        assert_eq!(panicked.display_message(), "orchestration panicked: orchestration boom");
        let called = world.failure(&format!("c{n}")).await;
        assert_eq!(called.display_message(), "activity panicked: activity boom");
    }
    world.client.start_orchestration("after", "Fine", "ok").await.expect("start");
    assert_eq!(world.output("after").await, "ok");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn panics_in_the_store_end_no_dispatcher() {
    let world = World::new();
    let acts = activities().register("Fine", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let orchs = orchestrations().register("Fine", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Fine", input).await
    });
    for method in ["fetch_turns", "fetch_work", "ack_orchestration_item", "ack_work_item"] {
        world.store.plan(method, [Fault::Panic; 3]);
    }
    let runtime = world.start(acts, orchs, one_slot()).await;
    for n in 0..5 {
        world.client.start_orchestration(format!("i{n}"), "Fine", "ok").await.expect("start");
    }
    for n in 0..5 {
        assert_eq!(world.output(&format!("i{n}")).await, "ok");
    }
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn panics_in_the_store_end_no_background_task() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let acts = activities().register("Long", move |_ctx: ActivityContext, input: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(200)).await;
            Ok(input)
        }
    });
    let orchs = orchestrations().register("Long", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity_on_session("Long", input, "session").await
    });
    let often = ["renew_work_item_lock", "lost_work_items", "renew_session_lock", "heartbeat_node"];
    for method in often {
        world.store.plan(method, [Fault::Panic; 3]);
    }
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("i", "Long", "ok").await.expect("start");
    assert_eq!(world.output("i").await, "ok");
    assert_eq!(runs.load(Ordering::SeqCst), 1, "its lock was kept");
    for method in often {
        assert!(world.store.calls(method) > 3, "{method} goes on");
    }
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_wrong_kind_in_the_worker_queue_is_removed_and_the_worker_goes_on() {
    let world = World::new();
    let acts = activities().register("Fine", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let orchs = orchestrations().register("Fine", |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("Fine", input).await
    });
    let runtime = world.start(acts, orchs, one_slot()).await;
    let wrong = WorkItem::CancelInstance { instance: "someone".to_string(), reason: "misplaced".to_string() };
    world.store.deliver_instead_of_work(wrong);
    world.client.start_orchestration("robbed", "Fine", "x").await.expect("start");
    world.client.start_orchestration("next", "Fine", "ok").await.expect("start");
    assert_eq!(world.output("next").await, "ok");
    assert!(world.store.calls("fetch_work") < 20, "the worker does not spin on it");
    let depths = world.client.get_queue_depths().await.expect("depths");
    assert_eq!(depths.worker_queue, 0, "it does not stay in the queue");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn slow_activities_do_not_hold_up_what_comes_behind_them() {
    let world = World::new();
    let acts = activities()
        .register("Slow", |_ctx: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(input)
        })
        .register("Quick", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let call = |name: &'static str| {
        move |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity(name, input).await }
    };
    let orchs = orchestrations().register("Slow", call("Slow")).register("Quick", call("Quick"));
    let runtime = world.start(acts, orchs, options()).await;
    for n in 0..100 {
        world.client.start_orchestration(format!("slow{n}"), "Slow", "s").await.expect("start");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    world.client.start_orchestration("quick", "Quick", "q").await.expect("start");
    assert_eq!(world.output("quick").await, "q");
    assert!(begun.elapsed() < Duration::from_secs(1), "waited {:?} behind slow ones", begun.elapsed());
    runtime.shutdown(Some(0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_activity_learns_of_its_cancellation_within_a_second() {
    let world = World::new();
    let learned = Arc::new(std::sync::Mutex::new(None));
    let seen = learned.clone();
    let acts = activities().register("Wait", move |ctx: ActivityContext, _input: String| {
        let seen = seen.clone();
        async move {
            ctx.cancelled().await;
            *seen.lock().expect("no panic under it") = Some(tokio::time::Instant::now());
            Err("cancelled".to_string())
        }
    });
    let orchs = orchestrations().register("Wait", |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Wait", "").await
    });
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("c", "Wait", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let cancelled = tokio::time::Instant::now();
    world.client.cancel_instance("c", "enough").await.expect("cancel");
    let failure = world.failure("c").await;
    assert_eq!(failure.display_message(), "canceled: enough");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let learned = learned.lock().expect("no panic under it").expect("the activity was told");
    assert!(learned - cancelled < Duration::from_secs(1), "told after {:?}", learned - cancelled);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_ignores_its_cancellation_is_aborted_after_the_grace_period() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let world = World::new();
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let acts = activities().register("Deaf", move |_ctx: ActivityContext, _input: String| {
        let ends = Ends(flag.clone());
        async move {
            tokio::time::sleep(Duration::from_secs(100_000)).await;
            drop(ends);
            Ok(String::new())
        }
    });
    let orchs = orchestrations().register("Deaf", |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Deaf", "").await
    });
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("d", "Deaf", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.client.cancel_instance("d", "stop").await.expect("cancel");
    world.failure("d").await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!ended.load(Ordering::SeqCst), "still within the grace period of 10 s");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(ended.load(Ordering::SeqCst), "aborted after it");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_keeps_its_time_and_gives_unfinished_work_back_uncounted() {
    let world = World::new();
    let attempts = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = attempts.clone();
    let acts = activities().register("Long", move |ctx: ActivityContext, _input: String| {
        seen.lock().expect("no panic under it").push(ctx.attempt());
        async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok("done".to_string())
        }
    });
    let orchs = || {
        orchestrations().register("Long", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Long", "").await
        })
    };
    let first = world.start(acts, orchs(), options()).await;
    world.client.start_orchestration("l", "Long", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    first.clone().shutdown(Some(3000)).await;
    assert!(begun.elapsed() <= Duration::from_millis(3600), "shutdown took {:?}", begun.elapsed());
    first.wait_until_ended().await;
    let fetches = world.store.calls("fetch_turns") + world.store.calls("fetch_work");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let later = world.store.calls("fetch_turns") + world.store.calls("fetch_work");
    assert_eq!(fetches, later, "no poller is left running");

    let seen = attempts.clone();
    let acts = activities().register("Long", move |ctx: ActivityContext, _input: String| {
        seen.lock().expect("no panic under it").push(ctx.attempt());
        async move { Ok("done".to_string()) }
    });
    let begun = tokio::time::Instant::now();
    let second = world.start(acts, orchs(), options()).await;
    assert_eq!(world.output("l").await, "done");
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "given back, not left to expire: {:?}",
        begun.elapsed()
    );
    assert_eq!(*attempts.lock().expect("no panic under it"), [1, 1], "the attempt was taken back");
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_work_in_progress_finish() {
    let world = World::new();
    let acts = activities().register("Short", |_ctx: ActivityContext, _input: String| async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok("done".to_string())
    });
    let orchs = orchestrations().register("Short", |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Short", "").await
    });
    let runtime = world.start(acts, orchs, options()).await;
    world.client.start_orchestration("s", "Short", "").await.expect("start");
    tokio::time::sleep(Duration::from_millis(100)).await;
    runtime.shutdown(Some(5000)).await;
    let snapshot = format!("{:?}", world.memory.snapshot());
    assert!(snapshot.contains("ActivityCompleted"), "the result was kept: {snapshot}");
}

#[tokio::test(start_paused = true)]
async fn no_concurrency_is_too_high() {
    let world = World::new();
    let orchs =
        orchestrations().register("Fine", |_ctx: OrchestrationContext, input: String| async { Ok(input) });
    let boundless =
        RuntimeOptions { orchestration_concurrency: usize::MAX, worker_concurrency: usize::MAX, ..options() };
    let runtime = world.start(activities(), orchs, boundless).await;
    world.client.start_orchestration("i", "Fine", "ok").await.expect("start");
    assert_eq!(world.output("i").await, "ok");
    runtime.shutdown(None).await;
}
