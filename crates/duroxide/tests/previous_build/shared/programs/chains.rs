//! Chains of executions: what they carry, and one that stands between two of them.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use crate::shared::phase::Phase;

/// More than one continue-as-new carries inside the next start.
pub(crate) const MESSAGES: usize = 106;

pub(crate) fn register(builder: OrchestrationRegistryBuilder, phase: Phase) -> OrchestrationRegistryBuilder {
    let builder = builder
        .register(
            "Chain",
            |ctx: OrchestrationContext, input: String| async move { chain(&ctx, &input).await },
        )
        .register("Hop", |ctx: OrchestrationContext, input: String| async move {
            let noted = ctx.schedule_activity("Note", input).await?;
            ctx.set_custom_status("about to hop");
            ctx.set_kv_value("noted", &noted);
            ctx.continue_as_new_versioned("2.0.0", noted).await
        });
    if matches!(phase, Phase::Interrupted | Phase::Broken | Phase::Queueing) {
        // No node has the version that comes next: the instance stands between two executions.
        return builder;
    }
    builder.register_versioned("Hop", "2.0.0", |ctx: OrchestrationContext, input: String| async move {
        let landed = ctx.dequeue_event("landed").await;
        Ok(format!("{input} {:?} {:?} {landed}", ctx.get_custom_status(), ctx.get_kv_value("noted")))
    })
}

async fn chain(ctx: &OrchestrationContext, input: &str) -> Result<String, String> {
    let round: u32 = input.parse().map_err(|_| "not a number".to_string())?;
    let message = ctx.dequeue_event("queue").await;
    // What a program reads of its size is part of what it does.
    let stats = ctx.get_system_stats();
    ctx.schedule_activity("Note", format!("{stats:?}")).await?;
    ctx.set_custom_status(format!("round {round}, {message}, was {:?}", ctx.get_custom_status()));
    ctx.set_kv_value(format!("round {round}"), &message);
    if round == 2 {
        ctx.clear_kv_value("round 1");
    }
    if round < 3 {
        return ctx.continue_as_new((round + 1).to_string()).await;
    }
    let held = ctx.schedule_activity("Hold", format!("{:?}", ctx.get_kv_all_keys())).await?;
    let mut rest = vec![message];
    for _ in 3..MESSAGES {
        rest.push(ctx.dequeue_event("queue").await);
    }
    let later = ctx.schedule_wait("later").await;
    let latest = ctx.schedule_wait("later").await;
    Ok(format!("{held} {later} {latest} {:?} {}", ctx.get_custom_status(), rest.join(" ")))
}
