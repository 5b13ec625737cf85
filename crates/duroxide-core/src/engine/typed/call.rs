//! Calling an activity by its function.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::call_error::recorded_error;
use super::names::unnamed_activity;
use super::{ActivityParameter, AppError, CallError};
use crate::engine::behaviour::OutputOf;
use crate::engine::combinators::Either2;
use crate::engine::commands::{Command, Schedule};
use crate::engine::future::limit_ms;
use crate::engine::retry::{Attempts, Begun, Call as Attempted, Timer};
use crate::engine::slot::{Failed, RetryRequest, Slot, TotalTimeout};
use crate::engine::{DurableFuture, OrchestrationContext};
use crate::model::{FailureKind, RetryPolicy};

impl OrchestrationContext {
    /// Runs an activity somewhere in the cluster, at least once. Takes the function itself; the attribute or the builder has
    /// given it its stored name.
    ///
    /// The activity is scheduled by this call. Options follow it directly:
    /// `ctx.call(charge, order).tag("gpu").retry(RetryPolicy::new(5)).await`.
    #[track_caller]
    pub fn call<F, C, In, Out, E, Fut>(&self, activity: F, input: In) -> Call<Out, E>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: ActivityParameter,
        Fut: Future<Output = Result<Out, E>>,
        In: Serialize,
        Out: DeserializeOwned,
        E: AppError,
    {
        // The type tells which function it is.
        drop(activity);
        let Some(named) = self.names().activity::<F>() else {
            self.desk.push(Command::Unnamed { text: unnamed_activity::<F>() });
            return Call::refused(self, "".into(), "the activity has no name".to_string());
        };
        match self.encode(&input) {
            Ok(input) => Call::schedule(self, named.name.clone(), input),
            Err(cause) => Call::refused(self, named.name.clone(), cause),
        }
    }
}

/// A call of an activity, scheduled and to be awaited. Dropping it before its result was taken cancels the activity.
///
/// Options hold for every attempt, combine in any order and must directly follow the call.
#[must_use = "a call that is dropped is cancelled; await it, or keep it"]
pub struct Call<T, E> {
    ctx: OrchestrationContext,
    name: Arc<str>,
    first: Option<Arc<Slot>>,
    running: Running,
    retried: Option<Box<Retried<E>>>,
    total: Option<DurableFuture<()>>,
    output: PhantomData<fn() -> T>,
}

type Attempt = DurableFuture<Result<String, Failed>>;
type AllAttempts = Pin<Box<dyn Future<Output = Result<String, Failed>> + Send>>;

enum Running {
    /// The call itself was wrong.
    Refused(String),
    /// One attempt, or the first one of a call that was not polled yet.
    One(Attempt),
    All(AllAttempts),
    Done,
}

/// What the later attempts of a call need.
struct Retried<E> {
    call: Attempted,
    policy: RetryPolicy,
    recorded: DurableFuture<Result<String, String>>,
    timer: Timer,
    retry_if: Option<RetryIf<E>>,
}

type RetryIf<E> = Box<dyn Fn(&E) -> bool + Send>;

impl<T, E: AppError> Call<T, E> {
    #[track_caller]
    fn schedule(ctx: &OrchestrationContext, name: Arc<str>, input: String) -> Self {
        let slot = Slot::new(true);
        let what = Schedule::Activity { name: name.to_string(), input, session_id: None };
        ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        let attempt = DurableFuture::scheduled(slot.clone(), ctx.desk.clone(), |result| result);
        Self { first: Some(slot), ..Self::new(ctx, name, Running::One(attempt)) }
    }

    fn refused(ctx: &OrchestrationContext, name: Arc<str>, cause: String) -> Self {
        Self::new(ctx, name, Running::Refused(cause))
    }

    fn new(ctx: &OrchestrationContext, name: Arc<str>, running: Running) -> Self {
        Self { ctx: ctx.clone(), name, first: None, running, retried: None, total: None, output: PhantomData }
    }

