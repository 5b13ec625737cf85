//! What goes into a turn and what comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::desk::TraceLine;
use super::{Execution, OrchestrationHandler};
use crate::model::{ErrorDetails, Event, ExecutionMetadata, KvEntry, ScheduledActivityIdentifier, WorkItem};

/// What a turn is run on.
#[derive(Debug, Clone)]
pub struct TurnInput {
    /// The instance.
    pub instance: String,
    /// Its current execution.
    pub execution_id: u64,
    /// The store's time at the fetch.
    pub now_ms: u64,
    /// Random bits for the turn; the same bits give the same turn.
    pub entropy: u128,
    /// The messages, in the order in which they are admitted.
    pub messages: Vec<WorkItem>,
    /// What the instance's KV store holds; looked at only in the first turn of an execution.
    pub kv: BTreeMap<String, KvEntry>,
}

/// Where the execution stands before the turn.
pub enum Before<'a> {
    /// It is held in memory.
    Held(Box<Execution>),
    /// It has to be replayed, or has not begun.
    Stored {
        /// The code.
        handler: Arc<dyn OrchestrationHandler>,
        /// The handler's version.
        version: String,
        /// The stored events; empty before the first turn.
        history: &'a [Event],
    },
}

/// How a turn left the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for messages.
    Waiting,
    /// It returned `Ok`.
    Completed {
        /// What it returned.
        output: String,
    },
    /// It returned `Err`, broke a limit, was cancelled, or an activity of it was poisoned.
    Failed {
        /// Why.
        details: ErrorDetails,
    },
    /// It goes on as the next execution.
    ContinuedAsNew,
    /// Code and history do not agree.
    Nondeterministic {
        /// What was recorded, what the code does now, where, and in which fields they differ.
        diff: String,
    },
    /// The handler panicked.
    Panicked {
        /// The panic's text.
        message: String,
    },
    /// The program called a function that has no name on this node; nothing was done.
    Unnamed {
        /// Which function, and how to give it a name.
        message: String,
    },
    /// The history had ended before; nothing was done.
    AlreadyEnded,
    /// There is neither a history nor a start among the messages; nothing was done.
    NotStarted,
}

/// Why a message had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It is for another execution.
    StaleExecution,
    /// What it answers has been answered.
    Duplicate,
    /// What it answers is no longer wanted.
    Cancelled,
    /// The instance has been started.
    AlreadyStarted,
    /// The execution ended before it.
    AfterEnd,
    /// It belongs into the worker queue.
    WrongQueue,
}

impl DropReason {
    /// The reason as a metric's label.
    pub fn word(self) -> &'static str {
        match self {
            Self::StaleExecution => "stale_execution",
            Self::Duplicate => "duplicate",
            Self::Cancelled => "cancelled",
            Self::AlreadyStarted => "already_started",
            Self::AfterEnd => "after_end",
            Self::WrongQueue => "wrong_queue",
        }
    }
}

/// What a turn did and asks for. The store commits all of it in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// How it left the execution.
    pub outcome: Outcome,
    /// What to append to the history.
    pub events: Vec<Event>,
    /// Activities to run.
    pub worker_items: Vec<WorkItem>,
    /// Messages to send, timers included.
    pub orchestrator_items: Vec<WorkItem>,
    /// Activities that nobody waits for any more.
    pub cancelled_activities: Vec<ScheduledActivityIdentifier>,
    /// What to write into the rows of the instance and the execution.
    pub metadata: ExecutionMetadata,
    /// Why messages had no effect, one entry for each.
    pub dropped: Vec<DropReason>,
    /// What the program wrote to the log.
    pub traces: Vec<TraceLine>,
}

impl Turn {
    pub(super) fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            events: Vec::new(),
            worker_items: Vec::new(),
            orchestrator_items: Vec::new(),
            cancelled_activities: Vec::new(),
            metadata: ExecutionMetadata::default(),
            dropped: Vec::new(),
            traces: Vec::new(),
        }
    }

    /// Whether the execution has ended.
    pub fn is_end(&self) -> bool {
        match self.outcome {
            Outcome::Waiting | Outcome::NotStarted | Outcome::Unnamed { .. } => false,
            Outcome::Completed { .. }
            | Outcome::Failed { .. }
            | Outcome::ContinuedAsNew
            | Outcome::Nondeterministic { .. }
            | Outcome::Panicked { .. }
            | Outcome::AlreadyEnded => true,
        }
    }
}
