//! Fetches that wait. They are served inside the transaction whose calls made something ready for them.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, TurnRequest, WorkRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::call::{Delivery, Locked};
use crate::carrier::Inbox;
use crate::fetch_turn::{Look, RawTurn};
use crate::fetch_work::RawWork;
use crate::values::{Ms, NEVER};

/// How soon to look again at what another transaction holds.
const HELD_BY_OTHERS: Duration = Duration::from_millis(20);

/// What a fetch asks for.
pub(crate) trait Request: Send + Clone {
    type Item: Locked;
    const OPERATION: &'static str;

    /// Whether a look for the other that found nothing would have found nothing for this one either.
    fn same_question(&self, other: &Self) -> bool;
}

impl Request for TurnRequest {
    type Item = RawTurn;
    const OPERATION: &'static str = "fetch_orchestration_item";

    fn same_question(&self, other: &Self) -> bool {
        self.suspects == other.suspects
            && self.filter == other.filter
            && same(self.handlers.as_ref(), other.handlers.as_ref())
    }
}

impl Request for WorkRequest {
    type Item = RawWork;
    const OPERATION: &'static str = "fetch_work_item";

    fn same_question(&self, other: &Self) -> bool {
        let same_owner = match (&self.session, &other.session) {
            (Some(one), Some(two)) => one.owner_id == two.owner_id,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.suspects == other.suspects
            && same_owner
            && self.session_limits == other.session_limits
            && self.tags == other.tags
            && same(self.activities.as_ref(), other.activities.as_ref())
    }
}

/// Whether two nodes can do the same. Mostly it is one and the same node.
fn same<T: PartialEq>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// A fetch that waits.
pub(crate) struct ParkedFetch<R: Request> {
    pub(crate) request: R,
    timeout: Duration,
    /// Set when it is parked; `None` when it lies too far ahead to matter.
    deadline: Option<Instant>,
    /// When it must be looked at next.
    next_due: Instant,
    answer: oneshot::Sender<Result<Delivery<R::Item>, ProviderError>>,
}

/// Who waits for the answer to a fetch.
pub(crate) type Waiting<R> = oneshot::Receiver<Result<Delivery<<R as Request>::Item>, ProviderError>>;

impl<R: Request> ParkedFetch<R> {
    pub(crate) fn new(request: R, timeout: Duration) -> (Self, Waiting<R>) {
        let (answer, waiting) = oneshot::channel();
        (Self { request, timeout, deadline: None, next_due: Instant::now(), answer }, waiting)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    pub(crate) fn fail(self, error: &ProviderError) {
        let failed = ProviderError::of_kind(error.kind(), R::OPERATION, error.message.clone());
        drop(self.answer.send(Err(failed.with_source(error.clone()))));
    }
}

/// All fetches that wait at one queue, in the order of their arrival.
pub(crate) struct Lane<R: Request> {
    waiting: Vec<ParkedFetch<R>>,
    /// What was looked for last. Who asks the same again is spared the look until something is due.
    quiet: Vec<Quiet<R>>,
    inbox: Arc<Inbox>,
    /// How long a fetch waits at most until it is looked at again.
    patience: Duration,
}

/// A question to which there is no answer before a certain time.
struct Quiet<R> {
    request: R,
    until: Instant,
}

/// Different questions remembered at most: a node asks two or three.
const MAX_QUIET: usize = 8;

impl<R: Request> Lane<R> {
    pub(crate) fn new(inbox: Arc<Inbox>, patience: Duration) -> Self {
        Self { waiting: Vec::new(), quiet: Vec::new(), inbox, patience }
    }

    pub(crate) fn park(&mut self, mut fetch: ParkedFetch<R>) {
        let now = Instant::now();
        fetch.deadline = now.checked_add(fetch.timeout);
        fetch.next_due = now;
        // One that does not wait would not hear of what others have just made ready.
        let waits = !fetch.timeout.is_zero();
        let quiet = self.quiet.iter().find(|quiet| waits && quiet.request.same_question(&fetch.request));
        if let Some(quiet) = quiet {
            fetch.next_due = quiet.until;
        }
        self.waiting.push(fetch);
    }

    /// Something may be ready now.
    pub(crate) fn wake(&mut self) {
        self.due_from(Instant::now());
    }

    /// Something may be ready then.
    pub(crate) fn due_from(&mut self, at: Instant) {
        self.waiting.iter_mut().for_each(|fetch| fetch.next_due = fetch.next_due.min(at));
        self.quiet.iter_mut().for_each(|quiet| quiet.until = quiet.until.min(at));
    }

    /// A transaction at `now` made something ready at `due` and, what may be later, at `soon`.
    pub(crate) fn due_later(&mut self, due: Ms, soon: Ms, now: Ms) {
        let at = if due > now { due.min(soon) } else { soon };
        if at != NEVER {
            let at = self.local(at, now);
            self.due_from(at);
        }
    }

