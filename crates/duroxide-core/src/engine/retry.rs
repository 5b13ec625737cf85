//! Activities that are tried again after a failure, by a policy that is recorded with the first attempt.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::behaviour::OutputOf;
use super::commands::{Command, Schedule};
use super::context::{Text, decode_result};
use super::future::limit_ms;
use super::schedule_calls::duration_ms;
use super::slot::{Failed, Slot};
use super::{DurableFuture, Either2, OrchestrationContext};
use crate::model::{RecordedPolicy, RetryPolicy};

/// What the program gets when one attempt took longer than the policy allows.
const TIMED_OUT: &str = "timeout: activity timed out";

impl OrchestrationContext {
    /// Runs an activity again after a failure, as often and after such delays as the policy says. The first attempt
    /// is scheduled by this call; every attempt and every delay is in the history, and all attempts have the same
    /// idempotency key.
    ///
    /// The last failure is the result. An attempt that takes longer than the policy's timeout gives
    /// `timeout: activity timed out`, which is retried only with [`RetriedActivity::retry_timeouts`].
    #[track_caller]
    pub fn schedule_activity_with_retry(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
    ) -> RetriedActivity<Text> {
        let call = Call { name: name.into(), input: input.into(), session_id: None };
        self.retried(Ok(call), policy, |result| result)
    }

    /// [`Self::schedule_activity_with_retry`] with typed input and output.
    #[track_caller]
    pub fn schedule_activity_with_retry_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
    ) -> RetriedActivity<Result<Out, String>> {
        self.retried_typed(name.into(), input, policy, None)
    }

    /// [`Self::schedule_activity_with_retry`] with every attempt in the same session.
    #[track_caller]
    pub fn schedule_activity_with_retry_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> RetriedActivity<Text> {
        let call = Call { name: name.into(), input: input.into(), session_id: Some(session_id.into()) };
        self.retried(Ok(call), policy, |result| result)
    }

    /// [`Self::schedule_activity_with_retry_on_session`] with typed input and output.
    #[track_caller]
    pub fn schedule_activity_with_retry_on_session_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> RetriedActivity<Result<Out, String>> {
        self.retried_typed(name.into(), input, policy, Some(session_id.into()))
    }

    #[track_caller]
    fn retried_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: String,
        input: &In,
        policy: RetryPolicy,
        session_id: Option<String>,
    ) -> RetriedActivity<Result<Out, String>> {
        let output = decode_result(self.behaviour(), OutputOf::activity(name.clone()));
        let call = self.encode(input).map(|input| Call { name, input, session_id });
        self.retried(call, policy, output)
    }

    #[track_caller]
    fn retried<T: 'static>(
        &self,
        call: Result<Call, String>,
        policy: RetryPolicy,
        finish: impl FnOnce(Text) -> T + Send + 'static,
    ) -> RetriedActivity<T> {
        let call = match call {
            Ok(call) => call,
            Err(cause) => {
                return RetriedActivity {
                    first: None,
                    attempts: Box::pin(async move { finish(Err(cause)) }),
                };
            }
        };
        let first = Slot::new(true);
        let attempts = Attempts { ctx: self.clone(), call, policy, first: first.clone() };
        let result: Pin<Box<dyn Future<Output = Result<String, Failed>> + Send>> =
            if self.behaviour().retries_schedule_when_called() {
                let begun = attempts.begin(Some(Slot::for_line(first.at())));
                Box::pin(attempts.run(begun, |_failed| true))
            } else {
                Box::pin(async move {
                    let begun = attempts.begin(None);
                    attempts.run(begun, |_failed| true).await
                })
            };
        let attempts = Box::pin(async move { finish(result.await.map_err(|failed| failed.text)) });
        RetriedActivity { first: Some(first), attempts }
    }
}

/// An activity that is tried again after a failure. Its first attempt has been scheduled.
///
/// The options below hold for every attempt. They must directly follow the call that made it. Dropping it before its
/// result was taken cancels the attempt that is under way, and there is no further one.
#[must_use = "a retried activity that is dropped is cancelled; await it, or keep it"]
pub struct RetriedActivity<T> {
    /// Holds the options; `None` if the call itself was wrong.
    first: Option<Arc<Slot>>,
    attempts: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> RetriedActivity<T> {
    /// Lets only workers that accept `tag` run the attempts.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn with_tag(self, tag: impl Into<String>) -> Self {
        self.with_option(|slot| slot.set_tag(tag.into()))
    }

    /// Bounds how long an attempt may wait until a worker begins it.
    /// See [`DurableFuture::with_schedule_to_start`].
    ///
    /// # Panics
    /// After something was awaited in between, and for a time of zero.
    pub fn with_schedule_to_start(self, limit: Duration) -> Self {
        let method = "with_schedule_to_start";
        let limit_ms = limit_ms(method, limit);
        self.with_option(|slot| slot.set_deadline(method, |all| all.schedule_to_start_ms = Some(limit_ms)))
    }

    /// Bounds how long an attempt may run. See [`DurableFuture::with_start_to_close`].
    ///
    /// # Panics
    /// After something was awaited in between, and for a time of zero.
    pub fn with_start_to_close(self, limit: Duration) -> Self {
        let method = "with_start_to_close";
        let limit_ms = limit_ms(method, limit);
        self.with_option(|slot| slot.set_deadline(method, |all| all.start_to_close_ms = Some(limit_ms)))
    }

