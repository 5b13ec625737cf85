//! Fetches that wait. They are served inside the transaction whose calls made something ready for them.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use duroxide_provider::{FetchedWork, ProviderError, TurnRequest, WorkRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::call::{Delivery, Locked, Message, renamed};
use super::fault::Fault;
use super::fetch_turn::{self, Look};
use super::fetch_work;
use super::raw_turn::RawTurn;
use super::tx::Tx;
use super::values::{Ms, NEVER};

/// What a fetch asks for.
pub(super) trait Request: Send + Clone {
    type Item: Locked;
    const OPERATION: &'static str;

    /// Locks what is ready.
    fn look(&self, tx: &mut Tx<'_>) -> Result<Look<Self::Item>, Fault>;

    /// Whether a look for the other that left nothing behind would have left nothing for this one either.
    fn same_question(&self, other: &Self) -> bool;
}

impl Request for TurnRequest {
    type Item = RawTurn;
    const OPERATION: &'static str = "fetch_orchestration_item";

    fn look(&self, tx: &mut Tx<'_>) -> Result<Look<RawTurn>, Fault> {
        fetch_turn::look(tx, self)
    }

    fn same_question(&self, other: &Self) -> bool {
        let same_handlers = match (&self.handlers, &other.handlers) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two) || one == two,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.suspects.are_admitted() == other.suspects.are_admitted()
            && self.filter == other.filter
            && same_handlers
    }
}

impl Request for WorkRequest {
    type Item = FetchedWork;
    const OPERATION: &'static str = "fetch_work_item";

    fn look(&self, tx: &mut Tx<'_>) -> Result<Look<FetchedWork>, Fault> {
        fetch_work::look(tx, self)
    }

    fn same_question(&self, other: &Self) -> bool {
        let same_owner = match (&self.session, &other.session) {
            (Some(one), Some(two)) => one.owner_id == two.owner_id,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let same_activities = match (&self.activities, &other.activities) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two) || one == two,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.suspects.are_admitted() == other.suspects.are_admitted()
            && same_activities
            && same_owner
            && self.session_limits == other.session_limits
            && self.tags == other.tags
    }
}

/// A fetch that waits.
pub(super) struct ParkedFetch<R, T: Locked> {
    pub(super) request: R,
    timeout: Duration,
    /// Set when it is parked; `None` when it lies too far ahead to matter.
    deadline: Option<Instant>,
    /// When it must be looked at next; the distant past before the first look.
    next_due: Ms,
    answer: oneshot::Sender<Result<Delivery<T>, ProviderError>>,
}

