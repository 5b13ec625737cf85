//! The programs with types. What earlier builds have by text does the same commands; the others only this build has.

use std::fmt;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Builder, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

use super::{DECLINED, GIVEN_UP_AFTER, NETWORK, ROUNDS, is_first_here, often};

const GO: QueueName<String> = QueueName::new("go");
/// Longer than a scope waits for a worker that was killed.
const ENOUGH_TO_COMPENSATE: Duration = Duration::from_secs(100);
const TOO_SHORT_TO_COMPENSATE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum PayError {
    Declined,
    Network(String),
}

impl fmt::Display for PayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => f.write_str(DECLINED),
            Self::Network(cause) => write!(f, "network: {cause}"),
        }
    }
}

impl std::error::Error for PayError {}

async fn pay(ctx: ActivityContext, order: u32) -> Result<String, PayError> {
    if is_first_here("Pay", ctx.instance_id()) {
        return Err(PayError::Network("down".to_string()));
    }
    Ok(format!("paid {order}"))
}

/// An activity whose errors are texts in both builds.
async fn pay_by_text(ctx: ActivityContext, order: u32) -> Result<String, String> {
    if is_first_here("PayByText", ctx.instance_id()) {
        return Err(NETWORK.to_string());
    }
    Ok(format!("paid {order}"))
}

async fn refuse(_ctx: ActivityContext, _order: u32) -> Result<String, PayError> {
    Err(PayError::Declined)
}

async fn check(_ctx: ActivityContext, order: u32) -> Result<String> {
    Ok(format!("checked {order}"))
}

async fn undo(ctx: ActivityContext, what: String) -> Result<String, PayError> {
    if is_first_here("Undo", &format!("{} {what}", ctx.instance_id())) {
        return Err(PayError::Network("down".to_string()));
    }
    Ok(format!("undid {what}"))
}

/// Ends only when the program gives it up.
async fn linger(ctx: ActivityContext, _order: u32) -> Result<String> {
    ctx.cancelled().await;
    Err("given up".into())
}

async fn explode(_ctx: ActivityContext, order: u32) -> Result<String, PayError> {
    panic!("order {order} explodes");
}

/// Has a text-based twin: the commands of both are the same up to the patch.
async fn upgraded(ctx: OrchestrationContext, round: u32) -> Result<String, String> {
    let paid = ctx.call(pay, round).retry(often());
    let by_text = ctx.call(pay_by_text, round).retry(often());
    let by_text = by_text.retry_if(|error: &String| error == NETWORK);
    let (paid, by_text) = ctx.join2(paid, by_text).await;
    let paid = format!("{} {}", told(paid)?, told(by_text)?);
    let refused = must_fail(ctx.call(refuse, round).await)?;
    let of_child = must_fail(ctx.child(refused_child, round).await)?;
    must_fail(ctx.call(explode, round).await)?;
    let lingering = ctx.timeout(GIVEN_UP_AFTER, ctx.call(linger, round)).await;
    lingering.map_or(Ok(()), |ended| Err(format!("it lingers no more: {ended:?}")))?;
    let checked =
        if ctx.patched("check") { told(ctx.call(check, round).await)? } else { "unchecked".to_string() };
    let message = ctx.dequeue(GO).await;
    if round < ROUNDS {
        return ctx.continue_as(upgraded, round + 1).await;
    }
    Ok(format!("{paid}, {refused}, {of_child}, {checked}, {message}"))
}

/// Has a text-based twin.
async fn refused_child(ctx: OrchestrationContext, order: u32) -> Result<String, PayError> {
    match ctx.call(refuse, order).await {
        Ok(output) => Ok(output),
        Err(CallError::App(error)) => Err(error),
        // A worker of an earlier build gives the text alone.
        Err(error) => Err(if error.to_string() == DECLINED {
            PayError::Declined
        } else {
            PayError::Network(error.to_string())
        }),
    }
}

/// Has a text-based twin, which does not go on after a cancel.
async fn compensated(ctx: OrchestrationContext, order: u32) -> Result<String> {
    let mut saga = ctx.saga();
    let failed = match ctx.cancellable(steps(&ctx, order, &mut saga)).await {
        Ok(Ok(ended)) => return Ok(ended),
        Ok(Err(failure)) => failure,
        Err(cancelled) => cancelled.into(),
    };
    saga.compensate().await?;
    Err(failed)
}

