//! A live execution: the program's future and all that the engine knows about it.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use semver::Version;

use super::asking::KvQuestion;
use super::behaviour::Behaviour;
use super::cancelling::Cancelling;
use super::context::Identity;
use super::deadlines::StartDeadlines;
use super::desk::Desk;
use super::guards::Guards;
use super::mismatch::unexpected_event;
use super::program_scope::Phase;
use super::schedules::Schedules;
use super::subscriptions::Subscriptions;
use super::tape::{Recorded, Tape, stored_bytes};
use super::turn::DropReason;
use super::wake::RootWake;
use super::{HandlerError, OrchestrationContext, OrchestrationHandler};
use crate::model::limits::{MAX_HISTORY_EVENTS, MAX_IDLE_WAKES_PER_TURN};
use crate::model::{
    ErrorDetails, Event, EventKind, KvEntry, ParentLink, ScheduledActivityIdentifier, WorkItem,
    check_payload, pinned_version_of,
};
use crate::test_fault;

type Program = Pin<Box<dyn Future<Output = Result<String, HandlerError>> + Send>>;

/// A live execution. Kept in memory between turns, it saves the next turn reading and replaying the history.
pub struct Execution {
    pub(super) identity: Arc<Identity>,
    pub(super) parent: Option<ParentLink>,
    pub(super) desk: Arc<Desk>,
    program: Option<Program>,
    pub(super) wake: Arc<RootWake>,
    pub(super) guards: Guards,
    /// The events up to the last turn, if they are kept.
    pub(super) kept_events: Option<Vec<Event>>,
    /// The line of the program that gave the last command.
    pub(super) last_command: Option<&'static Location<'static>>,
    pub(super) schedules: Schedules,
    pub(super) events: Subscriptions,
    pub(super) queues: Subscriptions,
    /// Counts events and queue messages as they arrive.
    pub(super) arrivals: u64,
    pub(super) last_event_id: u64,
    pub(super) last_timestamp_ms: u64,
    /// The stored bytes of the history before the turn.
    pub(super) history_bytes: u64,
    /// Values of other instances that the program asked for and that have not been answered, by event id.
    pub(super) questions: BTreeMap<u64, KvQuestion>,
    /// Activities that must begin in time.
    pub(super) start_deadlines: StartDeadlines,
    /// The executions of schedules that an earlier execution made, by event id: this one was redriven.
    scheduled_earlier: BTreeMap<u64, u64>,
    /// The error of the failure that is admitted next.
    pub(super) recorded_error: Option<RecordedError>,
    pub(super) cancelling: Cancelling,
    /// The version that the execution is pinned to.
    pub(super) pinned: Option<Version>,
}

/// An error of the program's own that stands before its failure.
pub(super) struct RecordedError {
    /// The activity or child that failed.
    pub(super) schedule: u64,
    /// As JSON.
    pub(super) error: String,
    pub(super) panicked: bool,
}

/// Why an execution goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    Completed(String),
    Failed(ErrorDetails),
    /// The program returned an error that is more than a text: JSON.
    Errored {
        details: ErrorDetails,
        error: String,
    },
    ContinuedAsNew {
        input: String,
        version: Option<String>,
        custom_status: Option<String>,
    },
    Nondeterministic(String),
    Panicked(String),
    /// The program called a function that has no name on this node: nothing of the turn counts.
    Unnamed(String),
}

impl Stop {
    /// The program broke a rule or a limit.
    pub(super) fn violation(message: impl Into<String>) -> Self {
        Self::Failed(ErrorDetails::orchestration_failed(message))
    }
}

/// One pass over an execution: what it reads, and what it asks for.
pub(super) struct Pass<'a> {
    pub(super) tape: Tape<'a>,
    pub(super) actions: Actions,
}

/// What a turn asks for besides its events.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) worker_items: Vec<WorkItem>,
    pub(super) orchestrator_items: Vec<WorkItem>,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
    pub(super) dropped: Vec<DropReason>,
    pub(super) scheduled: usize,
}

