//! Many futures at once.

use std::fmt::{Debug, Formatter};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::{self, TryFuture};

use crate::engine::OrchestrationContext;

impl OrchestrationContext {
    /// Waits for all, any number of them; the outputs come in the order given. What the iterator makes is scheduled by this
    /// call.
    pub fn join_all<I>(&self, futures: I) -> JoinAll<I::Item>
    where
        I: IntoIterator,
        I::Item: Future,
    {
        JoinAll { all: Box::pin(future::join_all(futures)) }
    }

    /// Waits for all, or for the first error: then the others are dropped, and what they scheduled is cancelled.
    pub fn try_join_all<I, T, E>(&self, futures: I) -> TryJoinAll<I::Item>
    where
        I: IntoIterator,
        I::Item: Future<Output = Result<T, E>>,
    {
        TryJoinAll { all: Some(Box::pin(future::try_join_all(futures))) }
    }
}

/// What [`OrchestrationContext::join_all`] returns.
///
/// It names the futures and not the iterator that made them: a closure that borrows would else be part of the program's
/// future, which then would not be `Send` for the compiler.
#[must_use = "futures do nothing unless awaited"]
pub struct JoinAll<F: Future> {
    all: Pin<Box<future::JoinAll<F>>>,
}

/// What [`OrchestrationContext::try_join_all`] returns.
#[must_use = "futures do nothing unless awaited"]
pub struct TryJoinAll<F: TryFuture> {
    /// `None` once there is a result: the others are dropped with it, and not when the caller drops this.
    all: Option<Pin<Box<future::TryJoinAll<F>>>>,
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.all.as_mut().poll(cx)
    }
}

impl<F: TryFuture> Future for TryJoinAll<F> {
    type Output = Result<Vec<F::Ok>, F::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let all = self.all.as_mut().expect("a future is not polled after it was ready");
        let result = std::task::ready!(all.as_mut().poll(cx));
        self.all = None;
        Poll::Ready(result)
    }
}

impl<F: Future> Debug for JoinAll<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinAll").finish_non_exhaustive()
    }
}

impl<F: TryFuture> Debug for TryJoinAll<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryJoinAll").finish_non_exhaustive()
    }
}
