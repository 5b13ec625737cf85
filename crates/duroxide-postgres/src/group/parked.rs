//! Fetches that wait. They are served inside the transaction whose calls made something ready for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_provider::{ProviderError, TurnRequest, WorkRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::fetch::fetch_turn::{self, Look, RawTurn};
use crate::fetch::fetch_work::{self, RawWork};
use crate::fetch::horizon::{Bounds, Head, Horizons};
use crate::group::call::{Delivery, Locked};
use crate::group::carrier::Inbox;
use crate::values::{Ms, NEVER, after};

/// How soon to look again at what another transaction holds.
const HELD_BY_OTHERS: Duration = Duration::from_millis(20);

/// What a fetch asks for.
pub(crate) trait Request: Send + Clone {
    type Item: Locked;
    /// What the indexes tell apart: the packed versions of executions, or the tags of work items.
    type Class;
    const OPERATION: &'static str;

    /// What was looked for last.
    fn quiet(inbox: &Inbox) -> &Quiet<Self>;

    /// Whether a look for the other that found nothing would have found nothing for this one either.
    fn same_question(&self, other: &Self) -> bool;

    /// How long it locks.
    fn lock_timeout(&self) -> Duration;

    /// Whether a fetch may take this row. One that routes by handler may find that it cannot.
    fn may_take(&self, head: &Head<Self::Class>) -> bool;
}

impl Request for TurnRequest {
    type Item = RawTurn;
    type Class = i64;
    const OPERATION: &'static str = "fetch_orchestration_item";

    fn quiet(inbox: &Inbox) -> &Quiet<Self> {
        &inbox.quiet_turns
    }

    fn same_question(&self, other: &Self) -> bool {
        self.suspects.are_admitted() == other.suspects.are_admitted()
            && self.filter == other.filter
            && same(self.handlers.as_ref(), other.handlers.as_ref())
    }

    fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    fn may_take(&self, head: &Head<i64>) -> bool {
        (!head.suspect || self.suspects.are_admitted()) && fetch_turn::accepts(self, head.class)
    }
}

impl Request for WorkRequest {
    type Item = RawWork;
    type Class = String;
    const OPERATION: &'static str = "fetch_work_item";

    fn quiet(inbox: &Inbox) -> &Quiet<Self> {
        &inbox.quiet_work
    }