    /// Nothing is known any more.
    pub(crate) fn forget_quiet(&mut self) {
        self.quiet.clear();
    }

    fn remember_quiet(&mut self, request: &R, until: Instant) {
        self.quiet.retain(|quiet| !quiet.request.same_question(request));
        if self.quiet.len() == MAX_QUIET {
            self.quiet.remove(0);
        }
        self.quiet.push(Quiet { request: request.clone(), until });
    }

    fn local(&self, at: Ms, now: Ms) -> Instant {
        let left = Duration::from_millis(at.saturating_sub(now).max(0).unsigned_abs());
        Instant::now() + left.min(self.patience)
    }

    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        self.waiting.iter().any(|fetch| fetch.next_due <= now)
    }

    /// When something must be done for one that waits.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let due = self.waiting.iter().map(|fetch| fetch.next_due);
        due.chain(self.waiting.iter().filter_map(|fetch| fetch.deadline)).min()
    }

    /// Takes out those that must be looked at: one for each question, the oldest. The others follow when it is
    /// known whether there was anything.
    pub(crate) fn take_due(&mut self) -> Vec<ParkedFetch<R>> {
        let now = Instant::now();
        let mut due: Vec<ParkedFetch<R>> = Vec::new();
        let mut waiting = Vec::with_capacity(self.waiting.len());
        for fetch in std::mem::take(&mut self.waiting) {
            if fetch.answer.is_closed() {
                continue;
            }
            let first = due.iter().all(|other| !other.request.same_question(&fetch.request));
            if fetch.next_due <= now && first { due.push(fetch) } else { waiting.push(fetch) }
        }
        self.waiting = waiting;
        due
    }

    /// Puts one back that was not looked at.
    pub(crate) fn put_back(&mut self, fetch: ParkedFetch<R>) {
        self.waiting.insert(0, fetch);
    }

    /// Answers one that was looked at, after the commit, or lets it wait on. Whether it got something.
    pub(crate) fn looked(&mut self, mut fetch: ParkedFetch<R>, look: Look<R::Item>) -> bool {
        let until = if look.next_due <= look.now && look.items.is_empty() {
            Instant::now() + HELD_BY_OTHERS
        } else {
            self.local(look.next_due, look.now)
        };
        self.remember_quiet(&fetch.request, until);
        // Who asks the same has the same answer.
        for other in &mut self.waiting {
            if other.request.same_question(&fetch.request) {
                other.next_due = other.next_due.max(until);
            }
        }
        if !look.items.is_empty() {
            let delivery = Delivery::new(look.items, Arc::clone(&self.inbox));
            // If nobody waits any more, dropping the delivery gives its locks back.
            drop(fetch.answer.send(Ok(delivery)));
            return true;
        }
        fetch.next_due = until;
        self.put_back(fetch);
        false
    }

    /// Takes out the oldest that was told that there is nothing for it, if that is still so.
    pub(crate) fn take_quiet(&mut self) -> Option<ParkedFetch<R>> {
        let now = Instant::now();
        let is_quiet = |fetch: &ParkedFetch<R>| {
            fetch.next_due > now
                && !fetch.answer.is_closed()
                && self
                    .quiet
                    .iter()
                    .any(|quiet| quiet.until > now && quiet.request.same_question(&fetch.request))
        };
        let place = self.waiting.iter().position(is_quiet)?;
        Some(self.waiting.remove(place))
    }

    /// Answers one that got what its own transaction made ready, after the commit. Its locks expire at
    /// `expires_at`.
    pub(crate) fn served(&mut self, fetch: ParkedFetch<R>, items: Vec<R::Item>, expires_at: Ms, now: Ms) {
        let until = self.local(expires_at, now);
        for quiet in &mut self.quiet {
            if quiet.request.same_question(&fetch.request) {
                quiet.until = quiet.until.min(until);
            }
        }
        if items.is_empty() {
            return self.put_back(fetch);
        }
        drop(fetch.answer.send(Ok(Delivery::new(items, Arc::clone(&self.inbox)))));
    }

    /// Fails those that were to be looked at.
    pub(crate) fn fail(fetches: Vec<ParkedFetch<R>>, error: &ProviderError) {
        fetches.into_iter().for_each(|fetch| fetch.fail(error));
    }

    /// Answers those whose time is over, and forgets those that nobody waits for.
    pub(crate) fn expire(&mut self) {
        let now = Instant::now();
        if self.waiting.iter().all(|fetch| !fetch.is_over(now) && !fetch.answer.is_closed()) {
            return;
        }
        for fetch in std::mem::take(&mut self.waiting) {
            // A fetch that does not wait is looked at once all the same.
            if fetch.is_over(now) && fetch.next_due > now {
                drop(fetch.answer.send(Ok(Delivery::new(Vec::new(), Arc::clone(&self.inbox)))));
            } else if !fetch.answer.is_closed() {
                self.waiting.push(fetch);
            }
        }
    }
}
