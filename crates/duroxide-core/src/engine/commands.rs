//! What a program did, as the engine is told of it.

use std::panic::Location;
use std::sync::Arc;

use super::slot::Slot;
use crate::model::{KvEntry, RetryPolicy};

/// What the program did since the engine last looked, in the order in which it did it.
pub(super) enum Command {
    /// Scheduled something.
    Schedule { slot: Arc<Slot>, what: Schedule },
    /// Dropped a durable future before it took its result.
    Drop { slot: Arc<Slot> },
    /// An activity that the program waited for did not begin in time.
    GiveUp { slot: Arc<Slot> },
    /// Started an instance that it does not wait for.
    Detach { name: String, version: Option<String>, instance: String, input: String },
    /// Asked for the next execution, with the custom status at that moment.
    ContinueAsNew { input: String, version: Option<String>, custom_status: Option<String> },
    /// Set its custom status, or took it back.
    SetCustomStatus { status: Option<String> },
    /// Set a value of its KV store, which then had so many keys.
    SetKv { key: String, entry: KvEntry, key_count: usize },
    /// Removed a value of its KV store, or what was none.
    ClearKv { key: String, was_set: bool },
    /// Emptied its KV store.
    ClearAllKv,
    /// Goes the way of a patch.
    MarkPatch { id: String },
    /// Passed the place of a patch that has no old way any more.
    DeprecatePatch { id: String },
    /// Waits until workers have let go of what was given up just before.
    AwaitStops { slot: Arc<Slot> },
    /// Called a function that has no name on this node.
    Unnamed { text: String },
    /// Broke a rule that only the engine can report.
    Violate { message: String },
}

/// A command with the line of the program that gave it.
pub(super) struct Issued {
    pub(super) command: Command,
    pub(super) at: &'static Location<'static>,
}

impl Issued {
    /// `at` is where the command was given; what is about a schedule is told by the line of the schedule.
    pub(super) fn new(command: Command, at: &'static Location<'static>) -> Self {
        let at = match &command {
            Command::Schedule { slot, .. }
            | Command::Drop { slot }
            | Command::GiveUp { slot }
            | Command::AwaitStops { slot } => slot.at(),
            Command::Detach { .. }
            | Command::ContinueAsNew { .. }
            | Command::SetCustomStatus { .. }
            | Command::SetKv { .. }
            | Command::ClearKv { .. }
            | Command::ClearAllKv
            | Command::MarkPatch { .. }
            | Command::DeprecatePatch { .. }
            | Command::Unnamed { .. }
            | Command::Violate { .. } => at,
        };
        Self { command, at }
    }
}

/// Something that a program can schedule and wait for.
pub(super) enum Schedule {
    Activity {
        name: String,
        input: String,
        session_id: Option<String>,
    },
    Syscall(Syscall),
    Timer {
        delay_ms: u64,
    },
    Wait {
        name: String,
    },
    Dequeue {
        queue: String,
    },
    Child {
        name: String,
        version: Option<String>,
        instance: Option<String>,
        input: String,
    },
    /// A value in the KV store of any instance.
    KvOf {
        instance: String,
        key: String,
    },
    /// The policy of the call whose first attempt was scheduled just before; resolved with the recorded one.
    RetryPolicy {
        policy: RetryPolicy,
        first: Arc<Slot>,
        /// Bounds the first attempt, if the recorded policy has a timeout.
        timer: Option<Arc<Slot>>,
    },
}

/// A value that the engine itself provides and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syscall {
    NewGuid,
    UtcNow,
}

/// The name under which a read of another instance's KV store stands in the history.
pub(super) const KV_OF_INSTANCE: &str = "__duroxide_syscall:get_kv_value";

/// What every recorded syscall's name begins with; no activity may be registered under it.
pub const SYSCALL_PREFIX: &str = "__duroxide_syscall:";

impl Syscall {
    /// The name under which it stands in the history.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewGuid => "__duroxide_syscall:new_guid",
            Self::UtcNow => "__duroxide_syscall:utc_now_ms",
        }
    }
}
