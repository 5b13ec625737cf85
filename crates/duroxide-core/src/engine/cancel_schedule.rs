//! Giving up what was scheduled: the program dropped a future, or an activity did not begin in time.

use super::carry_out::record;
use super::execution::{Execution, Pass, Stop};
use super::schedules::ScheduleKind;
use super::slot::{Resolution, Slot};
use crate::model::{EventKind, ScheduledActivityIdentifier, WorkItem};

/// Why a program no longer waits for something: it dropped the future.
const DROPPED_FUTURE: &str = "dropped_future";
/// What a child is told when its parent dropped the future.
const PARENT_DROPPED: &str = "parent dropped sub-orchestration future";

impl Execution {
    /// The program dropped a future without taking its result.
    pub(super) fn cancel(&mut self, slot: &Slot, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let id = slot.event_id();
        if let Some(kind) = self.schedules.open_kind(id) {
            self.cancel_open(slot, id, kind, pass)
        } else if let Some(kind) = self.schedules.completed_kind(id) {
            self.give_back(slot, id, kind, pass)
        } else {
            Ok(())
        }
    }

    fn cancel_open(
        &mut self,
        slot: &Slot,
        id: u64,
        kind: ScheduleKind,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let reason = DROPPED_FUTURE.to_string();
        self.schedules.cancel(id, kind);
        match kind {
            ScheduleKind::Activity => {
                self.questions.remove(&id);
                self.cancel_activity(id, DROPPED_FUTURE, pass)?;
                if let Some(timer) = self.start_deadlines.take_timer(id) {
                    self.cancel(&timer, pass)?;
                }
            }
            ScheduleKind::Timer => {
                record(pass, Some(id), EventKind::TimerCancelled { reason })?;
            }
            ScheduleKind::Wait => {
                record(pass, Some(id), EventKind::ExternalSubscribedCancelled { reason })?;
                self.events.unsubscribe(&slot.subject(), id);
            }
            ScheduleKind::Dequeue => {
                record(pass, Some(id), EventKind::QueueSubscriptionCancelled { reason })?;
                self.queues.unsubscribe(&slot.subject(), id);
            }
            ScheduleKind::Child => {
                let recorded = record(pass, Some(id), EventKind::SubOrchestrationCancelRequested { reason })?;
                // An execution that gave a child its own id must not cancel itself.
                if recorded.is_new && slot.subject() != self.identity.instance {
                    pass.actions.orchestrator_items.push(WorkItem::CancelInstance {
                        instance: slot.subject(),
                        reason: PARENT_DROPPED.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn cancel_activity(&mut self, id: u64, reason: &str, pass: &mut Pass<'_>) -> Result<(), Stop> {
        self.schedules.cancel(id, ScheduleKind::Activity);
        self.note_given_up(id);
        let reason = reason.to_string();
        let recorded = record(pass, Some(id), EventKind::ActivityCancelRequested { reason })?;
        if recorded.is_new {
            pass.actions.cancelled.push(ScheduledActivityIdentifier {
                instance: self.identity.instance.clone(),
                execution_id: self.scheduled_in(id),
                activity_id: id,
            });
        }
        Ok(())
    }

    /// An event that was delivered but never looked at goes to the next wait of its name.
    fn give_back(
        &mut self,
        slot: &Slot,
        id: u64,
        kind: ScheduleKind,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let reason = DROPPED_FUTURE.to_string();
        let cancelled = match kind {
            ScheduleKind::Wait => EventKind::ExternalSubscribedCancelled { reason },
            ScheduleKind::Dequeue => EventKind::QueueSubscriptionCancelled { reason },
            ScheduleKind::Activity | ScheduleKind::Timer | ScheduleKind::Child => return Ok(()),
        };
        let Some(Resolution { value: Ok(data), arrival }) = slot.take_back() else { return Ok(()) };
        record(pass, Some(id), cancelled)?;
        self.schedules.cancel(id, kind);
        let subject = slot.subject();
        let delivery = match kind {
            ScheduleKind::Wait => self.events.arrive(&subject, arrival, data),
            ScheduleKind::Dequeue | ScheduleKind::Activity | ScheduleKind::Timer | ScheduleKind::Child => {
                self.queues.arrive(&subject, arrival, data)
            }
        };
        self.deliver(kind, delivery);
        Ok(())
    }
}
