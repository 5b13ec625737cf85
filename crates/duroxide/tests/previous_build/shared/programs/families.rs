//! Parents and children: ids that the engine makes, ids of their own, versions, ends of every kind.

use std::time::Duration;

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    children(parents(builder))
}

fn parents(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Finished", |ctx: OrchestrationContext, _input: String| async move {
            let first = ctx.schedule_sub_orchestration("Echo", "first").await?;
            let second = ctx.schedule_sub_orchestration("Echo", "second").await?;
            let failed = ctx.schedule_sub_orchestration("ChildFails", "third").await;
            let go = ctx.schedule_wait("go").await;
            Ok(format!("{first} {second} {failed:?} {go}"))
        })
        .register("Running", |ctx: OrchestrationContext, _input: String| async move {
            let waiter = ctx.schedule_sub_orchestration("Waiter", "");
            let id = format!("{}-own", ctx.instance_id());
            let own = ctx.schedule_sub_orchestration_with_id("Waiter", id, "");
            let versioned = ctx.schedule_sub_orchestration_versioned("Versioned", Some("1.0.0".into()), "v");
            let (waiter, own, versioned) = ctx.join3(waiter, own, versioned).await;
            Ok(format!("{waiter:?} {own:?} {versioned:?}"))
        })
        .register("Cancelling", |ctx: OrchestrationContext, _input: String| async move {
            let child = ctx.schedule_sub_orchestration("Waiter", "");
            let timer = ctx.schedule_timer(Duration::from_millis(30));
            let raced = ctx.select2(child, timer).await.index();
            let id = format!("{}-own", ctx.instance_id());
            let dropped = ctx.schedule_sub_orchestration_with_id("Waiter", id, "");
            ctx.schedule_activity("Note", "between").await?;
            drop(dropped);
            let go = ctx.schedule_wait("go").await;
            let last = ctx.schedule_sub_orchestration("Echo", go).await?;
            Ok(format!("{raced} {last}"))
        })
        .register("Nested", |ctx: OrchestrationContext, input: String| async move {
            let depth: u32 = input.parse().map_err(|_| "not a number".to_string())?;
            if depth == 0 {
                return ctx.schedule_activity("Hold", "at the bottom").await;
            }
            let below = ctx.schedule_sub_orchestration("Nested", (depth - 1).to_string()).await?;
            Ok(format!("{depth} {below}"))
        })
        .register("LaterChildren", |ctx: OrchestrationContext, input: String| async move {
            let done = ctx.schedule_sub_orchestration("Echo", &input).await?;
            if ctx.execution_id() < 3 {
                return ctx.continue_as_new(format!("{input}.")).await;
            }
            let dropped = ctx.schedule_sub_orchestration("Waiter", "");
            ctx.schedule_timer(Duration::from_millis(30)).await;
            drop(dropped);
            let held = ctx.schedule_sub_orchestration("CountsUp", "2").await?;
            Ok(format!("{done} {held}"))
        })
        .register("OfVersions", |ctx: OrchestrationContext, _input: String| async move {
            let latest = ctx.schedule_sub_orchestration_versioned("Versioned", None, "latest").await?;
            let first = Some("1.0.0".to_string());
            let id = format!("{}-first", ctx.instance_id());
            let first = ctx.schedule_sub_orchestration_versioned_with_id("Versioned", first, id, "first");
            let chained = ctx.schedule_sub_orchestration("CountsUp", "1");
            let (first, chained) = ctx.join2(first, chained).await;
            Ok(format!("{latest} {first:?} {chained:?}"))
        })
        .register("Detaches", |ctx: OrchestrationContext, _input: String| async move {
            let own = ctx.instance_id();
            ctx.schedule_orchestration("Echo", format!("{own}-echo"), "detached");
            ctx.schedule_orchestration("Waiter", format!("{own}-waiter"), "");
            let version = Some("1.0.0".to_string());
            ctx.schedule_orchestration_versioned(
                "Versioned",
                version,
                format!("{own}-versioned"),
                "detached",
            );
            ctx.schedule_activity("Hold", "after detaching").await
        })
        .register("Guardian", |ctx: OrchestrationContext, _input: String| async move {
            let told = ctx.schedule_sub_orchestration("Explodes", "").await;
            let go = ctx.schedule_wait("go").await;
            Ok(format!("{told:?} {go}"))
        })
}

fn children(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Echo", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Note", input).await
        })
        .register("ChildFails", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Fails", input).await
        })
        .register("Waiter", |ctx: OrchestrationContext, _input: String| async move {
            Ok(format!("waited for {}", ctx.schedule_wait("go").await))
        })
        .register("CountsUp", |ctx: OrchestrationContext, input: String| async move {
            let count: u32 = input.parse().map_err(|_| "not a number".to_string())?;
            if count < 3 {
                return ctx.continue_as_new((count + 1).to_string()).await;
            }
            ctx.schedule_activity("Hold", input).await
        })
        .register("Versioned", |ctx: OrchestrationContext, input: String| async move {
            let version = ctx.orchestration_version();
            Ok(format!("{version} {input} {}", ctx.schedule_activity("Hold", "first version").await?))
        })
        .register_versioned("Versioned", "2.0.0", |ctx: OrchestrationContext, input: String| async move {
            Ok(format!("{} {input}", ctx.orchestration_version()))
        })
}
