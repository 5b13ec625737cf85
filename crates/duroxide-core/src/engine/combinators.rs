//! `join*` and `select*` of the context, over any futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::OrchestrationContext;

/// Which of two futures was first, with its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Either2<A, B> {
    /// The first one.
    First(A),
    /// The second one.
    Second(B),
}

impl<A, B> Either2<A, B> {
    /// Whether the first future was first.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::First(_))
    }

    /// Whether the second future was first.
    pub fn is_second(&self) -> bool {
        matches!(self, Self::Second(_))
    }

    /// Which it was, counted from 0.
    pub fn index(&self) -> usize {
        match self {
            Self::First(_) => 0,
            Self::Second(_) => 1,
        }
    }
}

impl<T> Either2<T, T> {
    /// Which it was, counted from 0, and its output.
    pub fn into_tuple(self) -> (usize, T) {
        let index = self.index();
        match self {
            Self::First(value) | Self::Second(value) => (index, value),
        }
    }
}

/// Which of three futures was first, with its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Either3<A, B, C> {
    /// The first one.
    First(A),
    /// The second one.
    Second(B),
    /// The third one.
    Third(C),
}

impl<A, B, C> Either3<A, B, C> {
    /// Whether the first future was first.
    pub fn is_first(&self) -> bool {
        matches!(self, Self::First(_))
    }

    /// Whether the second future was first.
    pub fn is_second(&self) -> bool {
        matches!(self, Self::Second(_))
    }

    /// Whether the third future was first.
    pub fn is_third(&self) -> bool {
        matches!(self, Self::Third(_))
    }

    /// Which it was, counted from 0.
    pub fn index(&self) -> usize {
        match self {
            Self::First(_) => 0,
            Self::Second(_) => 1,
            Self::Third(_) => 2,
        }
    }
}

impl<T> Either3<T, T, T> {
    /// Which it was, counted from 0, and its output.
    pub fn into_tuple(self) -> (usize, T) {
        let index = self.index();
        match self {
            Self::First(value) | Self::Second(value) | Self::Third(value) => (index, value),
        }
    }
}

impl OrchestrationContext {
    /// Waits for all, in time linear in their number; the outputs come in the order given.
    pub async fn join<F: Future>(&self, futures: Vec<F>) -> Vec<F::Output> {
        futures_util::future::join_all(futures).await
    }

    /// Waits for both.
    pub async fn join2<A: Future, B: Future>(&self, a: A, b: B) -> (A::Output, B::Output) {
        futures_util::future::join(a, b).await
    }

    /// Waits for all three.
    pub async fn join3<A: Future, B: Future, C: Future>(
        &self,
        a: A,
        b: B,
        c: C,
    ) -> (A::Output, B::Output, C::Output) {
        futures_util::future::join3(a, b, c).await
    }

    /// Waits for the first of two; the other one is dropped and thereby cancelled.
    pub async fn select2<A: Future, B: Future>(&self, a: A, b: B) -> Either2<A::Output, B::Output> {
        let mut a = pin!(a);
        let mut b = pin!(b);
        poll_fn(|cx| {
            if let Poll::Ready(value) = a.as_mut().poll(cx) {
                return Poll::Ready(Either2::First(value));
            }
            b.as_mut().poll(cx).map(Either2::Second)
        })
        .await
    }

    /// Waits for the first of three; the others are dropped and thereby cancelled.
    pub async fn select3<A: Future, B: Future, C: Future>(
        &self,
        a: A,
        b: B,
        c: C,
    ) -> Either3<A::Output, B::Output, C::Output> {
        let mut a = pin!(a);
        let mut b = pin!(b);
        let mut c = pin!(c);
        poll_fn(|cx| {
            if let Poll::Ready(value) = a.as_mut().poll(cx) {
                return Poll::Ready(Either3::First(value));
            }
            if let Poll::Ready(value) = b.as_mut().poll(cx) {
                return Poll::Ready(Either3::Second(value));
            }
            c.as_mut().poll(cx).map(Either3::Third)
        })
        .await
    }
}