impl Execution {
    /// The execution that `started` begins. The program does not run before [`Self::settle`].
    pub(super) fn new(
        handler: Arc<dyn OrchestrationHandler>,
        started: &Event,
        execution_id: u64,
        guards: Guards,
    ) -> Result<Self, String> {
        let EventKind::OrchestrationStarted {
            name,
            version,
            input,
            parent_instance,
            parent_id,
            parent_execution_id,
            carry_forward_events,
            initial_custom_status,
        } = &started.kind
        else {
            return Err(unexpected_event(started));
        };
        let identity = Arc::new(Identity {
            instance: started.instance_id.clone(),
            execution_id,
            name: name.clone(),
            version: version.clone(),
            behaviour: Behaviour::of(started),
            names: handler.function_names().unwrap_or_default(),
        });
        let desk = Arc::new(Desk::default());
        let ctx = OrchestrationContext::new(desk.clone(), identity.clone());
        let input = input.clone();
        let program: Program = Box::pin(async move { handler.run(ctx, input).await });
        let mut execution = Self {
            identity,
            parent: ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id),
            desk,
            program: Some(program),
            wake: Arc::default(),
            guards,
            kept_events: None,
            last_command: None,
            schedules: Schedules::default(),
            events: Subscriptions::default(),
            queues: Subscriptions::default(),
            arrivals: 0,
            last_event_id: started.event_id,
            last_timestamp_ms: started.timestamp_ms,
            history_bytes: stored_bytes(started),
            questions: BTreeMap::new(),
            start_deadlines: StartDeadlines::default(),
            scheduled_earlier: BTreeMap::new(),
            recorded_error: None,
            cancelling: Cancelling::default(),
            pinned: pinned_version_of(std::slice::from_ref(started)),
        };
        execution.desk.view(|view| {
            view.custom_status.clone_from(initial_custom_status);
            view.now_ms = started.timestamp_ms;
            view.execution_id = started.execution_id;
        });
        for (queue, data) in carry_forward_events.iter().flatten() {
            execution.arrivals += 1;
            let delivery = execution.queues.arrive(queue, execution.arrivals, data.clone());
            debug_assert!(delivery.is_none(), "nothing waits before the program runs");
        }
        Ok(execution)
    }

    /// The execution in which a schedule was made: this one, or one that failed and was redriven.
    pub(super) fn scheduled_in(&self, event_id: u64) -> u64 {
        self.scheduled_earlier.get(&event_id).copied().unwrap_or(self.identity.execution_id)
    }

    pub(super) fn note_execution(&mut self, recorded: Recorded) {
        if recorded.execution_id != self.identity.execution_id {
            self.scheduled_earlier.insert(recorded.event_id, recorded.execution_id);
        }
    }

    /// Whether an answer that names an execution can be meant for this schedule.
    pub(super) fn is_for(&self, execution_id: u64, event_id: u64) -> bool {
        test_fault!(ExecutionsAreApart => return true);
        execution_id == self.identity.execution_id || execution_id == self.scheduled_in(event_id)
    }

    /// The last event that the execution knows.
    pub fn last_event_id(&self) -> u64 {
        self.last_event_id
    }

    /// The stored bytes of the history that the execution knows: what it keeps of it in memory is hardly more.
    pub fn history_bytes(&self) -> u64 {
        self.history_bytes
    }

    /// The events up to the last turn, if they are kept ([`Guards::keep_events`]).
    pub fn kept_events(&self) -> Option<&[Event]> {
        self.kept_events.as_deref()
    }

    /// The number of the execution.
    pub fn execution_id(&self) -> u64 {
        self.identity.execution_id
    }

    /// The orchestration's name.
    pub fn orchestration_name(&self) -> &str {
        &self.identity.name
    }

    /// The version of its handler.
    pub fn orchestration_version(&self) -> &str {
        &self.identity.version
    }

    /// Replays the history that the tape holds, up to its end.
    pub(super) fn replay(&mut self, pass: &mut Pass<'_>) -> Result<(), Stop> {
        self.desk.set_replaying(true);
        self.settle(pass)?;
        while let Some(event) = pass.tape.take() {
            if !is_admitted(&event.kind) {
                let diff = unexpected_event(event) + &self.after_last_command();
                return Err(Stop::Nondeterministic(diff));
            }
            self.last_timestamp_ms = self.last_timestamp_ms.max(event.timestamp_ms);
            // What the program did then, it did at the time of the event that it did it about.
            self.desk.view(|view| view.now_ms = self.last_timestamp_ms);
            self.apply(event.source_event_id, &event.kind)?;
            // An error is admitted together with the failure behind it.
            if !matches!(event.kind, EventKind::ErrorRecorded { .. }) {
                self.settle(pass)?;
            }
        }
        self.desk.set_replaying(false);
        self.desk.view(|view| view.now_ms = pass.tape.now_ms);
        Ok(())
    }

    /// Takes over what the KV store held when the execution began.
    pub(super) fn carry_over(&mut self, values: &BTreeMap<String, KvEntry>) {
        self.desk.view(|view| {
            for (key, entry) in values {
                view.set(key.clone(), entry.clone());
            }
        });
    }

    fn note_size(&self, pass: &Pass<'_>) {
        let unread = self.events.unread() + self.queues.unread();
        self.desk.view(|view| {
            view.history_event_count = pass.tape.next_event_id().saturating_sub(1);
            view.history_size_bytes = self.history_bytes + pass.tape.bytes;
            view.unread_count = unread;
        });
    }

    /// Lets the program run until it waits, recording what it does.
    pub(super) fn settle(&mut self, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let _in_turn = self.wake.in_turn();
        let mut idle_wakes = 0usize;
        self.desk.begin_step();
        loop {
            self.wake.reset();
            self.note_size(pass);
            let Polled { result, fault } = self.poll();
            let commands = self.desk.take_commands();
            let did_something = !commands.is_empty();
            match result {
                Ok(Poll::Pending) => {
                    self.carry_out(commands, pass)?;
                    self.check_poll(fault)?;
                }
                Ok(Poll::Ready(result)) => {
                    self.carry_out(commands, pass)?;
                    self.check_poll(fault)?;
                    return Err(self.returned(result, pass));
                }
                Err(panicked) => {
                    // What the program did before it panicked counts, as it does before an error. In the
                    // middle of a history the panic says more than the difference that it causes.
                    if !pass.tape.is_replaying() {
                        self.carry_out(commands, pass)?;
                    }
                    return Err(panicked);
                }
            }
            if !self.wake.is_woken() {
                return self.check_waits(pass);
            }
            idle_wakes = if did_something { 0 } else { idle_wakes + 1 };
            if idle_wakes > MAX_IDLE_WAKES_PER_TURN {
                return Err(Stop::violation(format!(
                    "the orchestration woke itself {MAX_IDLE_WAKES_PER_TURN} times without scheduling anything: \
                     await what the context schedules instead of yielding in a loop"
                )));
            }
        }
    }

    fn returned(&self, result: Result<String, HandlerError>, pass: &Pass<'_>) -> Stop {
        if let Some(next) = pass.tape.peek() {
            let diff = format!("{}: it has returned{}", unexpected_event(next), self.after_last_command());
            return Stop::Nondeterministic(diff);
        }
        if let Some(cancelled) = self.cancelled() {
            return cancelled;
        }
        match result {
            Ok(output) => match check_payload("orchestration output", &output) {
                Ok(()) => Stop::Completed(output),
                Err(cause) => Stop::violation(cause),
            },
            Err(HandlerError { message, error: None }) => Stop::violation(message),
            Err(HandlerError { message, error: Some(error) }) => {
                let details = ErrorDetails::orchestration_failed(message);
                match check_payload("error of the orchestration", &error) {
                    Ok(()) => Stop::Errored { details, error },
                    Err(cause) => {
                        self.desk.trace("warn".to_string(), format!("{cause}: only its text is recorded"));
                        Stop::Failed(details)
                    }
                }
            }
        }
    }

    fn poll(&mut self) -> Polled {
        let mut program =
            self.program.take().expect("the program is taken down only when the execution ends");
        let waker = Waker::from(self.wake.clone());
        let mut polled = None;
        let mut poll = || {
            let mut context = Context::from_waker(&waker);
            polled = Some(catch_unwind(AssertUnwindSafe(|| program.as_mut().poll(&mut context))));
        };
        let mut fault = None;
        self.in_scope(self.phase(), &mut || match &self.guards.polls {
            Some(guard) => fault = guard.poll(&mut poll),
            None => poll(),
        });
        self.program = Some(program);
        let result = polled.expect("a guard runs the poll").map_err(|payload| self.panicked(payload));
        Polled { result, fault }
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) -> Stop {
        let text = panic_text(payload);
        match self.guards.polls.as_ref().and_then(|guard| guard.fault_of_panic(&text)) {
            Some(fault) => self.not_durable(&fault),
            None => Stop::Panicked(text),
        }
    }

    /// Takes the program down; what its destructors do has no effect.
    pub(super) fn take_down(&mut self) {
        self.desk.close();
        if let Some(program) = self.program.take() {
            let mut program = Some(program);
            // A destructor that panics must not take the dispatcher with it; the execution has ended all the same.
            self.in_scope(Phase::Repeated, &mut || discard(program.take()));
        }
    }

    /// Refuses a history that has grown past its limit in this turn.
    pub(super) fn check_history_length(&self, pass: &Pass<'_>) -> Result<(), Stop> {
        if pass.tape.events.is_empty() {
            return Ok(());
        }
        let length = pass.tape.next_event_id().saturating_sub(1);
        if usize::try_from(length).unwrap_or(usize::MAX) > MAX_HISTORY_EVENTS {
            return Err(Stop::violation(format!(
                "history length ({length} events) exceeds limit ({MAX_HISTORY_EVENTS} events): use continue_as_new"
            )));
        }
        Ok(())
    }
}

