//! How much a program writes between two messages.
//!
//! Counted when the program asks for it, so that what is too much is never gathered in memory. Messages do not count, nor
//! what continue-as-new carries over: the program has no say in them. Each message begins a new count, so that it does not
//! depend on how many of them a turn was given.

use super::commands::{Command, Issued, Schedule};
use crate::model::limits::MAX_STEP_BYTES;
use crate::test_fault;

/// The bytes that the program has written since the last message.
#[derive(Debug, Default)]
pub(super) struct StepBytes {
    written: usize,
    is_over: bool,
}

impl StepBytes {
    /// Counts the commands after the first `counted`. Above the limit none of them is left but the failure. Gives what
    /// is to be dropped.
    pub(super) fn count(&mut self, commands: &mut Vec<Issued>, counted: usize) -> Vec<Issued> {
        if self.is_over {
            return commands.split_off(counted);
        }
        let bytes: usize = commands.iter().skip(counted).map(|issued| bytes_of(&issued.command)).sum();
        self.written = self.written.saturating_add(bytes);
        self.is_over = self.written > MAX_STEP_BYTES;
        test_fault!(TurnsHaveALimit => self.is_over = false);
        // One value that is too large by itself is left to its own check, which says which it is.
        if !self.is_over || bytes > MAX_STEP_BYTES {
            return Vec::new();
        }
        let Some(at) = commands.last().map(|issued| issued.at) else { return Vec::new() };
        let command = Command::Violate { message: too_much(self.written) };
        std::mem::replace(commands, vec![Issued { command, at }])
    }
}

fn too_much(bytes: usize) -> String {
    format!(
        "the turn writes {bytes} bytes or more, which exceeds limit ({MAX_STEP_BYTES} bytes): \
         schedule in parts, or store large data elsewhere and pass a reference"
    )
}

/// The texts of the program in a command. The rest of what is stored for it is bounded by its number.
fn bytes_of(command: &Command) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match command {
        Command::Schedule { what, .. } => bytes_of_schedule(what),
        Command::Detach { name, version, instance, input } => {
            name.len() + optional(version) + instance.len() + input.len()
        }
        Command::SetCustomStatus { status } => optional(status),
        Command::SetKv { key, entry, .. } => key.len() + entry.value.len(),
        Command::ClearKv { key, .. } => key.len(),
        Command::MarkPatch { id } => id.len(),
        // One of a turn, and the last one: an execution can always end.
        Command::ContinueAsNew { .. } | Command::Violate { .. } | Command::Unnamed { .. } => 0,
        Command::Drop { .. }
        | Command::GiveUp { .. }
        | Command::AwaitStops { .. }
        | Command::ClearAllKv
        | Command::DeprecatePatch { .. } => 0,
    }
}

fn bytes_of_schedule(what: &Schedule) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match what {
        Schedule::Activity { name, input, session_id } => name.len() + input.len() + optional(session_id),
        Schedule::Wait { name } => name.len(),
        Schedule::Dequeue { queue } => queue.len(),
        Schedule::Child { name, version, instance, input } => {
            name.len() + optional(version) + optional(instance) + input.len()
        }
        Schedule::KvOf { instance, key } => instance.len() + key.len(),
        Schedule::Syscall(_) | Schedule::Timer { .. } | Schedule::RetryPolicy { .. } => 0,
    }
}
