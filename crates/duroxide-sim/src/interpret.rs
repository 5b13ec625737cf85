//! The generic orchestration: carries a program out, step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::{BackoffStrategy, DurableFuture, OrchestrationContext, RetryPolicy};
use duroxide_core::limits;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::generate_hostile::REFUSED_ABOVE_BYTES;
use crate::program::{
    ACTIVITY, Act, End, Input, NEW_ACTIVITY, ORCHESTRATION, PANIC_MARK, ProgramId, Step, TAG,
};
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
    let Input { program: id, at, mut results, seen } =
        serde_json::from_str(&input).map_err(|cause| format!("not a program: {cause}"))?;
    let program = life.world.programs.get(id).ok_or("no such program")?.clone();
    let scene = Scene { ctx: ctx.clone(), life, seen: Arc::new(Mutex::new(seen)) };
    results.push(json!({ "version": ctx.orchestration_version() }));
    for step in program.executions[at].steps.clone() {
        results.push(scene.clone().step(step).await);
    }
    if at + 1 < program.executions.len() {
        let next_version = program.executions[at].next_version.clone();
        let seen = scene.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let next = Input { program: id, at: at + 1, results, seen }.to_json();
        return match next_version {
            Some(version) => ctx.continue_as_new_versioned(version, next).await,
            None => ctx.continue_as_new(next).await,
        };
    }
    match &program.end {
        End::Return => Ok(Value::Array(results).to_string()),
        End::ReturnAtLength => Ok("x".repeat(REFUSED_ABOVE_BYTES)),
        End::Fail(text) => Err(text.clone()),
        End::Panic(text) => panic!("{PANIC_MARK} {text}"),
        End::Spin => ctx.continue_as_new(Input::first(id).to_json()).await,
    }
}

impl Scene {
    fn step(self, step: Step) -> BoxFuture<'static, Value> {
        let ctx = self.ctx.clone();
        match step {
            Step::Activity(act) => {
                let activity = schedule(&ctx, &act);
                async move { result_value(activity.await.map(Value::String)) }.boxed()
            }
            Step::Retry { act, attempts } => async move {
                let backoff = BackoffStrategy::Fixed { delay: Duration::from_millis(act.ms) };
                let policy = RetryPolicy::new(attempts).with_backoff(backoff);
                let retried = ctx.schedule_activity_with_retry(ACTIVITY, input_of(&act), policy);
                result_value(retried.await.map(Value::String))
            }
            .boxed(),
            Step::Within { act, to_start_ms, to_close_ms } => {
                let mut activity = schedule(&ctx, &act);
                if let Some(ms) = to_start_ms {
                    activity = activity.with_schedule_to_start(Duration::from_millis(ms));
                }
                if let Some(ms) = to_close_ms {
                    activity = activity.with_start_to_close(Duration::from_millis(ms));
                }
                async move { result_value(activity.await.map(Value::String)) }.boxed()
            }
            Step::KvSet { key, value } => {
                ctx.set_kv_value(&key, value);
                std::future::ready(json!({ "ok": ctx.get_kv_value(&key) })).boxed()
            }
            Step::KvClear { key } => {
                ctx.clear_kv_value(&key);
                std::future::ready(json!({ "ok": ctx.get_kv_value(&key) })).boxed()
            }
            Step::KvGet { key, .. } => std::future::ready(json!({ "ok": ctx.get_kv_value(&key) })).boxed(),
            Step::KvOf { instance, key, .. } => {
                let value = ctx.get_kv_value_from_instance(instance, key);
                async move { result_value(value.await.map(|value| json!(value))) }.boxed()
            }
            Step::Status { text } => {
                ctx.set_custom_status(text);
                std::future::ready(json!({ "ok": ctx.get_custom_status() })).boxed()
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
            Step::Child { id, program } => child(self, id, program).boxed(),
            Step::Detached { id, program } => {
                let version = self.version_of(program);
                let input = Input::first(program).to_json();
                ctx.schedule_orchestration_versioned(ORCHESTRATION, version, id, input);
                std::future::ready(json!({ "ok": "detached" })).boxed()
            }
            Step::Guid => async move { result_value(ctx.new_guid().await.map(Value::String)) }.boxed(),
            Step::Now => async move { json!({ "now": now_ms(&ctx).await }) }.boxed(),
            Step::TooLarge => too_large(ctx).boxed(),
            Step::KillTurnUntilFixed if self.life.upgraded => {
                std::future::ready(json!({ "ok": "fixed" })).boxed()
            }
            Step::KillTurn | Step::KillTurnUntilFixed => async move {
                self.life.crash("a turn");
                std::future::pending::<Value>().await
            }
            .boxed(),
            Step::ReplayedWrongUntilFixed(act) => self.replayed_wrong(act).boxed(),
        }
    }

    /// Schedules another activity than its history has, if there is one, unless the node is upgraded.
    fn replayed_wrong(self, mut act: Act) -> impl Future<Output = Value> + use<> {
        let instance = self.ctx.instance_id();
        let replayed = self.life.world.ledger(|ledger| ledger.is_scheduled(&instance, &act.tag));
        if replayed && !self.life.upgraded {
            act.tag.push_str(" of a mistake");
        }
        let activity = schedule(&self.ctx, &act);
        async move { result_value(activity.await.map(Value::String)) }
    }

    /// The version that a program asks for.
    fn version_of(&self, program: ProgramId) -> Option<String> {
        self.life.world.programs.get(program).and_then(|program| program.version.clone())
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

/// Schedules more bytes than one turn may write.
async fn too_large(ctx: OrchestrationContext) -> Value {
    let input = "x".repeat(limits::MAX_PAYLOAD_BYTES);
    let count = limits::MAX_STEP_BYTES / limits::MAX_PAYLOAD_BYTES + 1;
    let all = (0..count).map(|_| ctx.schedule_activity(ACTIVITY, input.as_str())).collect();
    json!({ "ok": ctx.join(all).await.len() })
}

fn input_of(act: &Act) -> String {
    serde_json::to_string(act).expect("an activity holds only strings and numbers")
}

fn schedule(ctx: &OrchestrationContext, act: &Act) -> DurableFuture<Result<String, String>> {
    let name = if act.new { NEW_ACTIVITY } else { ACTIVITY };
    let activity = match &act.session {
        Some(session) => ctx.schedule_activity_on_session(name, input_of(act), session),
        None => ctx.schedule_activity(name, input_of(act)),
    };
    if act.tagged { activity.with_tag(TAG) } else { activity }
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

async fn child(scene: Scene, id: Option<String>, program: ProgramId) -> Value {
    let version = scene.version_of(program);
    let ctx = scene.ctx;
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