async fn steps<'a>(ctx: &'a OrchestrationContext, order: u32, saga: &mut Saga<'a>) -> Result<String> {
    let payment = ctx.call(pay, order).retry(often());
    saga.step(payment, |paid| ctx.call(undo, paid).retry(often())).await?;
    saga.step(ctx.call(check, order), |checked| ctx.call(undo, checked).retry(often())).await?;
    Ok(ctx.call(linger, order).await?)
}

/// A cancel whose compensation takes longer than it may.
async fn overdue(ctx: OrchestrationContext, order: u32) -> Result<String> {
    match ctx.cancellable(ctx.wait(EventName::<String>::new("never"))).await {
        Ok(ended) => Ok(ended),
        Err(_cancelled) => Ok(ctx.call(linger, order).await?),
    }
}

/// Retries by typed conditions, deadlines of every kind, and a saga that fails.
async fn conditional(ctx: OrchestrationContext, order: u32) -> Result<String, PayError> {
    let paid = loop {
        let call = ctx
            .call(pay, order)
            .retry(often())
            .retry_if(|error: &PayError| matches!(error, PayError::Network(_)))
            .retry_timeouts()
            .start_to_close(Duration::from_secs(60))
            .total_timeout(Duration::from_secs(600));
        match call.await {
            Ok(paid) => break paid,
            // What a worker of an earlier build reports does not decode, so it is not retried by the condition.
            Err(CallError::Other { message }) if message == NETWORK => {}
            Err(error) => return Err(PayError::Network(error.to_string())),
        }
    };
    let not_retried = ctx.call(refuse, order).retry(often());
    let not_retried = not_retried.retry_if(|error: &PayError| matches!(error, PayError::Network(_))).await;
    let slow = ctx.call(linger, order).start_to_close(Duration::from_millis(200)).await;
    let mut saga = ctx.saga();
    let first = saga.step(ctx.call(check, order), |checked| ctx.call(undo, checked).retry(often())).await;
    let second = saga.step(ctx.call(refuse, order), |refused| ctx.call(undo, refused).retry(often())).await;
    let undone = saga.compensate().await;
    let child = ctx.child(refused_child, order).await;
    let is_declined = |error: &CallError<PayError>| error.to_string() == DECLINED;
    let as_expected = not_retried.as_ref().is_err_and(is_declined)
        && slow.is_err()
        && first.is_ok()
        && second.as_ref().is_err_and(is_declined)
        && undone.is_ok()
        && child.as_ref().is_err_and(is_declined);
    if as_expected {
        Ok(paid)
    } else {
        Err(PayError::Network(format!("{not_retried:?} {slow:?} {first:?} {second:?} {undone:?} {child:?}")))
    }
}

fn told<T, E: fmt::Display>(result: Result<T, CallError<E>>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn must_fail<E: fmt::Display>(result: Result<String, CallError<E>>) -> Result<String, String> {
    match result {
        Ok(output) => Err(format!("it did not fail: {output}")),
        Err(error) => Ok(error.to_string()),
    }
}

fn builder() -> Builder {
    Duroxide::builder("sqlite::memory:")
        .discover(false)
        .activity("Pay", pay)
        .activity("PayByText", pay_by_text)
        .activity("Refuse", refuse)
        .activity("Check", check)
        .activity("Undo", undo)
        .activity("Linger", linger)
        .activity("Explode", explode)
        .orchestration("Upgraded", upgraded)
        .orchestration("RefusedChild", refused_child)
        .orchestration("Compensated", compensated)
        .orchestration("Overdue", overdue)
        .orchestration("Conditional", conditional)
        .compensate_on_cancel(upgraded, ENOUGH_TO_COMPENSATE)
        .compensate_on_cancel(compensated, ENOUGH_TO_COMPENSATE)
        .compensate_on_cancel(overdue, TOO_SHORT_TO_COMPENSATE)
}

/// These activities and the ones of the programs here.
pub(crate) fn with_activities(others: ActivityRegistry) -> ActivityRegistry {
    let handlers = builder().registries(others, &OrchestrationRegistry::builder().build()).handlers();
    handlers.expect("every handler has a name of its own").activities
}

/// These orchestrations and the ones here.
pub(crate) fn with_orchestrations(others: &OrchestrationRegistry) -> OrchestrationRegistry {
    let handlers = builder().registries(ActivityRegistry::builder().build(), others).handlers();
    handlers.expect("every handler has a name of its own").orchestrations
}
