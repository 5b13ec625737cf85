//! Admitting messages, one at a time: each becomes an event, and the program runs before the next.

use super::execution::{Execution, Pass, RecordedError, Stop};
use super::mismatch::{completion_kind_mismatch, no_matching_schedule};
use super::schedules::{Found, ScheduleKind};
use super::slot::{Failed, Resolution};
use super::turn::DropReason;
use crate::model::{
    AppErrorKind, ErrorDetails, EventKind, FailureKind, WorkItem, error_within_limit,
    reply_to_colliding_start,
};
use crate::test_fault;

impl Execution {
    /// Admits one message.
    pub(super) fn admit(&mut self, message: WorkItem, pass: &mut Pass<'_>) -> Result<(), Stop> {
        match message {
            WorkItem::ActivityCompleted { execution_id, id, result, .. } => {
                let event = EventKind::ActivityCompleted { result };
                self.admit_completion(execution_id, id, ScheduleKind::Activity, event, pass)
            }
            WorkItem::ActivityFailed { execution_id, id, details, .. } => {
                let event = EventKind::ActivityFailed { details };
                self.admit_completion(execution_id, id, ScheduleKind::Activity, event, pass)
            }
            WorkItem::ActivityErrored { execution_id, id, details, error, panicked, .. } => {
                let error = EventKind::ErrorRecorded { error, panicked };
                let event = EventKind::ActivityFailed { details };
                self.admit_error(execution_id, id, ScheduleKind::Activity, error, event, pass)
            }
            WorkItem::TimerFired { execution_id, id, fire_at_ms, .. } => {
                let event = EventKind::TimerFired { fire_at_ms };
                self.admit_completion(execution_id, id, ScheduleKind::Timer, event, pass)
            }
            WorkItem::SubOrchCompleted { parent_execution_id, parent_id, result, .. } => {
                let event = EventKind::SubOrchestrationCompleted { result };
                self.admit_completion(parent_execution_id, parent_id, ScheduleKind::Child, event, pass)
            }
            WorkItem::SubOrchFailed { parent_execution_id, parent_id, details, .. } => {
                let event = EventKind::SubOrchestrationFailed { details };
                self.admit_completion(parent_execution_id, parent_id, ScheduleKind::Child, event, pass)
            }
            WorkItem::SubOrchErrored { parent_execution_id, parent_id, details, error, .. } => {
                let error = EventKind::ErrorRecorded { error, panicked: false };
                let event = EventKind::SubOrchestrationFailed { details };
                self.admit_error(parent_execution_id, parent_id, ScheduleKind::Child, error, event, pass)
            }
            WorkItem::ExternalRaised { name, data, .. } => {
                let wait = self.events.next_wait(&name);
                self.admit_event(wait, EventKind::ExternalEvent { name, data }, pass)
            }
            WorkItem::QueueMessage { name, data, .. } => {
                let wait = self.queues.next_wait(&name);
                self.admit_event(wait, EventKind::QueueEventDelivered { name, data }, pass)
            }
            WorkItem::CancelInstance { reason, .. } => {
                let reason = error_within_limit(reason);
                self.admit_event(None, EventKind::OrchestrationCancelRequested { reason }, pass)
            }
            WorkItem::StartOrchestration { .. } => {
                let reply = reply_to_colliding_start(&message, self.parent.as_ref());
                pass.actions.orchestrator_items.extend(reply);
                pass.actions.dropped.push(DropReason::AlreadyStarted);
                Ok(())
            }
            WorkItem::ContinueAsNew { .. } => {
                pass.actions.dropped.push(DropReason::AlreadyStarted);
                Ok(())
            }
            WorkItem::Redriven { from_execution_id, by, at_ms, .. } => {
                if from_execution_id.saturating_add(1) != self.identity.execution_id {
                    pass.actions.dropped.push(DropReason::StaleExecution);
                    return Ok(());
                }
                let event = EventKind::OrchestrationRedriven { from_execution_id, by, at_ms };
                self.admit_event(None, event, pass)
            }
            WorkItem::Repaired { put_back, by, at_ms, .. } => {
                self.admit_event(None, EventKind::OrchestrationRepaired { put_back, by, at_ms }, pass)
            }
            WorkItem::ActivityBegun { execution_id, id, .. } => self.admit_begun(execution_id, id, pass),
            WorkItem::ActivityStopped { execution_id, id, .. } => self.admit_stopped(execution_id, id, pass),
            WorkItem::ActivityExecute { .. } | WorkItem::ActivityExecuteWithin { .. } => {
                pass.actions.dropped.push(DropReason::WrongQueue);
                Ok(())
            }
        }
    }