    fn same_question(&self, other: &Self) -> bool {
        let same_owner = match (&self.session, &other.session) {
            (Some(one), Some(two)) => one.owner_id == two.owner_id,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.suspects.are_admitted() == other.suspects.are_admitted()
            && same_owner
            && self.session_limits == other.session_limits
            && self.tags == other.tags
            && same(self.activities.as_ref(), other.activities.as_ref())
    }

    fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    fn may_take(&self, head: &Head<String>) -> bool {
        let tags = fetch_work::accepted(&self.tags);
        let suits = tags.is_none_or(|tags| tags.contains(&head.class));
        (!head.suspect || self.suspects.are_admitted()) && suits
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
    /// `None` when it lies too far ahead to matter.
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
        let now = Instant::now();
        (Self { request, timeout, deadline: now.checked_add(timeout), next_due: now, answer }, waiting)
    }

    /// When something must be done for it: at once, unless it was told that there is nothing for it.
    pub(crate) fn first_wake(&self, quiet: &Quiet<R>) -> Instant {
        // One that does not wait would not hear of what others have just made ready.
        let until = if self.timeout.is_zero() { None } else { quiet.until(&self.request) };
        until.map_or(self.next_due, |until| self.deadline.map_or(until, |deadline| deadline.min(until)))
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
    inbox: Arc<Inbox>,
    /// How long a fetch waits at most until it is looked at again.
    patience: Duration,
    pub(crate) horizons: Horizons<R>,
}

/// Questions to which there is no answer before a certain time. Who asks the same again is spared the look until
/// then.
pub(crate) struct Quiet<R>(Mutex<Vec<(R, Instant)>>);

/// Different questions remembered at most: a node asks two or three.
const MAX_QUIET: usize = 8;

impl<R> Default for Quiet<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Request> Quiet<R> {
    fn lock(&self) -> MutexGuard<'_, Vec<(R, Instant)>> {
        // Whole after every operation, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when there is no answer to a question, if that is known.
    fn until(&self, request: &R) -> Option<Instant> {
        self.lock().iter().find(|(asked, _)| asked.same_question(request)).map(|(_, until)| *until)
    }

    fn remember(&self, request: &R, until: Instant) {
        let mut all = self.lock();
        all.retain(|(asked, _)| !asked.same_question(request));
        if all.len() == MAX_QUIET {
            all.remove(0);
        }
        all.push((request.clone(), until));
    }

    /// There may be an answer to each then.
    fn due_from(&self, at: Instant) {
        self.lock().iter_mut().for_each(|(_, until)| *until = at.min(*until));
    }

    /// There may be an answer to this one then.
    fn due_at(&self, request: &R, at: Instant) {
        let mut all = self.lock();
        let same = all.iter_mut().filter(|(asked, _)| asked.same_question(request));
        same.for_each(|(_, until)| *until = at.min(*until));
    }

    /// The next time at which there may be an answer to one.
    fn next_due(&self) -> Option<Instant> {
        let now = Instant::now();
        self.lock().iter().map(|(_, until)| *until).filter(|until| *until > now).min()
    }

    fn forget(&self) {
        self.lock().clear();
    }
}

impl<R: Request> Lane<R> {
    pub(crate) fn new(inbox: Arc<Inbox>, patience: Duration) -> Self {
        Self { waiting: Vec::new(), inbox, patience, horizons: Horizons::default() }
    }

    fn quiet(&self) -> &Quiet<R> {
        R::quiet(&self.inbox)
    }

    pub(crate) fn park(&mut self, mut fetch: ParkedFetch<R>) {
        // One that does not wait would not hear of what others have just made ready.
        let until = if fetch.timeout.is_zero() { None } else { self.quiet().until(&fetch.request) };
        fetch.next_due = until.unwrap_or(fetch.next_due);
        self.waiting.push(fetch);
    }

    /// Something may be ready now.
    pub(crate) fn wake(&mut self) {
        self.due_from(Instant::now());
    }

    /// Something may be ready then.
    pub(crate) fn due_from(&mut self, at: Instant) {
        self.waiting.iter_mut().for_each(|fetch| fetch.next_due = fetch.next_due.min(at));
        self.quiet().due_from(at);
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
    pub(crate) fn forget(&mut self) {
        self.quiet().forget();
        self.horizons.forget();
    }

    /// Claims of sessions changed: what was looked for before may be open now.
    pub(crate) fn forget_quiet(&mut self) {
        self.quiet().forget();
    }

    fn local(&self, at: Ms, now: Ms) -> Instant {
        let left = Duration::from_millis(at.saturating_sub(now).max(0).unsigned_abs());
        Instant::now() + left.min(self.patience)
    }

    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        self.waiting.iter().any(|fetch| fetch.next_due <= now)
    }

    /// When something must be done for one that waits, or for one that will ask what was asked before.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let due = self.waiting.iter().map(|fetch| fetch.next_due).chain(self.quiet().next_due());
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

    /// Where a look for this fetch begins.
    pub(crate) fn start_of(&self, fetch: &ParkedFetch<R>) -> Bounds {
        // One that does not wait would not hear of what others have written behind the horizon.
        if fetch.timeout.is_zero() { Bounds::UNKNOWN } else { self.horizons.of(&fetch.request) }
    }

    /// How far ahead a look sees what will be ready: until the next look.
    pub(crate) fn ahead(&self) -> Ms {
        crate::values::duration(self.patience).min(Ms::MAX / 4)
    }

    /// Puts one back that was not looked at.
    pub(crate) fn put_back(&mut self, fetch: ParkedFetch<R>) {
        self.waiting.insert(0, fetch);
    }

    /// Puts those back that another transaction was in the way of.
    pub(crate) fn put_back_later(&mut self, fetches: Vec<ParkedFetch<R>>) {
        for mut fetch in fetches.into_iter().rev() {
            fetch.next_due = Instant::now() + HELD_BY_OTHERS;
            self.put_back(fetch);
        }
    }

    /// Answers one that was looked at, after the commit, or lets it wait on. Whether it got something.
    pub(crate) fn looked(&mut self, mut fetch: ParkedFetch<R>, look: Look<R::Item>) -> bool {
        let until = if look.next_due <= look.now && look.items.is_empty() {
            Instant::now() + HELD_BY_OTHERS
        } else {
            self.local(look.next_due, look.now)
        };
        self.quiet().remember(&fetch.request, until);
        if let Some(horizon) = look.horizon {
            self.horizons.note(&fetch.request, horizon);
        }
        if !look.items.is_empty() {
            // What was locked for this request is ready for all others when its lock expires.
            let suspect = after(look.now, fetch.request.lock_timeout());
            self.horizons.lower(Bounds { suspect, ..Bounds::NO_ROWS });
        }
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
                && self.quiet().until(&fetch.request).is_some_and(|until| until > now)
        };
        let place = self.waiting.iter().position(is_quiet)?;
        Some(self.waiting.remove(place))
    }

    /// Answers one that got what its own transaction made ready, after the commit. Its locks expire at
    /// `expires_at`.
    pub(crate) fn served(&mut self, fetch: ParkedFetch<R>, items: Vec<R::Item>, expires_at: Ms, now: Ms) {
        let until = self.local(expires_at, now);
        self.quiet().due_at(&fetch.request, until);
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