/// How one poll of the program ended.
struct Polled {
    result: Result<Poll<Result<String, HandlerError>>, Stop>,
    /// What the guard found.
    fault: Option<String>,
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.take_down();
    }
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution")
            .field("identity", &self.identity)
            .field("last_event_id", &self.last_event_id)
            .finish_non_exhaustive()
    }
}

/// Whether an event came in from outside, rather than from the program.
fn is_admitted(kind: &EventKind) -> bool {
    match kind {
        EventKind::ActivityCompleted { .. }
        | EventKind::ErrorRecorded { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityBegun
        | EventKind::ActivityStopped
        | EventKind::OrchestrationRedriven { .. }
        | EventKind::OrchestrationRepaired { .. }
        | EventKind::TimerFired { .. }
        | EventKind::ExternalEvent { .. }
        | EventKind::QueueEventDelivered { .. }
        | EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::OrchestrationCancelRequested { .. } => true,
        EventKind::OrchestrationStarted { .. }
        | EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationFailed { .. }
        | EventKind::OrchestrationContinuedAsNew { .. }
        | EventKind::ActivityScheduled { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::TimerCancelled { .. }
        | EventKind::ExternalSubscribed { .. }
        | EventKind::ExternalSubscribedCancelled { .. }
        | EventKind::QueueSubscribed { .. }
        | EventKind::QueueSubscriptionCancelled { .. }
        | EventKind::OrchestrationChained { .. }
        | EventKind::SubOrchestrationScheduled { .. }
        | EventKind::VersionRequested { .. }
        | EventKind::SubOrchestrationCancelRequested { .. }
        | EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::PatchMarked { .. }
        | EventKind::CancelPolicyRecorded { .. }
        | EventKind::KeyValuesCarried { .. }
        | EventKind::RetryPolicyRecorded { .. }
        | EventKind::ActivityDeadlinesRecorded { .. }
        | EventKind::KeyValuesCleared => false,
    }
}

/// The text that a panic was raised with. The payload is the program's own, and may itself panic when it is dropped.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "the panic carried no text".to_string()
    };
    discard(payload);
    text
}

/// Drops a value of the program, whose destructor may panic. What that panic carries is leaked: its destructor may
/// panic as well, and so on.
fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(move || drop(value))) {
        std::mem::forget(payload);
    }
}
