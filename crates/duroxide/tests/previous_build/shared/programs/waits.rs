//! Waits, queues, timers and deadlines.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};
use futures_util::FutureExt as _;

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    deadlines(events(builder))
}

fn events(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Waits", |ctx: OrchestrationContext, _input: String| async move {
            let early = ctx.schedule_wait("early").await;
            let message = ctx.dequeue_event("early").await;
            let dropped = ctx.schedule_wait("go");
            let timer = ctx.schedule_timer(Duration::from_millis(30));
            let raced = ctx.select2(dropped, timer).await.index();
            let unused = ctx.dequeue_event("never");
            ctx.schedule_activity("Note", "between").await?;
            drop(unused);
            let first = ctx.schedule_wait("go");
            let second = ctx.schedule_wait("go");
            let third = ctx.dequeue_event("queue");
            let (first, second, third) = ctx.join3(first, second, third).await;
            let later = ctx.schedule_wait("unwaited").await;
            Ok(format!("{early} {message} {raced} {first} {second} {third} {later}"))
        })
        .register("Sleeps", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_timer(Duration::from_secs(4)).await;
            Ok("slept".to_string())
        })
        .register("Malformed", |ctx: OrchestrationContext, _input: String| async move {
            let number = ctx.schedule_wait_typed::<u32>("number");
            let caught = AssertUnwindSafe(number).catch_unwind().await;
            let panic = caught.expect_err("the event is no number");
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            // The text is part of the history: it must be the same at every replay.
            ctx.schedule_activity("Note", text).await?;
            let number: Result<u32, String> = ctx.schedule_activity_typed("EchoText", &"no number").await;
            ctx.schedule_activity("Note", format!("{number:?}")).await?;
            ctx.set_kv_value("text", "no number");
            let number = ctx.get_kv_value_typed::<u32>("text");
            ctx.schedule_activity("Note", format!("{number:?}")).await?;
            ctx.schedule_activity("Hold", "after the errors").await
        })
}

fn deadlines(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    let hour = Duration::from_secs(3600);
    builder
        .register("StartsInTime", move |ctx: OrchestrationContext, tag: String| async move {
            let call = ctx.schedule_activity("Note", "in time").with_tag(tag);
            call.with_schedule_to_start(hour).await
        })
        .register("StartsTooLate", |ctx: OrchestrationContext, _input: String| async move {
            let call = ctx.schedule_activity("Note", "too late").with_tag("nowhere");
            call.with_schedule_to_start(Duration::from_secs(4)).await
        })
        .register("EndsInTime", move |ctx: OrchestrationContext, _input: String| async move {
            let call = ctx.schedule_activity("Hold", "in time");
            call.with_schedule_to_start(hour).with_start_to_close(hour).await
        })
        .register("OnSession", |ctx: OrchestrationContext, _input: String| async move {
            let session = ctx.instance_id();
            let held = ctx.schedule_activity_on_session("Hold", "on a session", session.clone());
            let text = "null".to_string();
            let typed = ctx.schedule_activity_on_session_typed::<_, usize>("Measure", &text, session);
            let (held, typed) = ctx.join2(held, typed).await;
            Ok(format!("{held:?} {typed:?}"))
        })
}
