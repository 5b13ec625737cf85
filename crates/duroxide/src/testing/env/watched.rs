//! What the handlers of an environment and its store report: calls, handlers in progress, how mocks failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use duroxide_core::{
    AppErrorKind, ErrorDetails, Event, EventKind, FunctionName, HandlerError, PoisonMessageType, WorkItem,
};
use tokio::sync::Notify;

use super::deck::Deck;
use super::mocks::{AnyMock, MockFailure};
use crate::providers::FetchedWork;
use crate::testing::{Fault, FaultProvider, FrozeWhen, Method, Observer};

/// How often a poisoned mock says that it was attempted, and how often it might have been: the default of the runtime.
const POISONED_AFTER: u32 = 11;
const MAX_ATTEMPTS: u32 = 10;

/// A handler: an activity by its name, an orchestration by name and version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandlerId {
    pub(super) name: String,
    /// `None` for activities.
    pub(super) version: Option<String>,
}

impl HandlerId {
    pub(super) fn of(named: &FunctionName) -> Self {
        Self { name: named.name.to_string(), version: named.version.as_ref().map(ToString::to_string) }
    }

    pub(super) fn activity(name: &str) -> Self {
        Self { name: name.to_string(), version: None }
    }

    pub(super) fn orchestration(name: &str, version: &str) -> Self {
        Self { name: name.to_string(), version: Some(version.to_string()) }
    }
}

/// A call as it was recorded.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) handler: HandlerId,
    pub(super) input: String,
    pub(super) instance: String,
    pub(super) attempt: u32,
    pub(super) idempotency_key: String,
}

/// One scheduled activity, or one execution of an instance with the activity 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) activity_id: u64,
}

/// What an environment knows of its handlers. Shared by the handlers, the store's observer and the environment.
#[derive(Default)]
pub(super) struct Watched {
    state: Mutex<State>,
    running: AtomicUsize,
    /// Notified when a handler has ended or the test has failed.
    pub(super) changed: Notify,
    /// What goes wrong; `None` without chaos.
    pub(super) deck: Option<Arc<Deck>>,
}

#[derive(Default)]
struct State {
    mocks: BTreeMap<HandlerId, AnyMock>,
    calls: Vec<Recorded>,
    /// Executions of orchestrations that were recorded: each is run many times.
    seen: BTreeSet<Place>,
    /// How mocks failed in another way than by an error of their own.
    failures: BTreeMap<Place, ErrorDetails>,
    /// Activities whose caller has bounded how long they run.
    bounded: BTreeSet<Place>,
    broken: Option<String>,
    /// The instances that the test itself has started.
    started: BTreeSet<String>,
    node: Weak<FaultProvider>,
}

