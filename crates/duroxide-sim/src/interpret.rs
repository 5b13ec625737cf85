//! The generic orchestration: carries a program out, step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::OrchestrationContext;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::program::{ACTIVITY, End, Input, ORCHESTRATION, PANIC_MARK, Program, Step};
use crate::world::Life;

/// What the steps of one execution share.
#[derive(Clone)]
struct Scene {
    ctx: OrchestrationContext,
    life: Arc<Life>,
    seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

/// Runs one execution of a program.
pub(crate) async fn run(life: Arc<Life>, ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let Input { program, at, mut results, seen } =
        serde_json::from_str(&input).map_err(|cause| format!("not a program: {cause}"))?;
    let scene = Scene { ctx: ctx.clone(), life, seen: Arc::new(Mutex::new(seen)) };
    results.push(json!({ "version": ctx.orchestration_version() }));
    for step in program.executions[at].steps.clone() {
        results.push(scene.clone().step(step).await);
    }
    if at + 1 < program.executions.len() {
        let next_version = program.executions[at].next_version.clone();
        let seen = scene.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let next = Input { program, at: at + 1, results, seen }.to_json();
        return match next_version {
            Some(version) => ctx.continue_as_new_versioned(version, next).await,
            None => ctx.continue_as_new(next).await,
        };
    }
    match program.end {
        End::Return => Ok(Value::Array(results).to_string()),
        End::Fail(text) => Err(text),
        End::Panic(text) => panic!("{PANIC_MARK} {text}"),
    }
}

impl Scene {
    fn step(self, step: Step) -> BoxFuture<'static, Value> {
        let ctx = self.ctx.clone();
        match step {
            Step::Activity(act) => {
                let input = serde_json::to_string(&act).expect("an activity holds only strings and numbers");
                let activity = ctx.schedule_activity(ACTIVITY, input);
                async move { result_value(activity.await.map(Value::String)) }.boxed()
            }
            Step::All(steps) => async move {
                let futures = steps.into_iter().map(|step| self.clone().step(step)).collect();
                Value::Array(ctx.join(futures).await)
            }
            .boxed(),
            Step::First(one, other) => async move {
                let (one, other) = (self.clone().step(*one), self.step(*other));
                ctx.select2(one, other).await.into_tuple().1
            }
            .boxed(),
            Step::Timer { ms } => timer(ctx, ms).boxed(),
            Step::Wait { event } => {
                let wait = ctx.schedule_wait(event);
                async move { json!({ "ok": wait.await }) }.boxed()
            }
            Step::Dequeue { queue, upto } => self.dequeue(queue, upto).boxed(),
            Step::Child { id, program } => child(ctx, id, *program).boxed(),
            Step::Detached { id, program } => {
                let version = program.version.clone();
                let input = Input::first(*program).to_json();
                ctx.schedule_orchestration_versioned(ORCHESTRATION, version, id, input);
                std::future::ready(json!({ "ok": "detached" })).boxed()
            }
            Step::Guid => async move { result_value(ctx.new_guid().await.map(Value::String)) }.boxed(),
            Step::Now => async move { json!({ "now": now_ms(&ctx).await }) }.boxed(),
            Step::KillTurn => async move {
                self.life.crash("a turn");
                std::future::pending::<Value>().await
            }
            .boxed(),
        }
    }

    async fn dequeue(self, queue: String, upto: usize) -> Value {
        loop {
            {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let messages = seen.get(&queue).map(Vec::as_slice).unwrap_or_default();
                if messages.len() >= upto {
                    return json!({ "ok": messages[..upto] });
                }
            }
            let message = self.ctx.dequeue_event(queue.clone()).await;
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let messages = seen.entry(queue.clone()).or_default();
            // A message whose answer was lost is sent again.
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
    }
}

async fn timer(ctx: OrchestrationContext, ms: u64) -> Value {
    let begun = now_ms(&ctx).await;
    ctx.schedule_timer(Duration::from_millis(ms)).await;
    let ended = now_ms(&ctx).await;
    if ended >= begun + ms {
        json!({ "ok": "timer" })
    } else {
        json!({ "err": format!("a timer of {ms} ms begun at {begun} fired at {ended}") })
    }
}

async fn child(ctx: OrchestrationContext, id: Option<String>, program: Program) -> Value {
    let version = program.version.clone();
    let input = Input::first(program).to_json();
    let child = match id {
        Some(id) => ctx.schedule_sub_orchestration_versioned_with_id(ORCHESTRATION, version, id, input),
        None => ctx.schedule_sub_orchestration_versioned(ORCHESTRATION, version, input),
    };
    result_value(child.await.map(|output| parsed(&output)))
}

async fn now_ms(ctx: &OrchestrationContext) -> u64 {
    let now = ctx.utc_now().await.unwrap_or(std::time::UNIX_EPOCH);
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An output as a value; what is not JSON stays text.
pub(crate) fn parsed(output: &str) -> Value {
    serde_json::from_str(output).unwrap_or_else(|_| Value::String(output.to_string()))
}

/// How a call ended, as a value.
pub(crate) fn result_value(result: Result<Value, String>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(text) => json!({ "err": text }),
    }
}
