//! Programs whose every payload is the secret.

use duroxide::runtime::limits::{
    MAX_CUSTOM_STATUS_BYTES, MAX_KV_VALUE_BYTES, MAX_PAYLOAD_BYTES, MAX_PROGRESS_BYTES,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry,
    OrchestrationRegistryBuilder, RetryPolicy,
};

use crate::{SECRET, check_text};

/// The secret again and again, longer than so many bytes.
pub(crate) fn longer_than(bytes: usize) -> String {
    SECRET.repeat(bytes / SECRET.len() + 1)
}

pub(crate) fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |ctx: ActivityContext, input: String| async move {
            ctx.trace_info("echoing");
            Ok(input)
        })
        .register("Fail", |_ctx: ActivityContext, input: String| async move { Err::<String, _>(input) })
        .register("Panic", |_ctx: ActivityContext, input: String| async move {
            std::panic::resume_unwind(Box::new(input))
        })
        .register("Progress", |ctx: ActivityContext, input: String| async move {
            ctx.heartbeat(input.clone()).await.map_err(|error| error.to_string())?;
            let too_large = ctx.heartbeat(longer_than(MAX_PROGRESS_BYTES)).await;
            check_text(too_large.expect_err("too large"));
            Ok(input)
        })
        .register("TooLarge", |_ctx: ActivityContext, _input: String| async move {
            Ok(longer_than(MAX_PAYLOAD_BYTES))
        })
        .register_typed("Typed", |_ctx: ActivityContext, number: u64| async move { Ok(number) })
        .build()
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    ending(failing(stateful(OrchestrationRegistry::builder()))).build()
}

fn stateful(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("All", |ctx: OrchestrationContext, input: String| async move {
            ctx.trace_info("begun");
            ctx.set_custom_status(SECRET);
            ctx.set_kv_value("key", SECRET);
            ctx.set_kv_value_typed("typed", &SECRET);
            check_text(ctx.get_kv_value_typed::<u64>("typed").expect_err("not a number"));
            let event = ctx.schedule_wait("event").await;
            let message = ctx.dequeue_event("queue").await;
            let echoed = ctx.schedule_activity("Echo", event + &message + &input).await?;
            let of_session = ctx.schedule_activity_on_session("Progress", SECRET, "session").await?;
            assert_eq!(of_session, SECRET);
            let failed = ctx.schedule_activity("Fail", SECRET).await;
            let panicked = ctx.schedule_activity("Panic", SECRET).await;
            let child = ctx.schedule_sub_orchestration("Fail", SECRET).await;
            assert!(failed.is_err() && panicked.is_err() && child.is_err());
            let retries = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
            let tried = ctx.schedule_activity_with_retry_on_session("Fail", SECRET, retries, "session").await;
            assert!(tried.is_err());
            // Texts that are ours, not the program's, quote nothing.
            let undecodable = ctx.schedule_activity_typed::<_, u64>("Echo", &SECRET).await;
            check_text(undecodable.expect_err("not a number"));
            let misread = ctx.schedule_activity("Typed", SECRET).await;
            check_text(misread.expect_err("not a number"));
            let too_large = ctx.schedule_activity("TooLarge", "").await;
            check_text(too_large.expect_err("above the limit"));
            for name in ["LargeStatus", "LargeValue", "LargeInput"] {
                let broken = ctx.schedule_sub_orchestration(name, SECRET).await;
                check_text(broken.expect_err("above a limit"));
            }
            ctx.continue_as_new_versioned("2.0.0", echoed).await
        })
        .register_versioned("All", "2.0.0", |ctx: OrchestrationContext, input: String| async move {
            ctx.reset_custom_status();
            ctx.clear_kv_value("key");
            Ok(input)
        })
        .register("Reads", |ctx: OrchestrationContext, from: String| async move {
            let wrong = ctx.get_kv_value_from_instance_typed::<u64>(from, "typed").await;
            check_text(wrong.expect_err("not a number"));
            Ok("read".to_string())
        })
}

fn failing(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("LargeStatus", |ctx: OrchestrationContext, _input: String| async move {
            ctx.set_custom_status(longer_than(MAX_CUSTOM_STATUS_BYTES));
            Ok(String::new())
        })
        .register("LargeValue", |ctx: OrchestrationContext, _input: String| async move {
            ctx.set_kv_value("key", longer_than(MAX_KV_VALUE_BYTES));
            Ok(String::new())
        })
        .register("LargeInput", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Echo", longer_than(MAX_PAYLOAD_BYTES)).await
        })
        .register("Fail", |_ctx: OrchestrationContext, input: String| async move { Err::<String, _>(input) })
        .register("Panic", |_ctx: OrchestrationContext, input: String| async move {
            std::panic::resume_unwind(Box::new(input))
        })
}

fn ending(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Unregistered", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("nobody has it", input).await
        })
        .register("ParentOfPoison", |ctx: OrchestrationContext, _input: String| async move {
            let poisoned = ctx.schedule_sub_orchestration("nobody has it", SECRET).await;
            check_text(poisoned.as_ref().expect_err("poisoned"));
            poisoned
        })
        .register("Wait", |ctx: OrchestrationContext, _input: String| async move {
            Ok(ctx.schedule_wait("never").await)
        })
}

/// A program that schedules, sets and shows what it is given, and then waits.
pub(crate) fn showing(payload: &'static str) -> OrchestrationRegistry {
    let builder = OrchestrationRegistry::builder();
    let builder = builder.register("Activity", move |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("Echo", payload).await?;
        Ok(ctx.schedule_wait("go").await)
    });
    let builder = builder.register("Child", move |ctx: OrchestrationContext, _input: String| async move {
        let child = ctx.schedule_sub_orchestration_with_id("Status", "child", payload);
        ctx.schedule_wait("go").await;
        child.await
    });
    let builder = builder.register("Value", move |ctx: OrchestrationContext, _input: String| async move {
        ctx.set_kv_value("key", payload);
        Ok(ctx.schedule_wait("go").await)
    });
    let builder = builder.register("Status", move |ctx: OrchestrationContext, _input: String| async move {
        ctx.set_custom_status(payload);
        Ok(ctx.schedule_wait("go").await)
    });
    builder.build()
}
