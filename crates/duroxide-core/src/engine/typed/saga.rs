//! Steps that are compensated when a later one fails.

use std::fmt::{Debug, Formatter};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{AppError, Call, Child, Failure};
use crate::engine::OrchestrationContext;
use crate::model::{BackoffStrategy, RetryPolicy};

/// How often a compensation without a policy of its own is tried: with the delays below, for a quarter of an hour.
const COMPENSATION_ATTEMPTS: u32 = 20;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

impl OrchestrationContext {
    /// A saga without steps.
    pub fn saga<'a>(&self) -> Saga<'a> {
        Saga { compensations: Vec::new() }
    }
}

/// Steps that succeeded, and how to compensate each.
#[must_use = "a saga that is dropped compensates nothing"]
pub struct Saga<'a> {
    compensations: Vec<Compensation<'a>>,
}

type Compensation<'a> = Box<dyn FnOnce() -> Compensating<'a> + Send + 'a>;
type Compensating<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Compensations that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} of {total} compensations failed, the first one: {}", failures.len(), failures.first().map_or("", Failure::message))]
pub struct CompensationFailed {
    /// Why each failed, in the order in which they ran.
    pub failures: Vec<Failure>,
    /// How many ran.
    pub total: usize,
}

/// What a compensation can be: a call of an activity, or a child.
pub trait SagaStep {
    /// Runs it to its end, with retries.
    fn compensate(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<T: DeserializeOwned, E: AppError> SagaStep for Call<T, E> {
    fn compensate(self) -> impl Future<Output = Result<(), Failure>> + Send {
        let backoff = BackoffStrategy::Exponential { base: FIRST_DELAY, multiplier: 2.0, max: LONGEST_DELAY };
        let policy = RetryPolicy::new(COMPENSATION_ATTEMPTS).with_backoff(backoff);
        let call = if self.has_policy() { self } else { self.retry(policy) };
        async move { call.await.map(drop).map_err(Failure::from) }
    }
}

impl<T: DeserializeOwned, E: AppError> SagaStep for Child<T, E> {
    async fn compensate(self) -> Result<(), Failure> {
        self.await.map(drop).map_err(Failure::from)
    }
}

impl<'a> Saga<'a> {
    /// Runs a step. If it succeeds, `compensation` is what [`Self::compensate`] will do about its result.
    pub async fn step<T, E, C>(
        &mut self,
        step: impl Future<Output = Result<T, E>>,
        compensation: impl FnOnce(T) -> C + Send + 'a,
    ) -> Result<T, E>
    where
        T: Clone + Send + 'a,
        C: SagaStep + Send + 'a,
    {
        let result = step.await?;
        let about = result.clone();
        self.compensations.push(Box::new(move || Box::pin(compensation(about).compensate())));
        Ok(result)
    }

    /// Runs the compensations of the steps that succeeded, the last one first, each with retries. One that fails in the end
    /// does not keep the others from running.
    pub async fn compensate(self) -> Result<(), CompensationFailed> {
        let total = self.compensations.len();
        let mut failures = Vec::new();
        for compensation in self.compensations.into_iter().rev() {
            if let Err(failure) = compensation().await {
                failures.push(failure);
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(CompensationFailed { failures, total }) }
    }
}

impl Debug for Saga<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saga").field("steps", &self.compensations.len()).finish()
    }
}
