//! What a durable future and the engine share: one slot per future, where its result is put and taken.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::model::{ActivityDeadlines, ErrorDetails, FailureKind, RetryPolicy};

/// What an option of an activity panics with on anything else.
pub(super) fn for_activities_only(method: &str) -> String {
    format!("{method} is for activities only")
}

/// What an option panics with after its schedule was recorded.
fn too_late(method: &str) -> String {
    format!("{method} must follow the scheduling call directly, before anything is awaited")
}

/// Where the engine puts the result that a durable future takes.
pub(super) struct Slot {
    state: Mutex<SlotState>,
    /// The line of the program that scheduled it.
    at: &'static Location<'static>,
}

struct SlotState {
    /// 0 until the engine has recorded the schedule.
    event_id: u64,
    /// The event's or queue's name, or the child's instance, once recorded.
    subject: String,
    tag: Option<String>,
    /// The session that a call by function asked for.
    session_id: Option<String>,
    deadlines: ActivityDeadlines,
    retry_timeouts: bool,
    /// The call that this is a later attempt of.
    retry_of: Option<RetryOf>,
    /// What a call by function was given besides.
    call: Option<Box<CallOptions>>,
    is_activity: bool,
    result: SlotResult,
}

/// Which later attempt of which call.
#[derive(Clone)]
pub(super) struct RetryOf {
    pub(super) first: Arc<Slot>,
    /// Counted from 1, which is the first one itself.
    pub(super) attempt: u32,
}

/// What a call by function was given after it had been scheduled. The engine reads it when it records the schedule.
#[derive(Default)]
pub(super) struct CallOptions {
    pub(super) retry: Option<RetryRequest>,
    pub(super) total: Option<TotalTimeout>,
    pub(super) child_id: Option<String>,
    /// Why nothing is scheduled at all.
    pub(super) refused: Option<String>,
}

/// The policy of a call, and where its record and the timer of its first attempt are awaited.
#[derive(Clone)]
pub(super) struct RetryRequest {
    pub(super) policy: RetryPolicy,
    pub(super) recorded: Arc<Slot>,
    pub(super) timer: Arc<Slot>,
}

/// The time that all attempts of a call have together.
#[derive(Clone)]
pub(super) struct TotalTimeout {
    pub(super) limit_ms: u64,
    pub(super) timer: Arc<Slot>,
}

enum SlotResult {
    Waiting(Option<Waker>),
    Ready(Resolution),
    Taken,
}

/// The result of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolution {
    /// `Err` only for activities and children.
    pub(super) value: Result<String, Failed>,
    /// The place of an event in the order of arrival, so that it can be given back; else 0.
    pub(super) arrival: u64,
}

/// Why an activity or a child gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// What a program of the text API gets.
    pub(super) text: String,
    pub(super) kind: FailureKind,
    /// The program's own error as JSON, where the handler gave one.
    pub(super) error: Option<String>,
}

impl Failed {
    /// A call that was wrong in itself.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: FailureKind::Other, error: None }
    }

    pub(super) fn timed_out(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: FailureKind::TimedOut, error: None }
    }

    pub(super) fn is_timeout(&self) -> bool {
        self.kind == FailureKind::TimedOut
    }

    /// A recorded failure.
    pub(super) fn of(details: &ErrorDetails) -> Self {
        Self { text: details.display_message(), kind: FailureKind::of(details), error: None }
    }
}

impl Slot {
    #[track_caller]
    pub(super) fn new(is_activity: bool) -> Arc<Self> {
        Self::with(None, ActivityDeadlines::default(), is_activity, Location::caller())
    }

    /// The slot of something that the engine schedules for a line of the program: a mismatch names that line.
    pub(super) fn for_line(at: &'static Location<'static>) -> Arc<Self> {
        Self::with(None, ActivityDeadlines::default(), false, at)
    }

    /// The slot of a later attempt, with the options of the first.
    pub(super) fn later_attempt(first: &Arc<Self>, attempt: u32) -> Arc<Self> {
        let slot = Self::with(first.tag(), first.deadlines(), true, first.at);
        slot.lock().retry_of = Some(RetryOf { first: first.clone(), attempt });
        slot
    }

    fn with(
        tag: Option<String>,
        deadlines: ActivityDeadlines,
        is_activity: bool,
        at: &'static Location<'static>,
    ) -> Arc<Self> {
        Arc::new(Self {
            at,
            state: Mutex::new(SlotState {
                event_id: 0,
                subject: String::new(),
                tag,
                session_id: None,
                deadlines,
                retry_timeouts: false,
                retry_of: None,
                call: None,
                is_activity,
                result: SlotResult::Waiting(None),
            }),
        })
    }

