//! Activities that are tried again. Every attempt, every delay and the policy itself is in the history.

use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use super::context::{Text, decode_result};
use super::slot::Schedule;
use super::{Either2, OrchestrationContext};
use crate::model::{RetryPolicy, encode};

/// What an attempt gives that took longer than the policy allows.
const TIMED_OUT: &str = "timeout: activity timed out";

/// What is tried, again and again.
struct Tried {
    name: String,
    input: String,
    session_id: Option<String>,
}

impl OrchestrationContext {
    /// Runs an activity, and runs it again after a failure as the policy says. Gives the first success, the
    /// last failure, or `timeout: activity timed out`, which is not retried.
    pub fn schedule_activity_with_retry(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
    ) -> impl Future<Output = Text> + Send + 'static {
        let tried = Tried { name: name.into(), input: input.into(), session_id: None };
        self.clone().try_again(Ok(tried), policy)
    }

    /// [`Self::schedule_activity_with_retry`] with typed input and output.
    pub fn schedule_activity_with_retry_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
    ) -> impl Future<Output = Result<Out, String>> + Send + 'static {
        let tried = encode(input).map(|input| Tried { name: name.into(), input, session_id: None });
        let result = self.clone().try_again(tried, policy);
        async move { decode_result(result.await) }
    }

    /// [`Self::schedule_activity_with_retry`] with every attempt in the same session.
    pub fn schedule_activity_with_retry_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> impl Future<Output = Text> + Send + 'static {
        let session_id = Some(session_id.into());
        let tried = Tried { name: name.into(), input: input.into(), session_id };
        self.clone().try_again(Ok(tried), policy)
    }

    /// [`Self::schedule_activity_with_retry_on_session`] with typed input and output.
    pub fn schedule_activity_with_retry_on_session_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> impl Future<Output = Result<Out, String>> + Send + 'static {
        let session_id = Some(session_id.into());
        let tried = encode(input).map(|input| Tried { name: name.into(), input, session_id });
        let result = self.clone().try_again(tried, policy);
        async move { decode_result(result.await) }
    }

    async fn try_again(self, tried: Result<Tried, String>, policy: RetryPolicy) -> Text {
        let Tried { name, input, session_id } = tried?;
        let schedule = || {
            let (name, input, session_id) = (name.clone(), input.clone(), session_id.clone());
            self.schedule(Schedule::Activity { name, input, session_id }, |result| result)
        };
        let mut running = schedule();
        let policy = self.recorded(policy).await;
        let mut attempt = 1;
        loop {
            let result = match policy.timeout {
                None => running.await,
                Some(timeout) => match self.select2(running, self.schedule_timer(timeout)).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => return Err(TIMED_OUT.to_string()),
                },
            };
            if result.is_ok() || attempt >= policy.max_attempts {
                return result;
            }
            let delay = policy.delay_for_attempt(attempt);
            if !delay.is_zero() {
                self.schedule_timer(delay).await;
            }
            attempt += 1;
            running = schedule();
        }
    }

    /// The policy with which the execution began.
    async fn recorded(&self, policy: RetryPolicy) -> RetryPolicy {
        // A multiplier that is not a number has no JSON form that can be read back: then the code's policy counts.
        let text = serde_json::to_string(&policy).unwrap_or_default();
        let recorded = self.schedule(Schedule::RetryPolicy { policy: text }, |result| result).await;
        recorded.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(policy)
    }
}
