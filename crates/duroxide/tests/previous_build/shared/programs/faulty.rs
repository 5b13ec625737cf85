//! Orchestrations whose code was faulty for a while: their instances were poisoned or did not fit, and may go on.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use crate::shared::phase::Phase;

pub(crate) fn register(builder: OrchestrationRegistryBuilder, phase: Phase) -> OrchestrationRegistryBuilder {
    let is_broken = phase == Phase::Broken;
    let drifted = if is_broken { "Renamed" } else { "Note" };
    builder
        .register("Explodes", move |ctx: OrchestrationContext, _input: String| async move {
            let noted = ctx.schedule_activity("Note", "lit").await?;
            if is_broken {
                std::process::abort();
            }
            Ok(format!("{noted} {}", ctx.schedule_wait("go").await))
        })
        .register("CallsFuse", |ctx: OrchestrationContext, _input: String| async move {
            let fuse = ctx.schedule_activity("Fuse", "").await?;
            Ok(format!("{fuse} {}", ctx.schedule_wait("go").await))
        })
        .register("Drifts", move |ctx: OrchestrationContext, _input: String| async move {
            let child = ctx.schedule_sub_orchestration("Waiter", "");
            let noted = ctx.schedule_activity(drifted, "the same").await?;
            let go = ctx.schedule_wait("go").await;
            Ok(format!("{noted} {go} {:?}", child.await))
        })
}
