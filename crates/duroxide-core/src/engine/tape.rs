//! Where the events of an execution come from or go to.
//!
//! The same code runs at replay and live; only the tape differs. That is why both give the same events.

use semver::Version;

use super::mismatch::schedule_mismatch;
use crate::model::{Event, EventKind, build_child_instance_id};

/// The history being replayed, then the events of this turn.
pub(super) struct Tape<'a> {
    history: &'a [Event],
    /// How much of the history has been replayed.
    played: usize,
    instance: String,
    execution_id: u64,
    build_version: String,
    /// The time of the turn; never below the last event's.
    pub(super) now_ms: u64,
    /// Random bits of the turn.
    pub(super) entropy: u128,
    /// The id of the next event.
    next_event_id: u64,
    /// The stored bytes of what was replayed or appended.
    pub(super) bytes: u64,
    pub(super) events: Vec<Event>,
    /// The version that the execution was pinned to before this turn.
    pub(super) pinned: Option<Version>,
}

impl<'a> Tape<'a> {
    pub(super) fn new(
        history: &'a [Event],
        instance: &str,
        execution_id: u64,
        now_ms: u64,
        entropy: u128,
        next_event_id: u64,
    ) -> Self {
        let mut tape = Self {
            history,
            played: 0,
            instance: instance.to_string(),
            execution_id,
            build_version: crate::model::current_build_version().to_string(),
            now_ms,
            entropy,
            next_event_id,
            bytes: 0,
            events: Vec::new(),
            pinned: None,
        };
        tape.pass_over_carried();
        tape
    }

    /// The event that the history has next; `None` once it is played to its end.
    pub(super) fn peek(&self) -> Option<&'a Event> {
        self.history.get(self.played)
    }

    /// Takes the event that the history has next.
    pub(super) fn take(&mut self) -> Option<&'a Event> {
        let event = self.peek()?;
        self.step_over(event);
        self.pass_over_carried();
        Some(event)
    }

    fn step_over(&mut self, event: &Event) {
        self.played += 1;
        self.bytes += stored_bytes(event);
        self.next_event_id = event.event_id.saturating_add(1);
    }

    /// Carried values and the cancel policy are taken over before the program runs; where they stand, nothing happens.
    fn pass_over_carried(&mut self) {
        while let Some(event) = self.peek()
            && matches!(
                event.kind,
                EventKind::KeyValuesCarried { .. } | EventKind::CancelPolicyRecorded { .. }
            )
        {
            self.step_over(event);
        }
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.played < self.history.len()
    }

    pub(super) fn next_event_id(&self) -> u64 {
        self.next_event_id
    }

    /// Appends an event of this turn.
    pub(super) fn append(&mut self, source_event_id: Option<u64>, kind: EventKind) -> u64 {
        let event_id = self.next_event_id;
        self.next_event_id = event_id.saturating_add(1);
        let event = Event {
            event_id,
            source_event_id,
            instance_id: self.instance.clone(),
            execution_id: self.execution_id,
            timestamp_ms: self.now_ms,
            duroxide_version: self.build_version.clone(),
            kind,
        };
        self.bytes += stored_bytes(&event);
        self.events.push(event);
        event_id
    }

    /// Records what the program did: at replay it must be what the history has next.
    ///
    /// Gives the event as it is recorded, with its id; the error is the diff.
    pub(super) fn record(
        &mut self,
        source_event_id: Option<u64>,
        kind: EventKind,
    ) -> Result<Recorded, String> {
        let Some(recorded) = self.take() else {
            let event_id = self.append(source_event_id, kind);
            return Ok(Recorded { event_id, execution_id: self.execution_id, is_new: true });
        };
        let agrees = recorded.source_event_id == source_event_id
            && is_same_schedule(&recorded.kind, &kind, &self.instance);
        if agrees {
            Ok(Recorded { event_id: recorded.event_id, execution_id: recorded.execution_id, is_new: false })
        } else {
            Err(schedule_mismatch(recorded, source_event_id, &kind))
        }
    }
}

/// An event in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) event_id: u64,
    /// The execution that recorded it.
    pub(super) execution_id: u64,
    /// Whether this turn recorded it, so that it has to be acted on.
    pub(super) is_new: bool,
}

fn is_same_schedule(recorded: &EventKind, current: &EventKind, instance: &str) -> bool {
    if let (
        EventKind::SubOrchestrationScheduled { name, instance: child, input },
        EventKind::SubOrchestrationScheduled {
            name: current_name,
            instance: current_child,
            input: current_input,
        },
    ) = (recorded, current)
    {
        // A generated id may be recorded with or without its parent's.
        let full_id = |child: &str| build_child_instance_id(instance, child);
        return name == current_name && input == current_input && full_id(child) == full_id(current_child);
    }
    if let (
        EventKind::KeyValueSet { key, value, .. },
        EventKind::KeyValueSet { key: current_key, value: current_value, .. },
    ) = (recorded, current)
    {
        // A value's time is that of the turn that set it: the recorded one counts.
        return key == current_key && value == current_value;
    }
    // A timer's due time is computed from the time of the turn that created it, which a replay is not.
    let both_timers =
        matches!((recorded, current), (EventKind::TimerCreated { .. }, EventKind::TimerCreated { .. }));
    both_timers || recorded == current
}

/// The bytes of an event in its stored form.
pub(super) fn stored_bytes(event: &Event) -> u64 {
    let json =
        serde_json::to_string(event).expect("an event consists of text and numbers, which have a JSON form");
    u64::try_from(json.len()).unwrap_or(u64::MAX)
}
