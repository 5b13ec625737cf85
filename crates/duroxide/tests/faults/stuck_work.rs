//! Early, late, misdirected, undecodable and colliding messages: nobody waits forever.

use std::time::Duration;

use duroxide::{
    ActivityContext, AppErrorKind, ErrorDetails, OrchestrationContext, OrchestrationStatus,
    PoisonMessageType, RuntimeOptions,
};
use duroxide_core::ItemKind;

use crate::common::{World, activities, options, orchestrations};

fn echo() -> duroxide::runtime::registry::ActivityRegistryBuilder {
    activities().register("Echo", |_ctx: ActivityContext, input: String| async move { Ok(input) })
}

fn basic() -> duroxide::OrchestrationRegistryBuilder {
    orchestrations()
        .register("Echo", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register("Parent", |ctx: OrchestrationContext, child: String| async move {
            ctx.schedule_sub_orchestration_with_id(child.clone(), format!("{child}-child"), "in").await
        })
}

#[tokio::test(start_paused = true)]
async fn messages_for_an_unknown_instance_stop_nobody() {
    let world = World::new();
    let runtime = world.start(echo(), basic(), options()).await;
    world.client.cancel_instance("nobody", "x").await.expect("accepted");
    world.client.raise_event("nobody", "go", "x").await.expect("accepted");
    world.client.enqueue_event("nobody", "q", "x").await.expect("accepted");
    world.client.start_orchestration("somebody", "Echo", "fine").await.expect("start");
    assert_eq!(world.output("somebody").await, "fine");
    assert_eq!(
        world.client.get_orchestration_status("nobody").await.expect("status"),
        OrchestrationStatus::NotFound
    );
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_raised_before_the_wait_or_before_the_start_is_not_lost() {
    let world = World::new();
    world.client.raise_event("early", "go", "first").await.expect("raise");
    let runtime = world.start(echo(), basic(), options()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.client.start_orchestration("early", "Wait", "").await.expect("start");
    assert_eq!(world.output("early").await, "first");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_work_item_fails_its_activity_and_blocks_no_other() {
    let world = World::new();
    let runtime = world.start(activities(), basic(), options()).await;
    world.client.start_orchestration("bad", "Echo", "x").await.expect("start");
    while world.client.read_execution_history("bad", 1).await.map_or(0, |history| history.len()) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.memory.corrupt_work("bad"), 1);
    runtime.shutdown(None).await;
    let runtime = world.start(echo(), basic(), options()).await;
    world.client.start_orchestration("good", "Echo", "fine").await.expect("start");
    assert_eq!(world.output("good").await, "fine");
    let failure = world.failure("bad").await.display_message();
    assert!(failure.contains("cannot be decoded"), "{failure}");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_event_is_set_aside_and_the_instance_goes_on() {
    let world = World::new();
    world.client.start_orchestration("w", "Wait", "").await.expect("start");
    world.client.raise_event("w", "go", "garbled").await.expect("raise");
    assert_eq!(world.memory.corrupt_messages("w", ItemKind::Event), 1);
    let runtime = world.start(echo(), basic(), options()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.client.raise_event("w", "go", "clean").await.expect("raise");
    assert_eq!(world.output("w").await, "clean");
    assert_eq!(world.memory.snapshot().set_aside.len(), 1, "kept, not deleted");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_child_tells_its_parent() {
    for plain in [false, true] {
        let world = World::with(|store| if plain { store.plain() } else { store });
        let options = RuntimeOptions { max_attempts: 2, max_live_executions: 0, ..options() };
        let runtime = world.start(echo(), basic(), options).await;
        world.client.start_orchestration("p", "Parent", "Wait").await.expect("start");
        while world.client.read_execution_history("Wait-child", 1).await.map_or(0, |history| history.len())
            < 2
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(world.memory.corrupt_history("Wait-child"));
        world.client.raise_event("Wait-child", "go", "x").await.expect("raise");
        let failure = world.failure("p").await.display_message();
        assert!(failure.contains("history deserialization failed after 3 attempts (max 2)"), "{failure}");
        let child = world.failure("Wait-child").await;
        let ErrorDetails::Poison {
            message_type: PoisonMessageType::FailedDeserialization { error, .. }, ..
        } = child
        else {
            panic!("{child:?}")
        };
        assert!(error.starts_with("event at position 2: "), "{error}");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_child_tells_its_parent() {
    let world = World::new();
    let options = RuntimeOptions { max_attempts: 3, ..options() };
    let runtime = world.start(echo(), basic(), options).await;
    world.client.start_orchestration("p", "Parent", "NotRegistered").await.expect("start");
    let failure = world.failure("p").await.display_message();
    assert_eq!(failure, "poison: orchestration NotRegistered-child exceeded 4 attempts (max 3)");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_id_is_taken_leaves_no_parent_waiting() {
    let world = World::new();
    let runtime = world.start(echo(), basic(), options()).await;
    world.client.start_orchestration("Echo-child", "Wait", "").await.expect("start");
    world.client.start_orchestration("p1", "Parent", "Echo").await.expect("start");
    let text = "sub-orchestration instance id 'Echo-child' already exists";
    assert_eq!(world.failure("p1").await.display_message(), text);
    world.client.raise_event("Echo-child", "go", "end").await.expect("raise");
    assert_eq!(world.output("Echo-child").await, "end", "the instance that had the id is untouched");
    world.client.start_orchestration("p2", "Parent", "Echo").await.expect("start");
    assert_eq!(world.failure("p2").await.display_message(), text, "also when that instance has ended");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn children_end_when_their_parent_panics_continues_or_fails_for_nondeterminism() {
    let world = World::new();
    let orchs = |changed: bool| {
        basic()
            .register("Panics", |ctx: OrchestrationContext, _input: String| async move {
                let _child = ctx.schedule_sub_orchestration_with_id("Wait", "panics-child", "");
                ctx.schedule_wait("now").await;
                panic!("boom")
            })
            .register("Continues", |ctx: OrchestrationContext, input: String| async move {
                if input == "again" {
                    return Ok("over".to_string());
                }
                let _child = ctx.schedule_sub_orchestration_with_id("Wait", "continues-child", "");
                ctx.schedule_wait("now").await;
                ctx.continue_as_new("again").await
            })
            .register("Changes", move |ctx: OrchestrationContext, _input: String| async move {
                let _child = ctx.schedule_sub_orchestration_with_id("Wait", "changes-child", "");
                let name = if changed { "later" } else { "now" };
                Ok(ctx.schedule_wait(name).await)
            })
    };
    let runtime = world.start(echo(), orchs(false), options()).await;
    for name in ["Panics", "Continues", "Changes"] {
        world.client.start_orchestration(name.to_lowercase(), name, "").await.expect("start");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.shutdown(None).await;
    let runtime = world.start(echo(), orchs(true), options()).await;
    for name in ["panics", "continues", "changes"] {
        world.client.raise_event(name, "now", "").await.expect("raise");
    }
    assert_eq!(world.failure("panics").await.display_message(), "orchestration panicked: boom");
    assert_eq!(world.output("continues").await, "over");
    let failure = world.failure("changes").await.display_message();
    assert!(failure.starts_with("nondeterministic: schedule mismatch at event 3"), "{failure}");
    for child in ["panics-child", "continues-child", "changes-child"] {
        let details = world.failure(child).await;
        let cancelled =
            matches!(&details, ErrorDetails::Application { kind: AppErrorKind::Cancelled { .. }, .. });
        assert!(cancelled, "{child}: {details:?}");
    }
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_continues_as_new_still_answers_its_parent() {
    let world = World::new();
    let orchs = basic().register("Counts", |ctx: OrchestrationContext, input: String| async move {
        if input == "iii" {
            return Ok(format!("{} in execution {}", input, ctx.execution_id()));
        }
        // What the previous execution left running must not reach the next one.
        let _late = ctx.schedule_timer(Duration::from_millis(50));
        ctx.schedule_activity("Echo", "x").await?;
        let next = if input == "in" { "i".to_string() } else { format!("{input}i") };
        ctx.continue_as_new(next).await
    });
    let runtime = world.start(echo(), orchs, options()).await;
    world.client.start_orchestration("p", "Parent", "Counts").await.expect("start");
    assert_eq!(world.output("p").await, "iii in execution 4");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_loop_takes_ten_thousand_queued_messages_without_an_iteration_limit() {
    let world = World::new();
    let orchs = basic().register("Sum", |ctx: OrchestrationContext, input: String| async move {
        let count: u64 = input.parse().map_err(|_| "a number".to_string())?;
        let mut sum = 0u64;
        for _ in 0..count {
            sum += ctx.dequeue_event_typed::<u64>("numbers").await;
        }
        Ok(sum.to_string())
    });
    for n in 0..10_000u64 {
        world.client.enqueue_event_typed("sum", "numbers", &n).await.expect("enqueue");
    }
    world.client.start_orchestration("sum", "Sum", "10000").await.expect("start");
    let runtime = world.start(echo(), orchs, options()).await;
    assert_eq!(world.output("sum").await, "49995000");
    runtime.shutdown(None).await;
}
