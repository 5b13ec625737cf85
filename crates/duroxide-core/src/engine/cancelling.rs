//! Executions that undo what they did when they are cancelled.
//!
//! The handler's policy is recorded behind the start. A cancel then does not end the execution while a
//! [`OrchestrationContext::cancellable`] scope is open: the scope drops what it runs, waits until the workers have let go of
//! its activities, and gives [`Cancelled`]. The program goes on until a durable deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::commands::{Command, Schedule};
use super::desk::Desk;
use super::execution::{Execution, Pass, Stop};
use super::schedule_calls::duration_ms;
use super::slot::{Resolution, Slot};
use super::turn::DropReason;
use super::{DurableFuture, OrchestrationContext};
use crate::model::limits::MAX_STOP_WAIT_MS;
use crate::model::{CancelPolicy, ErrorDetails, EventKind};

/// The instance was cancelled while a [`OrchestrationContext::cancellable`] scope was open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The reason that was given.
    pub reason: String,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "canceled: {}", self.reason)
    }
}

impl std::error::Error for Cancelled {}

/// The scopes of a program, as the engine sees them.
#[derive(Default)]
pub(super) struct Scopes {
    cancelled: Option<String>,
    /// Those that have been polled and are not done, by number.
    open: BTreeMap<u64, Waker>,
    next: u64,
}

/// What a cancel has begun.
#[derive(Default)]
pub(super) struct Cancelling {
    /// What the handler asked for at the start.
    pub(super) policy: Option<CancelPolicy>,
    begun: Option<Begun>,
    /// Activities that the program gave up since, and that no scope waits for yet.
    given_up: BTreeSet<u64>,
    waits: Vec<StopWait>,
}

struct Begun {
    reason: String,
    /// When it fires, the execution ends as it stands.
    deadline: Arc<Slot>,
}

/// A scope waits until workers have let go.
struct StopWait {
    slot: Arc<Slot>,
    activities: BTreeSet<u64>,
    /// Ends the wait if a worker says nothing.
    timer: Arc<Slot>,
}

impl OrchestrationContext {
    /// Runs a future that a cancel of the instance interrupts, if the handler has a cancel policy
    /// ([`super::OrchestrationHandler::cancel_policy`]). Without one a cancel ends the execution wherever it stands, and so
    /// it does outside such a scope, and the second time.
    ///
    /// After a cancel the future is dropped, which gives up what it scheduled. The scope waits until the workers have let go
    /// of its activities, so that what undoes their effects does not overtake them, and gives [`Cancelled`].
    #[track_caller]
    pub fn cancellable<F: Future>(&self, future: F) -> Cancellable<F> {
        let state = ScopeState::Runs(Box::pin(future));
        Cancellable { desk: self.desk.clone(), scope: None, state, at: Location::caller() }
    }
}

/// See [`OrchestrationContext::cancellable`].
#[must_use = "a scope does nothing unless it is awaited"]
pub struct Cancellable<F> {
    desk: Arc<Desk>,
    /// Its number, once it was polled.
    scope: Option<u64>,
    state: ScopeState<F>,
    /// The line of the program that opened it.
    at: &'static Location<'static>,
}

enum ScopeState<F> {
    Runs(Pin<Box<F>>),
    Stops { stopped: DurableFuture<()>, reason: String },
    Done,
}

impl<F: Future> Future for Cancellable<F> {
    type Output = Result<F::Output, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let ScopeState::Runs(future) = &mut this.state {
            let Some(reason) = this.desk.enter_scope(&mut this.scope, cx.waker()) else {
                let Poll::Ready(output) = future.as_mut().poll(cx) else { return Poll::Pending };
                this.state = ScopeState::Done;
                this.desk.leave_scope(&mut this.scope);
                return Poll::Ready(Ok(output));
            };
            // Drops the future: what it scheduled is given up before the scope begins to wait.
            this.state = ScopeState::Done;
            this.desk.leave_scope(&mut this.scope);
            let slot = Slot::for_line(this.at);
            this.desk.push(Command::AwaitStops { slot: slot.clone() });
            let stopped = DurableFuture::scheduled(slot, this.desk.clone(), |_| ());
            this.state = ScopeState::Stops { stopped, reason };
        }
        let ScopeState::Stops { stopped, reason } = &mut this.state else {
            panic!("a scope was polled after it had completed")
        };
        let Poll::Ready(()) = Pin::new(stopped).poll(cx) else { return Poll::Pending };
        let reason = std::mem::take(reason);
        this.state = ScopeState::Done;
        Poll::Ready(Err(Cancelled { reason }))
    }
}

// The future inside is pinned by its box.
impl<F> Unpin for Cancellable<F> {}

impl<F> Drop for Cancellable<F> {
    fn drop(&mut self) {
        self.desk.leave_scope(&mut self.scope);
    }
}

