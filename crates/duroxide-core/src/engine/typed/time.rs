//! Sleeping, and bounding how long something may take.

use std::future::Future;
use std::time::Duration;

use crate::engine::{DurableFuture, Either2, OrchestrationContext};

/// The time was over before the future had an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out after {limit:?}")]
pub struct Elapsed {
    /// The time that there was.
    pub limit: Duration,
}

impl OrchestrationContext {
    /// Waits for a while; the deadline survives crashes.
    #[track_caller]
    pub fn sleep(&self, delay: Duration) -> DurableFuture<()> {
        self.schedule_timer(delay)
    }

    /// Waits for a future for a while at most; the time begins with this call. When it is over, the future is dropped, and
    /// what it scheduled is cancelled.
    #[track_caller]
    pub fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        let timer = self.schedule_timer(limit);
        let ctx = self.clone();
        async move {
            match ctx.select2(future, timer).await {
                Either2::First(output) => Ok(output),
                Either2::Second(()) => Err(Elapsed { limit }),
            }
        }
    }
}
