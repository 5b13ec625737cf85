//! Typed values through every call. Texts that are JSON themselves were stored bare by version 1.0.0, and came back as
//! something else; what is stored that way must be read that way.

use duroxide::{BackoffStrategy, OrchestrationContext, OrchestrationRegistryBuilder, RetryPolicy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::retries::QUOTED;

/// The texts in question, and some that nothing ever happened to.
pub(crate) const TEXTS: [&str; 6] = [QUOTED, "123", "null", "{}", "plain", ""];

/// What goes from execution to execution.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    number: u32,
    text: String,
}

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("Values", |ctx: OrchestrationContext, _input: String| async move { values(&ctx).await })
        .register("ValuesHeld", |ctx: OrchestrationContext, _input: String| async move {
            let mut lengths = Vec::new();
            for text in TEXTS {
                lengths.push(ctx.schedule_activity_typed::<_, usize>("Measure", &text.to_string()).await);
            }
            let held = ctx.schedule_activity_typed::<_, usize>("HoldText", &QUOTED.to_string()).await;
            for text in TEXTS {
                let policy = RetryPolicy::new(2);
                let option = Some(text.to_string());
                lengths.push(ctx.schedule_activity_with_retry_typed("Measure", &option, policy).await);
                lengths.push(ctx.schedule_activity_typed("Measure", &json!(text)).await);
                lengths.push(ctx.schedule_sub_orchestration_typed("MeasureChild", &text.to_string()).await);
            }
            Ok(format!("{held:?} {lengths:?}"))
        })
        .register_typed("EchoChild", |_ctx: OrchestrationContext, input: Value| async move { Ok(input) })
        .register_typed(
            "MeasureChild",
            |_ctx: OrchestrationContext, input: String| async move { Ok(input.len()) },
        )
        .register_typed("Typed", |ctx: OrchestrationContext, input: String| async move {
            let event: Value = ctx.schedule_wait_typed("event").await;
            let message: Option<String> = ctx.dequeue_event_typed("queue").await;
            ctx.schedule_activity("Note", format!("{input} {event} {message:?}")).await
        })
        .register_typed("Rounds", |ctx: OrchestrationContext, round: Round| async move {
            let echoed: String = ctx.schedule_activity_typed("EchoText", &round.text).await?;
            if round.number < 3 {
                let next = Round { number: round.number + 1, text: format!("\"{echoed}\"") };
                ctx.continue_as_new_typed(&next).await?;
            }
            let held = ctx.schedule_activity("Hold", &echoed).await?;
            Ok(Some(format!("\"{held}\"")))
        })
        .register_typed("TextRounds", |ctx: OrchestrationContext, text: String| async move {
            if ctx.execution_id() < 3 {
                ctx.continue_as_new_typed(&format!("\"{text}\"")).await?;
            }
            ctx.schedule_activity("Hold", &text).await
        })
}

async fn values(ctx: &OrchestrationContext) -> Result<String, String> {
    let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
    let mut seen = Vec::new();
    for (index, text) in TEXTS.into_iter().enumerate() {
        let (text, option, value) = (text.to_string(), Some(text.to_string()), json!(text));
        seen.push(format!("{:?}", ctx.schedule_activity_typed::<_, String>("EchoText", &text).await));
        seen.push(format!(
            "{:?}",
            ctx.schedule_activity_typed::<_, Option<String>>("EchoOption", &option).await
        ));
        seen.push(format!("{:?}", ctx.schedule_activity_typed::<_, Value>("EchoValue", &value).await));
        let retried = ctx.schedule_activity_with_retry_typed("EchoValue", &value, policy.clone());
        let retried: Result<Value, String> = retried.await;
        seen.push(format!("{retried:?}"));
        let child = ctx.schedule_sub_orchestration_typed::<_, Value>("EchoChild", &text).await;
        seen.push(format!("{child:?}"));
        let id = format!("{}-child-{index}", ctx.instance_id());
        let child = ctx.schedule_sub_orchestration_with_id_typed::<_, Value>("EchoChild", id, &option).await;
        seen.push(format!("{child:?}"));
        let id = format!("{}-detached-{index}", ctx.instance_id());
        ctx.schedule_orchestration_typed("EchoChild", id, &value);
        ctx.set_kv_value_typed(format!("key {index}"), &option);
        seen.push(format!("{:?}", ctx.get_kv_value_typed::<Value>(&format!("key {index}"))));
    }
    ctx.schedule_activity("Note", seen.join(" ")).await
}
