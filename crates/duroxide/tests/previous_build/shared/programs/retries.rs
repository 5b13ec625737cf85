//! Activities with a retry policy, in every form and at every position.

use std::time::Duration;

use duroxide::{BackoffStrategy, OrchestrationContext, OrchestrationRegistryBuilder, RetryPolicy};

/// A text that the codec of version 1.0.0 stored bare although it is JSON.
pub(crate) const QUOTED: &str = "\"quoted\"";

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Retry", |ctx: OrchestrationContext, input: String| async move {
            let (form, position) = input.split_once('/').unwrap_or((&input, ""));
            let result = retried(&ctx, form, position, policy(form, position)).await;
            let result = result.unwrap_or_else(|error| format!("gave up: {error}"));
            ctx.schedule_activity("Note", result).await
        })
        .register("Lazy", |ctx: OrchestrationContext, _input: String| async move { lazy(&ctx).await })
        .register("RetriesSideBySide", |ctx: OrchestrationContext, _input: String| async move {
            let retried =
                ["a", "b", "c"].map(|name| ctx.schedule_activity_with_retry("Note", name, at_once()));
            let bound = ctx.schedule_timer(Duration::from_secs(3600));
            let results = ctx.select2(ctx.join(retried.into()), bound).await;
            let held = ctx.schedule_activity_with_retry("Hold", "side by side", at_once());
            let failing = ctx.schedule_activity_with_retry("Fails", "side by side", at_once());
            let (held, failed) = ctx.join2(held, failing).await;
            Ok(format!("{results:?} {held:?} {failed:?}"))
        })
}

fn at_once() -> RetryPolicy {
    RetryPolicy::new(3).with_backoff(BackoffStrategy::None)
}

fn policy(form: &str, position: &str) -> RetryPolicy {
    let fixed = |seconds| BackoffStrategy::Fixed { delay: Duration::from_secs(seconds) };
    let backoff = match position {
        "second" | "done" | "exhausted" => BackoffStrategy::None,
        "first" => BackoffStrategy::default(),
        "backoff" => BackoffStrategy::Linear { base: Duration::from_secs(4), max: Duration::from_secs(60) },
        _ => fixed(3),
    };
    let policy = RetryPolicy::new(3).with_backoff(backoff);
    match (form, position) {
        ("timeout", "elapses") => policy.with_timeout(Duration::from_secs(4)),
        ("timeout", _) => policy.with_timeout(Duration::from_secs(3600)),
        _ => policy,
    }
}

async fn retried(
    ctx: &OrchestrationContext,
    form: &str,
    position: &str,
    policy: RetryPolicy,
) -> Result<String, String> {
    // Under another name, so that these run while the others stay queued.
    let is_late = matches!(position, "backoff" | "elapses");
    let work = if is_late { "LateWork" } else { "Work" };
    let work_typed = if is_late { "LateWorkTyped" } else { "WorkTyped" };
    match form {
        "plain" | "timeout" => ctx.schedule_activity_with_retry(work, form, policy).await,
        "typed" => ctx.schedule_activity_with_retry_typed(work_typed, &QUOTED.to_string(), policy).await,
        "session" => {
            let session = ctx.instance_id();
            ctx.schedule_activity_with_retry_on_session(work, form, policy, session).await
        }
        "session_typed" => {
            let session = ctx.instance_id();
            let input = Some("null".to_string());
            ctx.schedule_activity_with_retry_on_session_typed(work_typed, &input, policy, session).await
        }
        _ => Err(format!("there is no form '{form}'")),
    }
}

/// In version 1.0.0 a retried call was scheduled when it was first polled. The order of these schedules shows it, and
/// a call that is never polled is not in the history at all.
async fn lazy(ctx: &OrchestrationContext) -> Result<String, String> {
    let first = ctx.schedule_activity_with_retry("Note", "made first", at_once());
    let second = ctx.schedule_activity_with_retry_typed("EchoText", &QUOTED.to_string(), at_once());
    let never = ctx.schedule_activity_with_retry("Note", "never awaited", at_once());
    let plain = ctx.schedule_activity("Note", "made later").await?;
    let timer = ctx.schedule_timer(Duration::from_millis(1));
    let second: String = second.await?;
    timer.await;
    drop(never);
    let bound = ctx.schedule_timer(Duration::from_secs(3600));
    let bounded = ctx.select2(ctx.schedule_activity_with_retry("Note", "bounded", at_once()), bound).await;
    let first = first.await?;
    let last = ctx.schedule_activity_with_retry("Hold", "to the end", at_once());
    let child = ctx.schedule_sub_orchestration("Echo", "beside a retry");
    let (last, child) = ctx.join2(last, child).await;
    Ok(format!("{plain}, {second}, {bounded:?}, {first}, {last:?}, {child:?}"))
}
