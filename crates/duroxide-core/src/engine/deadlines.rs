//! Activities that must begin in time.
//!
//! A schedule-to-start deadline is a timer that stands behind its activity. A worker says when it begins the
//! activity; if the timer is due before that, the activity is given up and its future gets the timeout.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use super::carry_out::record;
use super::commands::Command;
use super::execution::{Execution, Pass, Stop};
use super::schedules::{Found, ScheduleKind};
use super::slot::{Failed, Resolution, Slot};
use super::tape::Recorded;
use super::turn::DropReason;
use crate::model::{ActivityDeadlines, EventKind, not_started_in_time};

/// Why an activity was given up that no worker began in time.
const NOT_STARTED_IN_TIME: &str = "schedule_to_start";

/// The activities that have not begun and must, and their timers.
#[derive(Default)]
pub(super) struct StartDeadlines {
    by_activity: BTreeMap<u64, StartDeadline>,
    /// The activity of each timer.
    by_timer: BTreeMap<u64, u64>,
}

struct StartDeadline {
    activity_name: String,
    limit_ms: u64,
    timer: Arc<Slot>,
}

impl StartDeadlines {
    fn insert(&mut self, activity: u64, deadline: StartDeadline) {
        self.by_timer.insert(deadline.timer.event_id(), activity);
        self.by_activity.insert(activity, deadline);
    }

    /// The timer of an activity that need not begin in time any more.
    pub(super) fn take_timer(&mut self, activity: u64) -> Option<Arc<Slot>> {
        self.remove(activity).map(|deadline| deadline.timer)
    }

    fn remove(&mut self, activity: u64) -> Option<StartDeadline> {
        let deadline = self.by_activity.remove(&activity)?;
        self.by_timer.remove(&deadline.timer.event_id());
        Some(deadline)
    }
}

impl Execution {
    /// Records what the program gave, or takes what was recorded then.
    pub(super) fn record_deadlines(
        &mut self,
        activity: Recorded,
        (name, at): (&str, &'static Location<'static>),
        asked: ActivityDeadlines,
        pass: &mut Pass<'_>,
    ) -> Result<ActivityDeadlines, Stop> {
        let id = activity.event_id;
        let deadlines = if activity.is_new { asked } else { recorded_behind(id, pass) };
        if deadlines.is_empty() {
            return Ok(deadlines);
        }
        record(pass, Some(id), EventKind::ActivityDeadlinesRecorded { deadlines })?;
        if let Some(limit_ms) = deadlines.schedule_to_start_ms {
            let timer = Slot::for_line(at);
            self.schedule_timer(timer.clone(), limit_ms, pass)?;
            let deadline = StartDeadline { activity_name: name.to_string(), limit_ms, timer };
            self.start_deadlines.insert(id, deadline);
        }
        Ok(deadlines)
    }

    /// A worker says that it is about to run the activity.
    pub(super) fn admit_begun(
        &mut self,
        execution_id: u64,
        id: u64,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let is_open = matches!(self.schedules.find(id, ScheduleKind::Activity), Found::Open);
        if !self.is_for(execution_id, id) {
            pass.actions.dropped.push(DropReason::StaleExecution);
        } else if is_open && self.start_deadlines.by_activity.contains_key(&id) {
            return self.admit_event(Some(id), EventKind::ActivityBegun, pass);
        } else {
            // Every attempt says it; only the first changes something.
            pass.actions.dropped.push(DropReason::Duplicate);
        }
        Ok(())
    }

    /// The activity began or ended: its timer is dropped before the program goes on.
    pub(super) fn end_start_deadline(&mut self, activity: u64) {
        if let Some(timer) = self.start_deadlines.take_timer(activity) {
            self.desk.push(Command::Drop { slot: timer });
        }
    }

    /// If the timer was that of an activity which has not begun, the activity's future gets the timeout.
    pub(super) fn start_deadline_passed(&mut self, timer: u64) {
        let Some(activity) = self.start_deadlines.by_timer.get(&timer).copied() else { return };
        let Some(deadline) = self.start_deadlines.remove(activity) else { return };
        let Some(slot) = self.schedules.slot(activity) else { return };
        let text = not_started_in_time(&deadline.activity_name, deadline.limit_ms);
        self.desk.push(Command::GiveUp { slot: slot.clone() });
        slot.resolve(Resolution { value: Err(Failed::timed_out(text)), arrival: 0 });
    }

    /// Gives up an activity that did not begin in time; its future has been told.
    pub(super) fn give_up(&mut self, slot: &Slot, pass: &mut Pass<'_>) -> Result<(), Stop> {
        self.cancel_activity(slot.event_id(), NOT_STARTED_IN_TIME, pass)
    }
}

/// The deadlines that stand right behind a recorded schedule.
fn recorded_behind(id: u64, pass: &Pass<'_>) -> ActivityDeadlines {
    let next = pass.tape.peek().filter(|next| next.source_event_id == Some(id));
    match next.map(|next| &next.kind) {
        Some(EventKind::ActivityDeadlinesRecorded { deadlines }) => *deadlines,
        Some(_) | None => ActivityDeadlines::default(),
    }
}
