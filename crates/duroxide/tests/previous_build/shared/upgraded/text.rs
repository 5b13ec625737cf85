//! The programs by text, for a build that has no typed API. They do the commands of their typed twins, up to a patch.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, OrchestrationContext, OrchestrationRegistry};

use super::{DECLINED, GIVEN_UP_AFTER, NETWORK, ROUNDS, is_first_here, often};

/// These activities and the ones of the programs here.
pub(crate) fn with_activities(others: ActivityRegistry) -> ActivityRegistry {
    let pay = |name: &'static str| {
        move |ctx: ActivityContext, order: String| async move {
            if is_first_here(name, ctx.instance_id()) {
                return Err(NETWORK.to_string());
            }
            Ok(format!("paid {order}"))
        }
    };
    ActivityRegistry::builder()
        .merge(others)
        .register("Pay", pay("Pay"))
        .register("PayByText", pay("PayByText"))
        .register("Refuse", |_ctx: ActivityContext, _order: String| async move {
            Err::<String, _>(DECLINED.to_string())
        })
        .register(
            "Check",
            |_ctx: ActivityContext, order: String| async move { Ok(format!("checked {order}")) },
        )
        .register("Undo", |ctx: ActivityContext, what: String| async move {
            if is_first_here("Undo", &format!("{} {what}", ctx.instance_id())) {
                return Err(NETWORK.to_string());
            }
            Ok(format!("undid {what}"))
        })
        .register("Linger", |ctx: ActivityContext, _order: String| async move {
            ctx.cancelled().await;
            Err::<String, _>("given up".to_string())
        })
        .register("Explode", |_ctx: ActivityContext, order: String| async move {
            let outcome: Result<String, String> = panic!("order {order} explodes");
            outcome
        })
        .build()
}

/// These orchestrations and the ones here.
pub(crate) fn with_orchestrations(others: &OrchestrationRegistry) -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .merge(others.clone())
        .register("Upgraded", |ctx: OrchestrationContext, round: String| async move {
            upgraded(&ctx, &round).await
        })
        .register("RefusedChild", |ctx: OrchestrationContext, order: String| async move {
            ctx.schedule_activity("Refuse", order).await
        })
        .register("Compensated", |ctx: OrchestrationContext, order: String| async move {
            ctx.schedule_activity_with_retry("Pay", order.as_str(), often()).await?;
            ctx.schedule_activity("Check", order.as_str()).await?;
            ctx.schedule_activity("Linger", order).await
        })
        .build()
}

async fn upgraded(ctx: &OrchestrationContext, round: &str) -> Result<String, String> {
    let number: u32 = round.parse().map_err(|_| "not a number".to_string())?;
    let paid = ctx.schedule_activity_with_retry("Pay", round, often());
    let by_text = ctx.schedule_activity_with_retry("PayByText", round, often());
    let (paid, by_text) = ctx.join2(paid, by_text).await;
    let paid = format!("{} {}", paid?, by_text?);
    let refused = must_fail(ctx.schedule_activity("Refuse", round).await)?;
    let version = Some("1.0.0".to_string());
    let of_child = ctx.schedule_sub_orchestration_versioned("RefusedChild", version, round).await;
    let of_child = must_fail(of_child)?;
    must_fail(ctx.schedule_activity("Explode", round).await)?;
    let lingering = ctx.schedule_activity("Linger", round);
    let timer = ctx.schedule_timer(GIVEN_UP_AFTER);
    if let Either2::First(ended) = ctx.select2(lingering, timer).await {
        return Err(format!("it lingers no more: {ended:?}"));
    }
    let checked = "unchecked";
    let message = ctx.dequeue_event("go").await;
    if number < ROUNDS {
        return ctx.continue_as_new_versioned("1.0.0", (number + 1).to_string()).await;
    }
    Ok(format!("{paid}, {refused}, {of_child}, {checked}, {message}"))
}

fn must_fail(result: Result<String, String>) -> Result<String, String> {
    match result {
        Ok(output) => Err(format!("it did not fail: {output}")),
        Err(error) => Ok(error),
    }
}
