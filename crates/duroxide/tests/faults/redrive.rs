//! Instances that were poisoned or did not fit the code go on after the fix.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::{InstanceFilter, Provider as _};
use duroxide::runtime::process::ProcessScope;
use duroxide::{
    ActivityContext, ClientError, ErrorDetails, EventKind, OrchestrationContext,
    OrchestrationRegistryBuilder, RuntimeOptions, TagFilter,
};

use crate::common::{World, activities, options, orchestrations};

fn node(seed: u64) -> RuntimeOptions {
    RuntimeOptions { max_attempts: 3, process: ProcessScope::simulated(seed), ..options() }
}

/// Calls one activity, waits for a message of its queue, and tells both.
fn order(activity: &'static str) -> OrchestrationRegistryBuilder {
    orchestrations().register("Order", move |ctx: OrchestrationContext, input: String| async move {
        let charged = ctx.schedule_activity(activity, input).await?;
        let shipped = ctx.dequeue_event("shipped").await;
        Ok(format!("{charged}, {shipped}"))
    })
}

fn charge() -> duroxide::runtime::registry::ActivityRegistryBuilder {
    activities().register("Charge", |ctx: ActivityContext, input: String| async move {
        Ok(format!("charged {input} as {}", ctx.idempotency_key()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_nondeterministic_instance_goes_on_after_the_code_was_fixed_and_no_message_is_lost() {
    let world = World::new();
    let good = world.start(charge(), order("Charge"), node(1)).await;
    world.client.start_orchestration("i", "Order", "42").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    good.shutdown(None).await;
    let bad = world.start(charge(), order("Renamed"), node(2)).await;
    world.client.enqueue_event("i", "shipped", "first").await.expect("enqueue");
    assert_eq!(world.failure("i").await.category(), "configuration");
    bad.shutdown(None).await;
    assert_eq!(world.client.list_kept_messages("i").await.expect("kept").len(), 1);

    let ops = world.client.clone().with_identity("ops: alice");
    let result = ops.redrive("i").await.expect("it goes on");
    assert_eq!((result.execution_id, result.redriven), (2, vec!["i".to_string()]));
    let good = world.start(charge(), order("Charge"), node(3)).await;
    assert_eq!(world.output("i").await, "charged 42 as i:1:2, first");
    good.shutdown(None).await;

    let failed = world.client.read_execution_history("i", 1).await.expect("history");
    assert!(matches!(failed.last().map(|event| &event.kind), Some(EventKind::OrchestrationFailed { .. })));
    let history = world.client.read_execution_history("i", 2).await.expect("history");
    let records: Vec<_> = history
        .iter()
        .filter_map(|event| {
            if let EventKind::OrchestrationRedriven { from_execution_id, by, at_ms } = &event.kind {
                Some((*from_execution_id, by.as_str(), *at_ms > 0))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(records, [(1, "ops: alice", true)]);
    assert_eq!(world.client.list_executions("i").await.expect("executions"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_activity_runs_again_under_its_old_key_with_no_attempts_counted() {
    let world = World::new();
    let broken = world.start(activities(), order("Charge"), node(1)).await;
    world.client.start_orchestration("i", "Order", "42").await.expect("start");
    world.client.enqueue_event("i", "shipped", "early").await.expect("enqueue");
    let failure = world.failure("i").await;
    assert!(matches!(failure, ErrorDetails::Poison { .. }), "{failure:?}");
    broken.shutdown(None).await;
    world.client.redrive("i").await.expect("it goes on");
    let attempts = Arc::new(AtomicU32::new(0));
    let seen = attempts.clone();
    let fixed = activities().register("Charge", move |ctx: ActivityContext, _input: String| {
        seen.store(ctx.attempt(), Ordering::SeqCst);
        async move { Ok(ctx.idempotency_key()) }
    });
    let runtime = world.start(fixed, order("Charge"), node(2)).await;
    assert_eq!(world.output("i").await, "i:1:2, early");
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_sent_after_the_failure_reaches_the_redriven_instance() {
    let world = World::new();
    let broken = world.start(activities(), order("Charge"), node(1)).await;
    world.client.start_orchestration("i", "Order", "42").await.expect("start");
    let failure = world.failure("i").await;
    assert!(matches!(failure, ErrorDetails::Poison { .. }), "{failure:?}");
    world.client.enqueue_event("i", "shipped", "while it was failed").await.expect("enqueue");
    broken.shutdown(None).await;
    assert_eq!(world.client.list_kept_messages("i").await.expect("kept").len(), 1);
    world.client.redrive("i").await.expect("it goes on");
    assert_eq!(world.client.list_kept_messages("i").await.expect("kept").len(), 0);
    let good = world.start(charge(), order("Charge"), node(2)).await;
    assert_eq!(world.output("i").await, "charged 42 as i:1:2, while it was failed");
    good.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_result_was_kept_does_not_run_again() {
    let world = World::new();
    let runs = Arc::new(AtomicU32::new(0));
    let seen = runs.clone();
    let charge = activities().register("Charge", move |_ctx: ActivityContext, input: String| {
        seen.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("charged {input}")) }
    });
    // Its orchestration is not there when the result comes, until the instance is poisoned.
    let no_work = RuntimeOptions { worker_tag_filter: TagFilter::none(), ..node(1) };
    let first = world.start(activities(), order("Charge"), no_work).await;
    world.client.start_orchestration("i", "Order", "42").await.expect("start");
    while world.client.get_queue_depths().await.expect("depths").worker_queue == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.shutdown(None).await;
    let without = world.start(charge, orchestrations(), node(2)).await;
    assert_eq!(world.failure("i").await.category(), "poison");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    without.shutdown(None).await;
    assert_eq!(world.client.list_kept_messages("i").await.expect("kept").len(), 1, "the result");
    world.client.redrive("i").await.expect("it goes on");
    let depths = world.client.get_queue_depths().await.expect("depths");
    assert_eq!(depths.worker_queue, 0, "nothing is to be run");
    world.client.enqueue_event("i", "shipped", "late").await.expect("enqueue");
    let fixed = world.start(activities(), order("Charge"), node(3)).await;
    assert_eq!(world.output("i").await, "charged 42, late");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    fixed.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_handler_was_missing_begins_anew() {
    let world = World::new();
    let empty = world.start(activities(), orchestrations(), node(1)).await;
    world.client.start_orchestration("i", "Order", "42").await.expect("start");
    world.client.enqueue_event("i", "shipped", "early").await.expect("enqueue");
    assert_eq!(world.failure("i").await.category(), "poison");
    empty.shutdown(None).await;
    world.client.redrive("i").await.expect("it goes on");
    let runtime = world.start(charge(), order("Charge"), node(2)).await;
    assert_eq!(world.output("i").await, "charged 42 as i:2:2, early");
    runtime.shutdown(None).await;
}

/// A parent whose child waits for `go`; the parent itself can be broken.
fn family(broken: &Arc<AtomicBool>) -> OrchestrationRegistryBuilder {
    let broken = broken.clone();
    orchestrations()
        .register("Parent", move |ctx: OrchestrationContext, _input: String| {
            let name = if broken.load(Ordering::SeqCst) { "Renamed" } else { "Charge" };
            async move {
                let child = ctx.schedule_sub_orchestration("Child", "");
                let timer = ctx.schedule_timer(Duration::from_secs(3600));
                let charged = ctx.schedule_activity(name, "1").await?;
                ctx.schedule_wait("check").await;
                timer.await;
                Ok(format!("{charged}, {}", child.await?))
            }
        })
        .register("Child", |ctx: OrchestrationContext, _input: String| async move {
            let done = ctx.schedule_activity("Charge", "child").await?;
            Ok(format!("{done}, {}", ctx.schedule_wait("go").await))
        })
}

#[tokio::test(start_paused = true)]
async fn children_that_the_failure_had_cancelled_go_on_with_their_parent() {
    let world = World::new();
    let broken = Arc::new(AtomicBool::new(false));
    let good = world.start(charge(), family(&broken), node(1)).await;
    world.client.start_orchestration("p", "Parent", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(5)).await;
    good.shutdown(None).await;
    broken.store(true, Ordering::SeqCst);
    let bad = world.start(charge(), family(&broken), node(2)).await;
    world.client.raise_event("p", "check", "").await.expect("raise");
    assert_eq!(world.failure("p").await.category(), "configuration");
    assert_eq!(world.failure("p::sub::2").await.display_message(), "canceled: parent failed");
    bad.shutdown(None).await;
    broken.store(false, Ordering::SeqCst);
    let result = world.client.redrive("p").await.expect("it goes on");
    assert_eq!(result.redriven, ["p", "p::sub::2"]);
    let good = world.start(charge(), family(&broken), node(3)).await;
    world.client.raise_event("p::sub::2", "go", "went").await.expect("raise");
    let output = world.output("p").await;
    assert_eq!(output, "charged 1 as p:1:4, charged child as p::sub::2:1:2, went");
    good.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_redriven_child_tells_its_parent_only_if_the_parent_still_waits() {
    let world = World::new();
    let parents =
        orchestrations().register("Parent", |ctx: OrchestrationContext, _input: String| async move {
            let child = ctx.schedule_sub_orchestration("Child", "").await;
            let told = child.expect_err("the first time it is poisoned");
            ctx.schedule_wait("end").await;
            Ok(told)
        });
    let first = world.start(charge(), parents, node(1)).await;
    world.client.start_orchestration("p", "Parent", "").await.expect("start");
    assert_eq!(world.failure("p::sub::2").await.category(), "poison");
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.shutdown(None).await;
    world.client.redrive("p::sub::2").await.expect("it goes on");
    let both = orchestrations()
        .register("Parent", |ctx: OrchestrationContext, _input: String| async move {
            let child = ctx.schedule_sub_orchestration("Child", "").await;
            let told = child.expect_err("the first time it is poisoned");
            ctx.schedule_wait("end").await;
            Ok(told)
        })
        .register(
            "Child",
            |_ctx: OrchestrationContext, _input: String| async move { Ok("fine".to_string()) },
        );
    let second = world.start(charge(), both, node(2)).await;
    assert_eq!(world.output("p::sub::2").await, "fine");
    world.client.raise_event("p", "end", "").await.expect("raise");
    let told = world.output("p").await;
    assert_eq!(told, "poison: orchestration p::sub::2 exceeded 4 attempts (max 3)");
    let history = world.client.read_execution_history("p", 1).await.expect("history");
    let answers =
        history.iter().filter(|event| matches!(event.kind, EventKind::SubOrchestrationCompleted { .. }));
    assert_eq!(answers.count(), 0);
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_redriven_says_why_and_stays_as_it_is() {
    let world = World::new();
    let orchs = orchestrations()
        .register("Fails", |_ctx: OrchestrationContext, _input: String| async move { Err("no".to_string()) })
        .register("Waits", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("go").await)
        });
    let runtime = world.start(activities(), orchs, node(1)).await;
    world.client.start_orchestration("fails", "Fails", "").await.expect("start");
    world.client.start_orchestration("waits", "Waits", "").await.expect("start");
    world.failure("fails").await;
    let text = |result: Result<_, ClientError>| {
        result.map(|_: duroxide::RedriveResult| ()).expect_err("refused").to_string()
    };
    assert_eq!(
        text(world.client.redrive("fails").await),
        "instance 'fails' cannot be redriven: it failed of itself (application); only what was poisoned or could not \
         be replayed goes on after a fix"
    );
    assert_eq!(
        text(world.client.redrive("waits").await),
        "instance 'waits' cannot be redriven: it has not failed"
    );
    assert!(matches!(world.client.redrive("unknown").await, Err(ClientError::InstanceNotFound { .. })));
    assert_eq!(world.client.list_executions("fails").await.expect("executions"), [1]);
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_redrive_says_so() {
    let world = World::with(crate::common::Faulty::plain);
    let runtime = world.start(activities(), orchestrations(), node(1)).await;
    world.client.start_orchestration("i", "Missing", "").await.expect("start");
    world.failure("i").await;
    assert!(!world.store.redrives());
    assert!(matches!(world.client.redrive("i").await, Err(ClientError::ManagementNotAvailable)));
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn many_failed_instances_go_on_by_one_call() {
    let world = World::new();
    let orchs = || {
        orchestrations().register("Fails", |_ctx: OrchestrationContext, _input: String| async move {
            Err("no".to_string())
        })
    };
    let empty = world.start(activities(), orchs(), node(1)).await;
    world.client.start_orchestration("own fault", "Fails", "").await.expect("start");
    world.failure("own fault").await;
    for n in 0..150 {
        world.client.start_orchestration(format!("i{n}"), "Order", n.to_string()).await.expect("start");
    }
    for n in 0..150 {
        world.failure(&format!("i{n}")).await;
    }
    empty.shutdown(None).await;
    let few = InstanceFilter {
        instance_ids: Some(vec!["i7".into(), "i8".into(), "gone".into()]),
        ..InstanceFilter::default()
    };
    let result = world.client.redrive_bulk(few).await.expect("bulk");
    assert_eq!(result.redriven, ["i7", "i8"]);
    assert_eq!(result.skipped, [("gone".to_string(), "instance 'gone' not found".to_string())]);
    let result = world.client.redrive_bulk(InstanceFilter::default()).await.expect("bulk");
    assert_eq!(result.redriven.len(), 148);
    assert_eq!(result.skipped.len(), 1);
    assert_eq!(result.skipped[0].0, "own fault");
    let runtime = world.start(charge(), order("Charge"), node(2)).await;
    for n in 0..150 {
        world.client.enqueue_event(format!("i{n}"), "shipped", "x").await.expect("enqueue");
        assert_eq!(world.output(&format!("i{n}")).await, format!("charged {n} as i{n}:2:2, x"));
    }
    runtime.shutdown(None).await;
}