impl<F> fmt::Debug for Cancellable<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellable").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Desk {
    /// A scope is polled. Gives the reason if the instance is cancelled.
    fn enter_scope(&self, scope: &mut Option<u64>, waker: &Waker) -> Option<String> {
        // A waker may be the program's own code: it is cloned and dropped outside the lock.
        let waker = waker.clone();
        let replaced = self.scopes(|scopes| {
            if let Some(reason) = &scopes.cancelled {
                return Err(reason.clone());
            }
            let number = *scope.get_or_insert_with(|| {
                scopes.next += 1;
                scopes.next
            });
            Ok(scopes.open.insert(number, waker))
        });
        replaced.map(drop).err()
    }

    fn leave_scope(&self, scope: &mut Option<u64>) {
        if let Some(number) = scope.take() {
            drop(self.scopes(|scopes| scopes.open.remove(&number)));
        }
    }

    /// Tells the open scopes. Gives whether there is one.
    fn cancel_scopes(&self, reason: &str) -> bool {
        let open = self.scopes(|scopes| {
            if !scopes.open.is_empty() {
                scopes.cancelled = Some(reason.to_string());
            }
            std::mem::take(&mut scopes.open)
        });
        let is_open = !open.is_empty();
        open.into_values().for_each(Waker::wake);
        is_open
    }
}

impl Execution {
    /// A cancel was admitted: it ends the execution, or lets it undo what it did.
    pub(super) fn cancel_requested(&mut self, reason: &str) -> Result<(), Stop> {
        let policy = self.cancelling.policy.filter(|_| self.cancelling.begun.is_none());
        let Some(policy) = policy.filter(|_| self.desk.cancel_scopes(reason)) else {
            return Err(Stop::Failed(ErrorDetails::cancelled(reason)));
        };
        // A cancel has no line of its own: the program stands behind its last command.
        let deadline = Slot::for_line(self.last_command.unwrap_or(Location::caller()));
        let what = Schedule::Timer { delay_ms: duration_ms(policy.compensate_within) };
        self.desk.push(Command::Schedule { slot: deadline.clone(), what });
        self.cancelling.begun = Some(Begun { reason: reason.to_string(), deadline });
        Ok(())
    }

    /// How an execution ends that a cancel interrupted, whatever its program does; `None` for one that was not.
    pub(super) fn cancelled(&self) -> Option<Stop> {
        let begun = self.cancelling.begun.as_ref()?;
        Some(Stop::Failed(ErrorDetails::cancelled(&begun.reason)))
    }

    /// Ends the execution if this timer is the deadline of its cancel.
    pub(super) fn check_cancel_deadline(&self, timer: u64) -> Result<(), Stop> {
        let is_deadline =
            self.cancelling.begun.as_ref().is_some_and(|begun| begun.deadline.event_id() == timer);
        match self.cancelled() {
            Some(stop) if is_deadline => Err(stop),
            Some(_) | None => Ok(()),
        }
    }

    /// The program gave an activity up.
    pub(super) fn note_given_up(&mut self, activity: u64) {
        if self.cancelling.begun.is_some() {
            self.cancelling.given_up.insert(activity);
        }
    }

    /// A scope waits for what it has just given up.
    pub(super) fn await_stops(&mut self, slot: Arc<Slot>, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let activities = std::mem::take(&mut self.cancelling.given_up);
        if activities.is_empty() {
            slot.resolve(Resolution { value: Ok(String::new()), arrival: 0 });
            return Ok(());
        }
        let timer = Slot::for_line(slot.at());
        self.schedule_timer(timer.clone(), MAX_STOP_WAIT_MS, pass)?;
        self.cancelling.waits.push(StopWait { slot, activities, timer });
        Ok(())
    }

    /// A worker says that it has let go of an activity.
    pub(super) fn admit_stopped(
        &mut self,
        execution_id: u64,
        id: u64,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let is_awaited = self.cancelling.waits.iter().any(|wait| wait.activities.contains(&id));
        if !self.is_for(execution_id, id) {
            pass.actions.dropped.push(DropReason::StaleExecution);
        } else if is_awaited {
            return self.admit_event(Some(id), EventKind::ActivityStopped, pass);
        } else {
            pass.actions.dropped.push(DropReason::Cancelled);
        }
        Ok(())
    }

    /// One activity less to wait for.
    pub(super) fn activity_stopped(&mut self, id: u64) {
        for wait in &mut self.cancelling.waits {
            wait.activities.remove(&id);
        }
        let waits = std::mem::take(&mut self.cancelling.waits);
        let (over, open) = waits.into_iter().partition(|wait| wait.activities.is_empty());
        self.cancelling.waits = open;
        for StopWait { slot, timer, .. } in over {
            self.desk.push(Command::Drop { slot: timer });
            slot.resolve(Resolution { value: Ok(String::new()), arrival: 0 });
        }
    }

    /// If the timer ends a wait for workers, the scope goes on.
    pub(super) fn stop_wait_over(&mut self, timer: u64) {
        let waits = std::mem::take(&mut self.cancelling.waits);
        let (over, open) = waits.into_iter().partition(|wait: &StopWait| wait.timer.event_id() == timer);
        self.cancelling.waits = open;
        for StopWait { slot, .. } in over {
            slot.resolve(Resolution { value: Ok(String::new()), arrival: 0 });
        }
    }
}