    fn admit_completion(
        &mut self,
        execution_id: u64,
        id: u64,
        kind: ScheduleKind,
        event: EventKind,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        if self.is_wanted(execution_id, id, kind, pass)? {
            self.admit_event(Some(id), event, pass)
        } else {
            Ok(())
        }
    }

    /// Admits a failure together with the error that stands before it: the program sees both at once.
    fn admit_error(
        &mut self,
        execution_id: u64,
        id: u64,
        kind: ScheduleKind,
        error: EventKind,
        event: EventKind,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        if !self.is_wanted(execution_id, id, kind, pass)? {
            return Ok(());
        }
        pass.tape.append(Some(id), error.clone());
        self.apply(Some(id), &error)?;
        self.admit_event(Some(id), event, pass)
    }

    /// Whether a completion answers something that is open. One that does not is dropped, or fits no schedule at all.
    fn is_wanted(
        &self,
        execution_id: u64,
        id: u64,
        kind: ScheduleKind,
        pass: &mut Pass<'_>,
    ) -> Result<bool, Stop> {
        if !self.is_for(execution_id, id) {
            pass.actions.dropped.push(DropReason::StaleExecution);
            return Ok(false);
        }
        match self.schedules.find(id, kind) {
            Found::Open => Ok(true),
            Found::Closed(reason) => {
                test_fault!(DuplicatesAreDropped => return Ok(true));
                pass.actions.dropped.push(reason);
                Ok(false)
            }
            Found::OtherKind(_) | Found::Nothing => Err(self.unmatched(id, kind)),
        }
    }

    pub(super) fn admit_event(
        &mut self,
        source: Option<u64>,
        event: EventKind,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        pass.tape.append(source, event.clone());
        self.apply(source, &event)?;
        self.check_history_length(pass)?;
        self.settle(pass)
    }

    /// What an admitted event changes; the same at replay and live.
    pub(super) fn apply(&mut self, source: Option<u64>, event: &EventKind) -> Result<(), Stop> {
        let _in_turn = self.wake.in_turn();
        let id = source.unwrap_or_default();
        match event {
            EventKind::ActivityBegun => {
                self.end_start_deadline(id);
                Ok(())
            }
            EventKind::OrchestrationRedriven { from_execution_id, .. } => {
                self.desk.view(|view| view.execution_id = from_execution_id.saturating_add(1));
                Ok(())
            }
            EventKind::OrchestrationRepaired { .. } => Ok(()),
            EventKind::ErrorRecorded { error, panicked } => {
                self.recorded_error =
                    Some(RecordedError { schedule: id, error: error.clone(), panicked: *panicked });
                Ok(())
            }
            EventKind::ActivityCompleted { result } => {
                self.end_start_deadline(id);
                self.complete(id, ScheduleKind::Activity, Ok(result.clone()))
            }
            EventKind::ActivityFailed { details } => self.activity_failed(id, details),
            EventKind::ActivityStopped => {
                self.activity_stopped(id);
                Ok(())
            }
            EventKind::TimerFired { .. } => {
                self.check_cancel_deadline(id)?;
                self.complete(id, ScheduleKind::Timer, Ok(String::new()))?;
                self.start_deadline_passed(id);
                self.stop_wait_over(id);
                Ok(())
            }
            EventKind::SubOrchestrationCompleted { result } => {
                self.complete(id, ScheduleKind::Child, Ok(result.clone()))
            }
            EventKind::SubOrchestrationFailed { details } => {
                let failed = self.with_error(id, Failed::of(details));
                self.complete(id, ScheduleKind::Child, Err(failed))
            }
            EventKind::ExternalEvent { name, data } => {
                self.event_arrived(name, data);
                Ok(())
            }
            EventKind::QueueEventDelivered { name, data } => self.message_arrived(name, data),
            EventKind::OrchestrationCancelRequested { reason } => self.cancel_requested(reason),
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
            | EventKind::KeyValuesCleared => {
                unreachable!("the program's own events are recorded, not admitted")
            }
        }
    }

