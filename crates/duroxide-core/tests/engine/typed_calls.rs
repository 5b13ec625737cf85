//! Calls by function record what calls by name record, and give errors of the user's own types.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::{
    ActivityParameter, BackoffStrategy, CallError, EventKind, Failure, FunctionNames, OrchestrationContext,
    OrchestrationHandler, RetryPolicy, WorkItem,
};
use expect_test::expect;
use serde::{Deserialize, Serialize};

use crate::build::{completed, failed, fired, handler, raised, start};
use crate::driver::{Driver, check, output, run};

/// What an activity gets; the core has no workers.
struct Worker;

impl ActivityParameter for Worker {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
enum PayError {
    #[error("declined")]
    Declined,
    #[error("network: {0}")]
    Network(String),
}

async fn charge(_ctx: Worker, cents: u32) -> Result<String, PayError> {
    Ok(format!("receipt for {cents}"))
}

async fn ship(_ctx: OrchestrationContext, parcel: String) -> Result<String, String> {
    Ok(parcel)
}

async fn nameless(_ctx: Worker, _input: ()) -> Result<(), String> {
    Ok(())
}

/// A program whose functions have names.
struct Named<F> {
    program: F,
    names: Arc<FunctionNames>,
}

#[async_trait]
impl<F, Fut> OrchestrationHandler for Named<F>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, String>> + Send,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        (self.program)(ctx, input).await
    }

    fn function_names(&self) -> Option<Arc<FunctionNames>> {
        Some(self.names.clone())
    }
}

fn named_by<A: 'static, O: 'static, F, Fut>(
    _activity: A,
    _orchestration: O,
    program: F,
) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    let mut names = FunctionNames::default();
    names.name_activity::<A>("Charge").expect("one name");
    names.name_orchestration::<O>("Ship", "2.0.0").expect("one name");
    Arc::new(Named { program, names: Arc::new(names) })
}

fn named<F, Fut>(program: F) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    named_by(charge, ship, program)
}

fn at_once(max_attempts: u32) -> RetryPolicy {
    RetryPolicy::new(max_attempts).with_backoff(BackoffStrategy::None)
}

#[test]
fn a_typed_call_and_a_call_by_name_replay_each_others_histories() {
    let typed = named(|ctx, _| async move {
        let policy = at_once(2).with_timeout(Duration::from_secs(9));
        let call = ctx.call(charge, 5).tag("gpu").retry(policy).session("s").retry_timeouts();
        let parcel = ctx.child(ship, "box".to_string()).with_id("ship-1").await.map_err(|e| e.to_string())?;
        Ok(format!("{parcel} {}", call.await.map_err(|e| e.to_string())?))
    });
    let by_name = handler(|ctx, _| async move {
        let policy = at_once(2).with_timeout(Duration::from_secs(9));
        let call = ctx
            .schedule_activity_with_retry_on_session_typed::<_, String>("Charge", &5, policy, "s")
            .with_tag("gpu")
            .retry_timeouts();
        let version = Some("2.0.0".to_string());
        let parcel =
            ctx.schedule_sub_orchestration_versioned_with_id("Ship", version, "ship-1", "box").await?;
        Ok(format!("{parcel} {}", call.await?))
    });
    let messages = || {
        let shipped = WorkItem::SubOrchCompleted {
            parent_instance: "i".to_string(),
            parent_execution_id: 1,
            parent_id: 5,
            result: "sent".to_string(),
        };
        vec![failed(2, "no"), shipped, completed(10, "paid")]
    };
    let one = run(typed.clone(), messages());
    let other = run(by_name.clone(), messages());
    assert_eq!(output(one.last()), "sent paid");
    assert_eq!(one.history, other.history);
    assert_eq!(
        one.turns.iter().map(|turn| &turn.worker_items).collect::<Vec<_>>(),
        other.turns.iter().map(|turn| &turn.worker_items).collect::<Vec<_>>()
    );
}