/// A handler in progress.
pub(super) struct Running<'a>(&'a Watched);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl Watched {
    /// With the same mocks, and faults.
    pub(super) fn in_chaos(&self, deck: Arc<Deck>) -> Self {
        let state = State { mocks: self.lock().mocks.clone(), ..State::default() };
        Self { state: Mutex::new(state), deck: Some(deck), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        Running(self)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    pub(super) fn set_mock(&self, handler: HandlerId, mock: AnyMock) {
        self.lock().mocks.insert(handler, mock);
    }

    pub(super) fn mock(&self, handler: &HandlerId) -> Option<AnyMock> {
        self.lock().mocks.get(handler).cloned()
    }

    pub(super) fn record(&self, call: Recorded) {
        self.lock().calls.push(call);
    }

    /// Records an execution of an orchestration once, however often it is replayed.
    pub(super) fn record_once(&self, place: Place, call: Recorded) {
        let mut state = self.lock();
        if state.seen.insert(place) {
            state.calls.push(call);
        }
    }

    pub(super) fn calls(&self, handler: &HandlerId) -> Vec<Recorded> {
        self.lock().calls.iter().filter(|call| call.handler == *handler).cloned().collect()
    }

    /// The test starts an instance.
    pub(super) fn starts(&self, instance: &str) {
        self.lock().started.insert(instance.to_string());
    }

    /// The program of an instance has returned.
    pub(super) fn returned(&self, instance: &str) {
        let is_of_test = self.lock().started.contains(instance);
        if let Some(deck) = self.deck.as_ref().filter(|_| is_of_test) {
            deck.ends();
        }
    }

    /// The test cannot go on, for this reason.
    pub(super) fn fail(&self, text: String) {
        self.lock().broken.get_or_insert(text);
        self.changed.notify_waiters();
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    /// The node that runs now: it dies if a handler is to die.
    pub(super) fn set_node(&self, node: &Arc<FaultProvider>) {
        self.lock().node = Arc::downgrade(node);
    }

    pub(super) fn kill_node(&self) {
        if let Some(node) = self.lock().node.upgrade() {
            node.freeze();
        }
    }

    /// What a handler returns for a failed mock; how it really failed is written when the result is committed.
    pub(super) fn failed(&self, place: Place, failure: MockFailure) -> HandlerError {
        let error = error_of(&failure);
        let is_bounded = self.lock().bounded.contains(&place);
        let is_activity = place.activity_id > 0;
        if is_activity && !is_bounded && matches!(failure, MockFailure::TimedOut { .. }) {
            self.fail(format!(
                "a mock of instance '{}' timed out, but its caller has set no .start_to_close(..): {error}",
                place.instance
            ));
        }
        if let Some(details) = details_of(&place, failure) {
            self.lock().failures.insert(place, details);
        }
        error
    }

    fn failure_at(&self, place: &Place) -> Option<ErrorDetails> {
        self.lock().failures.get(place).cloned()
    }
}

fn error_of(failure: &MockFailure) -> HandlerError {
    match failure {
        MockFailure::App { text, json } => HandlerError { message: text.clone(), error: json.clone() },
        MockFailure::Cancelled { reason } => reason.clone().into(),
        MockFailure::TimedOut { message }
        | MockFailure::Panicked { message }
        | MockFailure::Poisoned { message }
        | MockFailure::Other { message } => message.clone().into(),
    }
}

/// What is stored for a failure that is no error of the handler.
fn details_of(place: &Place, failure: MockFailure) -> Option<ErrorDetails> {
    let application = |kind, message| Some(ErrorDetails::Application { kind, message, retryable: false });
    match failure {
        MockFailure::App { .. } => None,
        // The engine takes a failure that is not retryable for a timeout if the call has a deadline.
        MockFailure::TimedOut { message } => application(AppErrorKind::ActivityFailed, message),
        MockFailure::Cancelled { reason } => {
            application(AppErrorKind::Cancelled { reason: reason.clone() }, reason)
        }
        MockFailure::Panicked { message } => application(AppErrorKind::Panicked, message),
        MockFailure::Poisoned { message } => Some(ErrorDetails::Poison {
            attempt_count: POISONED_AFTER,
            max_attempts: MAX_ATTEMPTS,
            message_type: PoisonMessageType::Orchestration {
                instance: place.instance.clone(),
                execution_id: place.execution_id,
            },
            message,
        }),
        MockFailure::Other { message } => {
            Some(ErrorDetails::Infrastructure { operation: "mock".to_string(), message, retryable: false })
        }
    }
}

impl Observer for Watched {
    fn suffers(&self, _method: Method, fault: Fault) {
        if let Some(deck) = &self.deck {
            deck.suffered(fault);
        }
    }

    fn froze(&self, _method: Method, when: FrozeWhen) {
        if let Some(deck) = &self.deck {
            deck.froze(when);
        }
    }

    fn fetched_work(&self, work: &[FetchedWork]) {
        for fetched in work {
            if let WorkItem::ActivityExecuteWithin { instance, execution_id, id, deadlines, .. } =
                &fetched.item
                && deadlines.start_to_close_ms.is_some()
            {
                let place =
                    Place { instance: instance.clone(), execution_id: *execution_id, activity_id: *id };
                self.lock().bounded.insert(place);
            }
        }
    }

    fn acking_turn(&self, events: &mut Vec<Event>) {
        for event in events {
            if let EventKind::OrchestrationFailed { details } = &mut event.kind
                && let Some(failure) = self.failure_at(&execution_of(&event.instance_id, event.execution_id))
            {
                *details = failure;
            }
        }
    }

    fn sending(&self, events: &[Event], messages: &mut Vec<WorkItem>) {
        let Some(event) = events.last() else { return };
        let Some(failure) = self.failure_at(&execution_of(&event.instance_id, event.execution_id)) else {
            return;
        };
        for message in messages {
            if let WorkItem::SubOrchFailed { details, .. } = message {
                *details = failure.clone();
            }
        }
    }

    fn acking_work(&self, completion: &mut Option<WorkItem>) {
        if let Some(WorkItem::ActivityFailed { instance, execution_id, id, details }) = completion {
            let place = Place { instance: instance.clone(), execution_id: *execution_id, activity_id: *id };
            if let Some(failure) = self.failure_at(&place) {
                *details = failure;
            }
        }
    }
}

pub(super) fn execution_of(instance: &str, execution_id: u64) -> Place {
    Place { instance: instance.to_string(), execution_id, activity_id: 0 }
}