    fn event_arrived(&mut self, name: &str, data: &str) {
        self.arrivals += 1;
        let delivery = self.events.arrive(name, self.arrivals, data.to_string());
        self.deliver(ScheduleKind::Wait, delivery);
    }

    fn message_arrived(&mut self, queue: &str, data: &str) -> Result<(), Stop> {
        self.arrivals += 1;
        test_fault!(NoIterationLimit => limit_iterations(self.arrivals)?);
        let delivery = self.queues.arrive(queue, self.arrivals, data.to_string());
        self.deliver(ScheduleKind::Dequeue, delivery);
        Ok(())
    }

    fn activity_failed(&mut self, id: u64, details: &ErrorDetails) -> Result<(), Stop> {
        self.end_start_deadline(id);
        let failed = self.failure_of_activity(id, details);
        self.complete(id, ScheduleKind::Activity, Err(failed))?;
        match details {
            ErrorDetails::Poison { .. } => Err(Stop::Failed(details.clone())),
            ErrorDetails::Infrastructure { .. }
            | ErrorDetails::Configuration { .. }
            | ErrorDetails::Application { .. } => Ok(()),
        }
    }

    /// A worker reports an attempt that ran longer than its deadline as a failure that is not retryable.
    fn failure_of_activity(&mut self, id: u64, details: &ErrorDetails) -> Failed {
        let has_deadline =
            self.schedules.slot(id).is_some_and(|slot| slot.deadlines().start_to_close_ms.is_some());
        let is_final = matches!(
            details,
            ErrorDetails::Application { kind: AppErrorKind::ActivityFailed, retryable: false, .. }
        );
        let failed = self.with_error(id, Failed::of(details));
        if has_deadline && is_final { Failed::timed_out(failed.text) } else { failed }
    }

    /// The failure of a schedule with the error that was recorded just before it.
    fn with_error(&mut self, id: u64, mut failed: Failed) -> Failed {
        if let Some(recorded) = self.recorded_error.take().filter(|recorded| recorded.schedule == id) {
            if recorded.panicked {
                failed.kind = FailureKind::Panicked;
            }
            failed.error = Some(recorded.error);
        }
        failed
    }

    fn complete(&mut self, id: u64, kind: ScheduleKind, value: Result<String, Failed>) -> Result<(), Stop> {
        match self.schedules.find(id, kind) {
            Found::Open => {
                self.questions.remove(&id);
                self.resolve(id, kind, Resolution { value, arrival: 0 });
                Ok(())
            }
            // Only a history written by hand has a completion twice or after a cancellation.
            Found::Closed(_) => Ok(()),
            Found::OtherKind(_) | Found::Nothing => Err(self.unmatched(id, kind)),
        }
    }

    fn unmatched(&self, id: u64, kind: ScheduleKind) -> Stop {
        Stop::Nondeterministic(match self.schedules.find(id, kind) {
            Found::OtherKind(expected) => completion_kind_mismatch(id, expected.word(), kind.word()),
            Found::Open | Found::Closed(_) | Found::Nothing => {
                no_matching_schedule(if kind == ScheduleKind::Timer { "timer" } else { "completion" }, id)
            }
        })
    }
}

/// The limit that is not there, for tests that want to see it missed.
fn limit_iterations(arrivals: u64) -> Result<(), Stop> {
    if arrivals <= 100 {
        return Ok(());
    }
    Err(Stop::Failed(ErrorDetails::orchestration_failed("too many iterations")))
}
