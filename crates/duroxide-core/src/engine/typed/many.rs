//! Many futures at once.

use std::future::Future;

use futures_util::future;

use crate::engine::OrchestrationContext;

impl OrchestrationContext {
    /// Waits for all, any number of them; the outputs come in the order given. What the iterator makes is scheduled by this
    /// call.
    pub fn join_all<I>(&self, futures: I) -> impl Future<Output = Vec<<I::Item as Future>::Output>> + use<I>
    where
        I: IntoIterator,
        I::Item: Future,
    {
        future::join_all(futures)
    }

    /// Waits for all, or for the first error: then the others are dropped, and what they scheduled is cancelled.
    pub fn try_join_all<I, T, E>(&self, futures: I) -> impl Future<Output = Result<Vec<T>, E>> + use<I, T, E>
    where
        I: IntoIterator,
        I::Item: Future<Output = Result<T, E>>,
    {
        future::try_join_all(futures)
    }
}