impl<R: Request> ParkedFetch<R, R::Item> {
    pub(super) fn new(
        request: R,
        timeout: Duration,
        answer: oneshot::Sender<Result<Delivery<R::Item>, ProviderError>>,
    ) -> Self {
        Self { request, timeout, deadline: None, next_due: Ms::MIN, answer }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// All fetches that wait at one queue, in the order of their arrival.
pub(super) struct Lane<R: Request> {
    waiting: Vec<ParkedFetch<R, R::Item>>,
    /// What the last looks left nothing of. Who asks the same again is spared the look until something is due.
    quiet: Vec<Quiet<R>>,
    served: Vec<Served<R>>,
    writer: Sender<Message>,
}

/// A question whose answer is known to be nothing before a certain time: it was asked in vain, or whoever asked it
/// was given all there was.
struct Quiet<R> {
    request: R,
    next_due: Ms,
}

/// Different questions remembered at most: a node asks two or three.
const MAX_QUIET: usize = 8;

/// A fetch whose answer leaves after the commit.
struct Served<R: Request> {
    answer: oneshot::Sender<Result<Delivery<R::Item>, ProviderError>>,
    outcome: Result<Delivery<R::Item>, ProviderError>,
}

/// What became of a look that was carried out in its own savepoint.
pub(super) type Looked<T> = Result<Look<T>, Fault>;

impl<R: Request> Lane<R> {
    pub(super) fn new(writer: Sender<Message>) -> Self {
        Self { waiting: Vec::new(), quiet: Vec::new(), served: Vec::new(), writer }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn park(&mut self, mut fetch: ParkedFetch<R, R::Item>) {
        fetch.deadline = Instant::now().checked_add(fetch.timeout);
        fetch.next_due = self.quiet_until(&fetch.request);
        self.waiting.push(fetch);
    }

    /// Until when the answer to a question is known to be nothing.
    fn quiet_until(&self, request: &R) -> Ms {
        let known = self.quiet.iter().find(|quiet| quiet.request.same_question(request));
        known.map_or(Ms::MIN, |quiet| quiet.next_due)
    }

    /// Something may be ready at `at`.
    pub(super) fn due_at(&mut self, at: Ms) {
        if at == NEVER {
            return;
        }
        for fetch in &mut self.waiting {
            fetch.next_due = fetch.next_due.min(at);
        }
        for quiet in &mut self.quiet {
            quiet.next_due = quiet.next_due.min(at);
        }
    }

    fn remember_quiet(&mut self, request: &R, next_due: Ms) {
        self.quiet.retain(|quiet| !quiet.request.same_question(request));
        if self.quiet.len() == MAX_QUIET {
            self.quiet.remove(0);
        }
        self.quiet.push(Quiet { request: request.clone(), next_due });
    }

    /// When the next look is due.
    pub(super) fn next_due(&self) -> Ms {
        self.waiting.iter().map(|fetch| fetch.next_due).min().unwrap_or(NEVER)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|fetch| fetch.deadline).min()
    }

    /// Looks for every fetch that is due. `attempt` carries a look out in a savepoint of its own.
    pub(super) fn serve(&mut self, now: Ms, mut attempt: impl FnMut(&R) -> Looked<R::Item>) {
        for mut fetch in std::mem::take(&mut self.waiting) {
            if fetch.answer.is_closed() {
                continue;
            }
            if fetch.next_due <= now {
                // A look for another like it may have left nothing behind.
                fetch.next_due = self.quiet_until(&fetch.request);
            }
            if fetch.next_due > now {
                self.waiting.push(fetch);
                continue;
            }
            let outcome = match attempt(&fetch.request) {
                Ok(look) if look.items.is_empty() => {
                    fetch.next_due = look.next_due;
                    self.remember_quiet(&fetch.request, look.next_due);
                    self.waiting.push(fetch);
                    continue;
                }
                Ok(look) => {
                    // What was taken may have claimed a session, which answers other questions anew.
                    self.quiet.clear();
                    self.remember_quiet(&fetch.request, look.next_due);
                    Ok(Delivery::new(look.items, self.writer.clone()))
                }
                Err(fault) => Err(fault.into_error(R::OPERATION)),
            };
            self.served.push(Served { answer: fetch.answer, outcome });
        }
    }

    /// Takes out the oldest that was told that there is nothing for it, if that is still so.
    pub(super) fn take_quiet(&mut self, now: Ms) -> Option<ParkedFetch<R, R::Item>> {
        let is_quiet = |fetch: &ParkedFetch<R, R::Item>| fetch.next_due > now && !fetch.answer.is_closed();
        let place = self.waiting.iter().position(is_quiet)?;
        Some(self.waiting.remove(place))
    }

    /// Lets a fetch wait again that got nothing after all.
    pub(super) fn park_again(&mut self, fetch: ParkedFetch<R, R::Item>) {
        self.waiting.insert(0, fetch);
    }

    /// Serves a fetch with what its own transaction made ready. The locks end at `until`, which others wait for, too.
    pub(super) fn give(
        &mut self,
        fetch: ParkedFetch<R, R::Item>,
        items: Result<Vec<R::Item>, Fault>,
        until: Ms,
    ) {
        self.due_at(until);
        let outcome = match items {
            Ok(items) if items.is_empty() => return self.park_again(fetch),
            Ok(items) => Ok(Delivery::new(items, self.writer.clone())),
            Err(fault) => Err(fault.into_error(R::OPERATION)),
        };
        self.served.push(Served { answer: fetch.answer, outcome });
    }

    /// How many were served in the transaction under way.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Sends the answers of those that were served, after the commit.
    pub(super) fn committed(&mut self) {
        for Served { answer, outcome } in std::mem::take(&mut self.served) {
            // If nobody waits any more, dropping the delivery gives its locks back.
            drop(answer.send(outcome));
        }
    }

    /// Fails those that were served, after a commit that failed.
    pub(super) fn rolled_back(&mut self, failure: &ProviderError) {
        for Served { answer, outcome } in std::mem::take(&mut self.served) {
            if let Ok(delivery) = outcome {
                delivery.rolled_back();
            }
            drop(answer.send(Err(renamed(failure, R::OPERATION))));
        }
        // What was looked for in vain may have been taken by those that were served, and is there again.
        self.due_at(Ms::MIN);
    }

    /// Fails those whose look was due when no transaction could be begun.
    pub(super) fn fail_due(&mut self, now: Ms, failure: &ProviderError) {
        let (due, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|fetch| fetch.next_due <= now);
        self.waiting = waiting;
        let due: Vec<ParkedFetch<R, R::Item>> = due;
        for fetch in due {
            drop(fetch.answer.send(Err(renamed(failure, R::OPERATION))));
        }
    }

    /// Answers those whose time is over, and forgets those that nobody waits for.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.waiting.iter().all(|fetch| !fetch.is_over(now) && !fetch.answer.is_closed()) {
            return;
        }
        for fetch in std::mem::take(&mut self.waiting) {
            if fetch.is_over(now) {
                drop(fetch.answer.send(Ok(Delivery::new(Vec::new(), self.writer.clone()))));
            } else if !fetch.answer.is_closed() {
                self.waiting.push(fetch);
            }
        }
    }
}