#[test]
fn an_option_holds_in_any_order_and_a_total_timeout_bounds_all_attempts() {
    let program = named(|ctx, _| async move {
        let call = ctx.call(charge, 5).total_timeout(Duration::from_secs(60)).retry(at_once(9)).tag("gpu");
        Ok(format!("{:?}", call.await))
    });
    let driver = check(
        program,
        vec![failed(2, "no"), fired(4)],
        expect![[r#"
            1 OrchestrationStarted { input: "" }
            2 ActivityScheduled { name: "Charge", input: "5", session_id: None, tag: Some("gpu") }
            3 RetryPolicyRecorded { policy: "{\"max_attempts\":9,\"backoff\":\"None\"}" }
            4 TimerCreated { fire_at_ms: 62000 }
            5 <- 2 ActivityFailed { details: Application { kind: ActivityFailed, message: "no", retryable: false } }
            6 <- 2 ActivityScheduled { name: "Charge", input: "5", session_id: None, tag: Some("gpu") }
            7 <- 4 TimerFired { fire_at_ms: 5000 }
            8 <- 6 ActivityCancelRequested { reason: "dropped_future" }
            9 OrchestrationCompleted { output: "Err(TimedOut { message: \"timeout: all attempts of activity 'Charge' took too long\" })" }
        "#]],
    );
    assert!(output(driver.last()).contains("TimedOut"));
}

#[test]
fn a_call_that_is_dropped_unpolled_is_cancelled_with_its_timers() {
    let program = named(|ctx, _| async move {
        let policy = at_once(2).with_timeout(Duration::from_secs(9));
        let call = ctx.call(charge, 5).retry(policy).total_timeout(Duration::from_secs(60));
        ctx.schedule_wait("go").await;
        drop(call);
        Ok(ctx.schedule_wait("end").await)
    });
    let driver = run(program, vec![raised("go", "")]);
    assert_eq!(driver.last().cancelled_activities.len(), 1);
    let kinds = driver.last().events.iter().map(|event| &event.kind);
    assert_eq!(kinds.filter(|kind| matches!(kind, EventKind::TimerCancelled { .. })).count(), 2);
}

#[test]
fn an_option_that_comes_too_late_panics_and_names_itself() {
    for (name, program) in [
        (
            "retry",
            named(|ctx, _| async move {
                let call = ctx.call(charge, 5);
                ctx.schedule_wait("go").await;
                Ok(format!("{:?}", call.retry(at_once(2)).await))
            }),
        ),
        (
            "with_id",
            named(|ctx, _| async move {
                let child = ctx.child(ship, "box".to_string());
                ctx.schedule_wait("go").await;
                Ok(format!("{:?}", child.with_id("x").await))
            }),
        ),
    ] {
        let driver = run(program, vec![raised("go", "")]);
        let text = format!("{:?}", driver.last().outcome);
        assert!(text.contains(&format!("{name} must follow the scheduling call directly")), "{text}");
    }
}

#[test]
fn an_explicit_child_id_with_the_marker_creates_nothing() {
    let program = named(|ctx, _| async move {
        let child = ctx.child(ship, "box".to_string()).with_id("a::sub::b").await;
        Ok(format!("{child:?}"))
    });
    let driver = run(program, vec![]);
    assert!(output(driver.last()).contains("reserved marker"), "{}", output(driver.last()));
    assert_eq!(driver.history.len(), 2, "{:?}", driver.history);
}

#[test]
fn retry_if_does_not_retry_a_text_that_is_no_error_of_the_type() {
    let program = named(|ctx, _| async move {
        let call = ctx.call(charge, 5).retry(at_once(3)).retry_if(|e| matches!(e, PayError::Network(_)));
        Ok(format!("{:?}", call.await))
    });
    let driver = run(program, vec![failed(2, "broken")]);
    assert_eq!(output(driver.last()), r#"Err(Other { message: "broken" })"#);
}

#[test]
fn errors_of_handlers_whose_errors_are_texts_are_application_errors() {
    let program = named_by(
        |_: Worker, (): ()| async { Err::<(), String>("unused".to_string()) },
        ship,
        |ctx, _| async move {
            let text = ctx.child(ship, "box".to_string()).await;
            Ok(format!("{text:?}"))
        },
    );
    let refused = WorkItem::SubOrchFailed {
        parent_instance: "i".to_string(),
        parent_execution_id: 1,
        parent_id: 2,
        details: crate::build::app_error("no room"),
    };
    let driver = run(program, vec![refused]);
    assert_eq!(output(driver.last()), r#"Err(App("no room"))"#);
}

#[test]
fn a_function_without_a_name_is_named_with_both_remedies() {
    let program = named(|ctx, _| async move { Ok(format!("{:?}", ctx.call(nameless, ()).await)) });
    let mut driver = Driver::new(program);
    let turn = driver.turn(vec![start("")]);
    let text = format!("{:?}", turn.outcome);
    for part in ["nameless", "#[duroxide::activity]", ".activity("] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_failure_keeps_the_chain_of_any_error_and_comes_back_as_it_was() {
    let io = std::io::Error::other(PayError::Network("down".to_string()));
    let failure = Failure::from(CallError::<String>::Other { message: io.to_string() });
    assert_eq!(failure.message(), "network: down");
    let json = serde_json::to_string(&failure).expect("json");
    assert_eq!(serde_json::from_str::<Failure>(&json).expect("reads"), failure);
    let parse = "x".parse::<u32>().map_err(Failure::from).expect_err("no number");
    assert_eq!(parse.to_string(), "invalid digit found in string");
    assert_eq!(Failure::from("plain").to_string(), "plain");
    assert!(PayError::Declined != PayError::Network(String::new()));
}