    /// The line of the program that scheduled it.
    pub(super) fn at(&self) -> &'static Location<'static> {
        self.at
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, event_id: u64, subject: String) {
        let mut state = self.lock();
        state.event_id = event_id;
        state.subject = subject;
    }

    pub(super) fn subject(&self) -> String {
        self.lock().subject.clone()
    }

    pub(super) fn event_id(&self) -> u64 {
        self.lock().event_id
    }

    pub(super) fn tag(&self) -> Option<String> {
        self.lock().tag.clone()
    }

    pub(super) fn deadlines(&self) -> ActivityDeadlines {
        self.lock().deadlines
    }

    /// The deadlines that are recorded count, whatever the program asked for.
    pub(super) fn record_deadlines(&self, deadlines: ActivityDeadlines) {
        self.lock().deadlines = deadlines;
    }

    pub(super) fn retry_of(&self) -> Option<RetryOf> {
        self.lock().retry_of.clone()
    }

    pub(super) fn retries_timeouts(&self) -> bool {
        self.lock().retry_timeouts
    }

    /// Lets timeouts be retried, or says why that cannot be set.
    pub(super) fn set_retry_timeouts(&self, method: &str) -> Result<(), String> {
        self.set_option(method, |state| state.retry_timeouts = true)
    }

    /// Sets the tag, or says why it cannot be set.
    pub(super) fn set_tag(&self, tag: String) -> Result<(), String> {
        self.set_option("with_tag", |state| state.tag = Some(tag))
    }

    /// Sets the session, or says why it cannot be set.
    pub(super) fn set_session(&self, session_id: String) -> Result<(), String> {
        self.set_option("session", |state| state.session_id = Some(session_id))
    }

    /// Changes the deadlines, or says why they cannot be changed.
    pub(super) fn set_deadline(
        &self,
        method: &str,
        set: impl FnOnce(&mut ActivityDeadlines),
    ) -> Result<(), String> {
        self.set_option(method, |state| set(&mut state.deadlines))
    }

    /// Changes the options of a call by function, or says why they cannot be changed.
    pub(super) fn set_call_option(
        &self,
        method: &str,
        set: impl FnOnce(&mut CallOptions),
    ) -> Result<(), String> {
        let mut state = self.lock();
        if state.event_id != 0 {
            return Err(too_late(method));
        }
        set(state.call.get_or_insert_default());
        Ok(())
    }

    pub(super) fn session_id(&self) -> Option<String> {
        self.lock().session_id.clone()
    }

    pub(super) fn take_call_options(&self) -> Option<Box<CallOptions>> {
        self.lock().call.take()
    }

    fn set_option(&self, method: &str, set: impl FnOnce(&mut SlotState)) -> Result<(), String> {
        let mut state = self.lock();
        if !state.is_activity {
            return Err(for_activities_only(method));
        }
        if state.event_id != 0 {
            return Err(too_late(method));
        }
        set(&mut state);
        Ok(())
    }

    pub(super) fn resolve(&self, resolution: Resolution) {
        let before = std::mem::replace(&mut self.lock().result, SlotResult::Ready(resolution));
        if let SlotResult::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    /// The result, or `None` after noting whom to wake.
    pub(super) fn take_or_wait(&self, waker: &Waker) -> Option<Resolution> {
        // A waker may be the program's own code: it is cloned and dropped outside the lock.
        let waiting = SlotResult::Waiting(Some(waker.clone()));
        let before = {
            let mut state = self.lock();
            let after = match state.result {
                SlotResult::Waiting(_) => waiting,
                SlotResult::Ready(_) | SlotResult::Taken => SlotResult::Taken,
            };
            std::mem::replace(&mut state.result, after)
        };
        match before {
            SlotResult::Ready(resolution) => Some(resolution),
            SlotResult::Waiting(_) | SlotResult::Taken => None,
        }
    }

    /// Takes the result back from a future that was dropped without looking at it.
    pub(super) fn take_back(&self) -> Option<Resolution> {
        let before = std::mem::replace(&mut self.lock().result, SlotResult::Taken);
        match before {
            SlotResult::Ready(resolution) => Some(resolution),
            SlotResult::Waiting(_) | SlotResult::Taken => None,
        }
    }

    pub(super) fn is_taken(&self) -> bool {
        matches!(self.lock().result, SlotResult::Taken)
    }

    /// Whether there is a result that nobody has looked at.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.lock().result, SlotResult::Ready(_))
    }
}
