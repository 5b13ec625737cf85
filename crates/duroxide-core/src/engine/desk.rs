//! The program's side of an execution: what it did and wrote since the engine last looked.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cancelling::Scopes;
use super::commands::{Command, Issued, Schedule};
use super::slot::Slot;
use super::state::State;
use super::step_bytes::StepBytes;

/// One message of the program for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// `info`, `warn`, `error`, `debug`, or whatever the program said.
    pub level: String,
    /// The text.
    pub message: String,
}

/// The program's side of an execution.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<DeskState>,
}

#[derive(Default)]
struct DeskState {
    commands: Vec<Issued>,
    traces: Vec<TraceLine>,
    replaying: bool,
    closed: bool,
    step: StepBytes,
    view: State,
    scopes: Scopes,
}

impl DeskState {
    /// Looks at the commands after the first `before` and gives those that have no effect. What is recorded was within
    /// the limits of its time.
    fn refuse(&mut self, before: usize) -> Vec<Issued> {
        if self.closed {
            self.commands.split_off(before)
        } else if self.replaying {
            Vec::new()
        } else {
            self.step.count(&mut self.commands, before)
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        // No code of the program runs under this lock, so a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    pub(super) fn push(&self, command: Command) {
        self.change(|_view, commands| commands.push(command));
    }

    /// The program is about to run after a message.
    pub(super) fn begin_step(&self) {
        self.lock().step = StepBytes::default();
    }

    /// Changes the program's view and records how, as one step.
    #[track_caller]
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State, &mut Vec<Command>) -> T) -> T {
        let mut state = self.lock();
        let before = state.commands.len();
        let mut given = Vec::new();
        let result = change(&mut state.view, &mut given);
        let at = Location::caller();
        state.commands.extend(given.into_iter().map(|command| Issued::new(command, at)));
        let refused = state.refuse(before);
        // A waker in a slot may be the program's own code: it is dropped outside the lock.
        drop(state);
        drop(refused);
        result
    }

    /// The program's view of its instance.
    pub(super) fn view<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock().view)
    }

    /// The scopes that a cancel interrupts.
    pub(super) fn scopes<T>(&self, look: impl FnOnce(&mut Scopes) -> T) -> T {
        look(&mut self.lock().scopes)
    }

    pub(super) fn take_commands(&self) -> Vec<Issued> {
        std::mem::take(&mut self.lock().commands)
    }

    /// From now on what the program does has no effect: its future is being taken down.
    pub(super) fn close(&self) {
        let commands = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.commands)
        };
        drop(commands);
    }

    /// Name and input of an activity that was scheduled and is not recorded yet.
    pub(super) fn activity_of(&self, scheduled: &Arc<Slot>) -> Option<(String, String)> {
        let state = self.lock();
        state.commands.iter().rev().find_map(|command| {
            let Command::Schedule { slot, what: Schedule::Activity { name, input, .. } } = &command.command
            else {
                return None;
            };
            Arc::ptr_eq(slot, scheduled).then(|| (name.clone(), input.clone()))
        })
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.lock().replaying
    }

    pub(super) fn set_replaying(&self, replaying: bool) {
        self.lock().replaying = replaying;
    }

    pub(super) fn trace(&self, level: String, message: String) {
        let mut state = self.lock();
        if !state.replaying && !state.closed {
            state.traces.push(TraceLine { level, message });
        }
    }

    pub(super) fn take_traces(&self) -> Vec<TraceLine> {
        std::mem::take(&mut self.lock().traces)
    }
}