    /// Tries again after a failure, as often and after such delays as the policy says. All attempts have the same
    /// idempotency key.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        let Some(first) = self.first.clone() else { return self };
        let retry_if = self.retried.take().and_then(|before| before.retry_if);
        let (recorded, timer) = (Slot::for_line(first.at()), Slot::for_line(first.at()));
        let request =
            RetryRequest { policy: policy.clone(), recorded: recorded.clone(), timer: timer.clone() };
        self.set(|slot| slot.set_call_option("retry", |options| options.retry = Some(request)));
        // Without it the execution has ended or is over a limit: there will be no further attempt.
        let Some((name, input)) = self.ctx.desk.activity_of(&first) else { return self };
        self.retried = Some(Box::new(Retried {
            call: Attempted { name, input, session_id: None },
            policy,
            recorded: DurableFuture::scheduled(recorded, self.ctx.desk.clone(), |value| {
                value.map_err(|failed| failed.text)
            }),
            timer: Timer::new(&self.ctx, timer),
            retry_if,
        }));
        self
    }

    /// Retries only errors of the handler for which `predicate` is true. It is part of the orchestration's deterministic
    /// code. An error that does not decode is not retried.
    ///
    /// # Panics
    /// Without a policy: call [`Self::retry`] first.
    pub fn retry_if(mut self, predicate: impl Fn(&E) -> bool + Send + 'static) -> Self {
        match (&mut self.retried, &self.first) {
            (Some(retried), _) => retried.retry_if = Some(Box::new(predicate)),
            (None, None) => {}
            (None, Some(first)) => {
                let is_lost = self.ctx.desk.activity_of(first).is_none();
                assert!(is_lost, "retry_if needs a policy: call .retry(..) before it");
            }
        }
        self
    }

    /// Retries an attempt that timed out as one that failed. Without it a timeout is the result.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn retry_timeouts(self) -> Self {
        self.set(|slot| slot.set_retry_timeouts("retry_timeouts"));
        self
    }

    /// Lets only workers that accept `tag` run the activity.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|slot| slot.set_tag(tag.into()));
        self
    }

    /// Runs the activity on the worker that owns the session.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn session(self, session_id: impl Into<String>) -> Self {
        self.set(|slot| slot.set_session(session_id.into()));
        self
    }

    /// Bounds how long an attempt may wait until a worker begins it.
    ///
    /// # Panics
    /// After something was awaited in between, and for a time of zero.
    pub fn schedule_to_start(self, limit: Duration) -> Self {
        let method = "schedule_to_start";
        let limit_ms = limit_ms(method, limit);
        self.set(|slot| slot.set_deadline(method, |all| all.schedule_to_start_ms = Some(limit_ms)));
        self
    }

    /// Bounds how long one attempt may run.
    ///
    /// # Panics
    /// After something was awaited in between, and for a time of zero.
    pub fn start_to_close(self, limit: Duration) -> Self {
        let method = "start_to_close";
        let limit_ms = limit_ms(method, limit);
        self.set(|slot| slot.set_deadline(method, |all| all.start_to_close_ms = Some(limit_ms)));
        self
    }

    /// Bounds all attempts together, from the call on, with the delays between them.
    ///
    /// # Panics
    /// After something was awaited in between, and for a time of zero.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        let limit_ms = limit_ms("total_timeout", limit);
        let Some(first) = &self.first else { return self };
        let timer = Slot::for_line(first.at());
        let total = TotalTimeout { limit_ms, timer: timer.clone() };
        self.set(|slot| slot.set_call_option("total_timeout", |options| options.total = Some(total)));
        self.total = Some(DurableFuture::scheduled(timer, self.ctx.desk.clone(), |_| ()));
        self
    }

    pub(super) fn has_policy(&self) -> bool {
        self.retried.is_some()
    }

    fn set(&self, set: impl FnOnce(&Slot) -> Result<(), String>) {
        if let Some(Err(cause)) = self.first.as_deref().map(set) {
            panic!("{cause}");
        }
    }

    /// The first poll of a call with retries or a total time runs all of it instead of the first attempt.
    fn prepare(&mut self) {
        if self.retried.is_none() && self.total.is_none() {
            return;
        }
        self.running = match std::mem::replace(&mut self.running, Running::Done) {
            Running::One(first) => Running::All(self.all(first)),
            other @ (Running::Refused(_) | Running::All(_) | Running::Done) => other,
        };
    }

    /// All attempts and the time that they have together, once the options are recorded.
    fn all(&mut self, first: Attempt) -> AllAttempts {
        let attempts: AllAttempts = match (self.retried.take(), self.first.clone()) {
            (Some(retried), Some(slot)) => Box::pin(retried.run(self.ctx.clone(), slot, first)),
            (None, _) | (_, None) => Box::pin(first),
        };
        let Some(total) = self.total.take() else { return attempts };
        let (ctx, name) = (self.ctx.clone(), self.name.clone());
        Box::pin(async move {
            match ctx.select2(attempts, total).await {
                Either2::First(result) => result,
                Either2::Second(()) => Err(Failed::timed_out(format!(
                    "timeout: all attempts of activity '{name}' took too long"
                ))),
            }
        })
    }
}

impl<E: AppError> Retried<E> {
    async fn run(
        self: Box<Self>,
        ctx: OrchestrationContext,
        first: Arc<Slot>,
        running: Attempt,
    ) -> Result<String, Failed> {
        let Self { mut call, policy, recorded, timer, retry_if } = *self;
        call.session_id = first.session_id();
        let attempts = Attempts { ctx, call, policy, first };
        let begun = Begun { running, policy: recorded, timer: Some(timer) };
        attempts.run(begun, move |failed| is_retried(failed, retry_if.as_ref())).await
    }
}

fn is_retried<E: AppError>(failed: &Failed, retry_if: Option<&RetryIf<E>>) -> bool {
    match (failed.kind, retry_if) {
        (FailureKind::App, Some(retry_if)) => {
            recorded_error(&failed.text, failed.error.as_deref()).is_some_and(|error| retry_if(&error))
        }
        (
            FailureKind::App
            | FailureKind::TimedOut
            | FailureKind::Cancelled
            | FailureKind::Panicked
            | FailureKind::Poisoned
            | FailureKind::Other,
            _,
        ) => true,
    }
}

impl<T: DeserializeOwned, E: AppError> Future for Call<T, E> {
    type Output = Result<T, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.prepare();
        let polled = match &mut self.running {
            Running::Refused(cause) => {
                let cause = std::mem::take(cause);
                self.running = Running::Done;
                return Poll::Ready(Err(CallError::other(cause)));
            }
            Running::One(attempt) => Pin::new(attempt).poll(cx),
            Running::All(attempts) => attempts.as_mut().poll(cx),
            Running::Done => panic!("a call was polled after it had completed"),
        };
        let Poll::Ready(result) = polled else { return Poll::Pending };
        self.running = Running::Done;
        let decoded = result.map_err(CallError::from_failed).and_then(|text| {
            let decoded = self.ctx.behaviour().decode(OutputOf::activity(&self.name), &text);
            decoded.map_err(CallError::other)
        });
        Poll::Ready(decoded)
    }
}

// What is inside is never pinned: slots are shared and attempts are boxed.
impl<T, E> Unpin for Call<T, E> {}

impl<T, E> std::fmt::Debug for Call<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("activity", &self.name).finish_non_exhaustive()
    }
}
