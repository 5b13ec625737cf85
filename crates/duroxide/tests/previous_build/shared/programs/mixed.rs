//! A program for nodes of two builds that work on one store: retries, children and continue-as-new, in every round.

use std::time::Duration;

use duroxide::{BackoffStrategy, OrchestrationContext, OrchestrationRegistryBuilder, RetryPolicy};

use super::retries::QUOTED;

/// Executions of one instance.
const ROUNDS: u64 = 4;
/// What every instance gives. In an execution that 1.0.0 began, a text that is JSON comes back as another value.
pub(crate) fn mixed_output(begun_by: &str) -> String {
    let text = if begun_by == "1.0.0" { "quoted" } else { QUOTED };
    format!(
        "round {ROUNDS}, did retried, did {:?}, noted child, 1.0.0 typed 3, m{ROUNDS}, {:?}",
        Some(text),
        Some((ROUNDS - 1).to_string())
    )
}

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Mixed", |ctx: OrchestrationContext, _input: String| async move { mixed(&ctx).await })
        .register_typed("MixedChild", |ctx: OrchestrationContext, input: u32| async move {
            let session = ctx.instance_id();
            let measured =
                ctx.schedule_activity_with_retry_on_session("Work", "in a child", often(), session);
            measured.await?;
            Ok(format!("{} typed {input}", ctx.orchestration_version()))
        })
}

/// More often than there are processes: each fails the first time.
fn often() -> RetryPolicy {
    let delay = Duration::from_millis(5);
    RetryPolicy::new(1_000).with_backoff(BackoffStrategy::Fixed { delay })
}

async fn mixed(ctx: &OrchestrationContext) -> Result<String, String> {
    let round = ctx.execution_id();
    let retried = ctx.schedule_activity_with_retry("Work", "retried", often());
    let bounded = often().with_timeout(Duration::from_secs(600));
    let typed = ctx.schedule_activity_with_retry_typed("WorkTyped", &QUOTED.to_string(), bounded);
    let child = ctx.schedule_sub_orchestration("Echo", "child");
    let (retried, typed, child) = ctx.join3(retried, typed, child).await;
    let (retried, typed, child) = (retried?, typed?, child?);
    let typed: String = typed;
    let second: String = ctx.schedule_sub_orchestration_typed("MixedChild", &3u32).await?;
    let message = ctx.dequeue_event("queue").await;
    let previous = ctx.get_kv_value("round");
    ctx.set_kv_value("round", round.to_string());
    ctx.set_custom_status(format!("round {round}"));
    if round < ROUNDS {
        return ctx.continue_as_new("").await;
    }
    let status = ctx.get_custom_status().unwrap_or_default();
    Ok(format!("{status}, {retried}, {typed}, {child}, {second}, {message}, {previous:?}"))
}