    /// Retries an attempt that timed out as one that failed: by the timeout of the policy, or by a deadline above.
    /// Without it a timeout is the result.
    ///
    /// An attempt that is given up may still run for a while beside the next one. Both have the same idempotency key.
    ///
    /// # Panics
    /// After something was awaited in between.
    pub fn retry_timeouts(self) -> Self {
        self.with_option(|slot| slot.set_retry_timeouts("retry_timeouts"))
    }

    fn with_option(self, set: impl FnOnce(&Slot) -> Result<(), String>) -> Self {
        if let Some(Err(cause)) = self.first.as_deref().map(set) {
            panic!("{cause}");
        }
        self
    }
}

impl<T> Future for RetriedActivity<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.attempts.as_mut().poll(cx)
    }
}

impl<T> std::fmt::Debug for RetriedActivity<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first_event_id = self.first.as_ref().map(|slot| slot.event_id());
        f.debug_struct("RetriedActivity").field("first_event_id", &first_event_id).finish_non_exhaustive()
    }
}

/// What every attempt runs.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) input: String,
    pub(super) session_id: Option<String>,
}

/// The attempts of one call.
pub(super) struct Attempts {
    pub(super) ctx: OrchestrationContext,
    pub(super) call: Call,
    pub(super) policy: RetryPolicy,
    pub(super) first: Arc<Slot>,
}

/// A call whose first attempt is scheduled.
pub(super) struct Begun {
    pub(super) running: DurableFuture<Result<String, Failed>>,
    pub(super) policy: DurableFuture<Text>,
    pub(super) timer: Option<Timer>,
}

/// Scheduled by the engine if the recorded policy has a timeout.
pub(super) struct Timer {
    pub(super) slot: Arc<Slot>,
    pub(super) future: DurableFuture<()>,
}

impl Timer {
    pub(super) fn new(ctx: &OrchestrationContext, slot: Arc<Slot>) -> Self {
        let future = DurableFuture::scheduled(slot.clone(), ctx.desk.clone(), |_| ());
        Self { slot, future }
    }
}

impl Attempts {
    /// Schedules the first attempt and records the policy. `timer` bounds the attempt from now on; without one its
    /// time begins when the call is polled.
    fn begin(&self, timer: Option<Arc<Slot>>) -> Begun {
        let running = self.schedule(self.first.clone());
        let what = Schedule::RetryPolicy {
            policy: self.policy.clone(),
            first: self.first.clone(),
            timer: timer.clone(),
        };
        let slot = Slot::for_line(self.first.at());
        self.ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        let policy = DurableFuture::scheduled(slot, self.ctx.desk.clone(), |result| {
            result.map_err(|failed| failed.text)
        });
        let timer = timer.map(|slot| Timer::new(&self.ctx, slot));
        Begun { running, policy, timer }
    }

    /// Runs attempts until one succeeds, the policy allows no more of them, or `is_retried` refuses a failure.
    pub(super) async fn run(
        self,
        begun: Begun,
        is_retried: impl Fn(&Failed) -> bool + Send,
    ) -> Result<String, Failed> {
        let Begun { mut running, policy, timer } = begun;
        let RecordedPolicy { policy, retry_timeouts } = self.recorded(policy.await);
        // Without a timeout in the recorded policy the engine has scheduled no timer.
        let mut timer = timer.filter(|timer| timer.slot.event_id() != 0).map(|timer| timer.future);
        let mut attempt = 1;
        loop {
            let result = match policy.timeout {
                None => running.await,
                Some(timeout) => {
                    let timer = timer.take().unwrap_or_else(|| self.timer(timeout));
                    match self.ctx.select2(running, timer).await {
                        Either2::First(result) => result,
                        Either2::Second(()) => Err(Failed::timed_out(TIMED_OUT)),
                    }
                }
            };
            let goes_on = match &result {
                Ok(_) => false,
                Err(failed) if failed.is_timeout() => retry_timeouts,
                Err(failed) => is_retried(failed),
            };
            if !goes_on || attempt >= policy.max_attempts {
                return result;
            }
            let delay = policy.delay_for_attempt(attempt);
            if !delay.is_zero() {
                self.timer(delay).await;
            }
            attempt += 1;
            running = self.schedule(Slot::later_attempt(&self.first, attempt));
        }
    }

    fn schedule(&self, slot: Arc<Slot>) -> DurableFuture<Result<String, Failed>> {
        let Call { name, input, session_id } = &self.call;
        let what =
            Schedule::Activity { name: name.clone(), input: input.clone(), session_id: session_id.clone() };
        self.ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        DurableFuture::scheduled(slot, self.ctx.desk.clone(), |result| result)
    }

    fn timer(&self, delay: Duration) -> DurableFuture<()> {
        let slot = Slot::for_line(self.first.at());
        let what = Schedule::Timer { delay_ms: duration_ms(delay) };
        self.ctx.desk.push(Command::Schedule { slot: slot.clone(), what });
        DurableFuture::scheduled(slot, self.ctx.desk.clone(), |_| ())
    }

    /// The policy with which the call began.
    fn recorded(&self, text: Text) -> RecordedPolicy {
        // A multiplier that is not a number has no JSON form that can be read back: then the code's policy counts.
        text.ok().and_then(|text| RecordedPolicy::from_json(&text)).unwrap_or_else(|| RecordedPolicy {
            policy: self.policy.clone(),
            retry_timeouts: self.first.retries_timeouts(),
        })
    }
}
