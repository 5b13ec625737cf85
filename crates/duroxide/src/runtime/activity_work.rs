//! An item of the worker queue taken apart.

use duroxide_core::{ActivityDeadlines, BounceCause, ErrorDetails, RetriedCall, WorkItem};

/// An item of the worker queue taken apart.
pub(super) struct Work {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) input: String,
    pub(super) session_id: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) deadlines: ActivityDeadlines,
    pub(super) retried: Option<RetriedCall>,
    /// Whether the orchestration waits until an activity that it gave up has stopped.
    pub(super) reports_stop: bool,
}

impl Work {
    /// The activity to run; `None` if the item is something else.
    pub(super) fn of(item: WorkItem) -> Option<Self> {
        match item {
            WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag } => {
                let deadlines = ActivityDeadlines::default();
                let (retried, reports_stop) = (None, false);
                Some(Self {
                    instance,
                    execution_id,
                    id,
                    name,
                    input,
                    session_id,
                    tag,
                    deadlines,
                    retried,
                    reports_stop,
                })
            }
            WorkItem::ActivityExecuteWithin {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
                deadlines,
                retried,
                reports_stop,
            } => Some(Self {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
                deadlines,
                retried,
                reports_stop,
            }),
            WorkItem::StartOrchestration { .. }
            | WorkItem::ContinueAsNew { .. }
            | WorkItem::ActivityBegun { .. }
            | WorkItem::ActivityStopped { .. }
            | WorkItem::Redriven { .. }
            | WorkItem::Repaired { .. }
            | WorkItem::ActivityCompleted { .. }
            | WorkItem::ActivityFailed { .. }
            | WorkItem::ActivityErrored { .. }
            | WorkItem::TimerFired { .. }
            | WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
            | WorkItem::SubOrchCompleted { .. }
            | WorkItem::SubOrchFailed { .. }
            | WorkItem::SubOrchErrored { .. } => None,
        }
    }

    /// Its name among the work whose attempts are forgiven.
    pub(super) fn key(&self) -> String {
        format!("{}:{}:{}", self.instance, self.execution_id, self.id)
    }

    /// What is kept with it when a node without its handler gives it back.
    pub(super) fn unregistered(&self) -> BounceCause {
        BounceCause::ActivityNotRegistered { name: self.name.clone() }
    }

    pub(super) fn failed(&self, details: ErrorDetails) -> WorkItem {
        WorkItem::ActivityFailed {
            instance: self.instance.clone(),
            execution_id: self.execution_id,
            id: self.id,
            details,
        }
    }

    pub(super) fn errored(&self, details: ErrorDetails, error: String, panicked: bool) -> WorkItem {
        WorkItem::ActivityErrored {
            instance: self.instance.clone(),
            execution_id: self.execution_id,
            id: self.id,
            details,
            error,
            panicked,
        }
    }
}
