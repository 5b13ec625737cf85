//! When time jumps, and when it must not.
//!
//! Time moves only while the test awaits the environment, only while no handler runs, and only while the store is idle:
//! no lock is held and no row is ready. Then it jumps to the next row that is due. In a chaos run tokio's virtual time does the
//! same, by itself.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::watched::Watched;
use crate::clock::{Clock, ManualClock};
use crate::providers::memory::{MemoryProvider, NextStep};
use duroxide_core::status;

/// What moves the time of a store.
pub(super) enum Time {
    /// It stands still until it is set.
    Set(Arc<ManualClock>),
    /// It moves by itself when every task waits.
    Tokio,
}

/// What a test waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal<'a> {
    /// The program has nothing to do before time moves on.
    Settled,
    /// It is this late, and the program has nothing to do.
    At(u64),
    /// The instance has ended.
    EndOf(&'a str),
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Yes,
    /// The instance has not ended, and nothing will happen by itself.
    Stuck,
}

/// The store and the handlers of an environment, with its time.
pub(super) struct Pace<'a> {
    pub(super) store: &'a MemoryProvider,
    pub(super) clock: &'a dyn Clock,
    pub(super) time: &'a Time,
    pub(super) watched: &'a Watched,
}

impl Pace<'_> {
    /// Waits for the goal, and moves time where the program waits for it.
    ///
    /// # Panics
    /// When the program cannot go on: a function without a name or handler, a history that does not fit.
    pub(super) async fn reach(&self, goal: Goal<'_>) -> Reached {
        loop {
            let mut changed = pin!(self.store.next_transaction());
            let mut handler_ended = pin!(self.watched.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            handler_ended.as_mut().enable();
            self.check();
            if let Goal::EndOf(instance) = goal
                && self.has_ended(instance)
            {
                return Reached::Yes;
            }
            let next = if self.watched.is_running() { NextStep::Busy } else { self.store.next_step() };
            let until_ms = match self.next_time(next, goal) {
                Next::Reached(reached) => return reached,
                Next::Change => None,
                Next::At(at_ms) => Some(at_ms),
            };
            match (until_ms, self.time) {
                (Some(at_ms), Time::Set(clock)) => clock.set(at_ms),
                (Some(at_ms), Time::Tokio) => {
                    let left = Duration::from_millis(at_ms.saturating_sub(self.clock.now_ms()));
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = handler_ended => {}
                        () = tokio::time::sleep(left) => {}
                    }
                }
                (None, _) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = handler_ended => {}
                },
            }
        }
    }

    fn next_time(&self, next: NextStep, goal: Goal<'_>) -> Next {
        let now_ms = self.clock.now_ms();
        match (next, goal) {
            (NextStep::Busy, _) => Next::Change,
            (NextStep::IdleUntil { .. } | NextStep::Idle, Goal::Settled) => Next::Reached(Reached::Yes),
            (NextStep::IdleUntil { at_ms }, Goal::EndOf(_)) => Next::At(at_ms),
            (NextStep::Idle, Goal::EndOf(_)) => Next::Reached(Reached::Stuck),
            (NextStep::IdleUntil { at_ms }, Goal::At(goal_ms)) if at_ms <= goal_ms => Next::At(at_ms),
            (NextStep::IdleUntil { .. } | NextStep::Idle, Goal::At(goal_ms)) if now_ms < goal_ms => {
                Next::At(goal_ms)
            }
            (NextStep::IdleUntil { .. } | NextStep::Idle, Goal::At(_)) => Next::Reached(Reached::Yes),
        }
    }

    fn has_ended(&self, instance: &str) -> bool {
        let word = self.store.inspect(instance, |found| found.status);
        word.is_some_and(|word| word == status::COMPLETED || word == status::FAILED)
    }

    fn check(&self) {
        if let Some(text) = self.watched.broken() {
            panic!("{text}");
        }
        if let Some(given_back) = self.store.given_back() {
            panic!("instance '{}' cannot go on: {}", given_back.instance, given_back.cause);
        }
    }
}

/// What comes before the goal.
enum Next {
    Reached(Reached),
    /// A change of the store, or the end of a handler.
    Change,
    /// This time.
    At(u64),
}
