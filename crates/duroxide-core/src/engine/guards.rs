//! Guards against programs that wait for what no history holds.

use std::panic::Location;
use std::sync::Arc;

use super::ProgramScope;
use super::execution::{Execution, Pass, Stop};

/// Looks at a program while it is polled. The caller of the engine knows what surrounds the program there.
pub trait PollGuard: Send + Sync {
    /// Runs `poll`, once. Gives what the program did that it must not do, in words: `spawned a task`.
    fn poll(&self, poll: &mut dyn FnMut()) -> Option<String>;

    /// The same for a program that panicked, if the panic tells that it did such a thing.
    fn fault_of_panic(&self, text: &str) -> Option<String>;
}

/// What a turn is run with.
#[derive(Clone, Default)]
pub struct Guards {
    /// With it, a turn is nondeterministic whose program waits for something that is not durable, or is woken by it.
    pub polls: Option<Arc<dyn PollGuard>>,
    /// Surrounds the code of the program.
    pub scope: Option<Arc<dyn ProgramScope>>,
    /// Whether a live execution keeps its events, so that its turns can be replayed without the store.
    pub keep_events: bool,
}

impl std::fmt::Debug for Guards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { polls, scope, keep_events } = self;
        f.debug_struct("Guards")
            .field("polls", &polls.is_some())
            .field("scope", &scope.is_some())
            .field("keep_events", keep_events)
            .finish()
    }
}

const INSTEAD: &str = "await only what the context schedules: an activity for I/O, for computations and for what other \
     tasks do, a timer for time, an event or a queue for signals from outside";

impl Execution {
    /// Refuses a program that did what the guard knows of, or that something foreign has woken.
    pub(super) fn check_poll(&self, fault: Option<String>) -> Result<(), Stop> {
        if self.guards.polls.is_none() {
            return Ok(());
        }
        match fault {
            Some(fault) => Err(self.not_durable(&fault)),
            None if self.wake.is_foreign() => {
                Err(self.not_durable("was woken by something that is not durable"))
            }
            None => Ok(()),
        }
    }

    /// Refuses a program that waits although nothing durable is open: nothing will ever wake it.
    pub(super) fn check_waits(&self, pass: &Pass<'_>) -> Result<(), Stop> {
        let waits_for_nothing = self.guards.polls.is_some()
            && !pass.tape.is_replaying()
            && !self.schedules.any_open()
            && self.questions.is_empty();
        if waits_for_nothing {
            return Err(self.not_durable("waits for something that is not durable, and for nothing else"));
        }
        Ok(())
    }

    pub(super) fn not_durable(&self, fault: &str) -> Stop {
        let name = &self.identity.name;
        let after = self.after_last_command();
        let instance = &self.identity.instance;
        Stop::Nondeterministic(format!(
            "orchestration '{name}' of instance '{instance}' {fault}{after}: {INSTEAD}"
        ))
    }

    /// Where the program was last heard of.
    pub(super) fn after_last_command(&self) -> String {
        self.last_command.map_or_else(String::new, |at| format!("; its last command is at {}", line(at)))
    }
}

impl Stop {
    /// Names the line of the command that does not fit.
    pub(super) fn caused_at(self, at: &'static Location<'static>) -> Self {
        match self {
            Self::Nondeterministic(diff) => Self::Nondeterministic(format!("{diff} at {}", line(at))),
            Self::Completed(_)
            | Self::Failed(_)
            | Self::Errored { .. }
            | Self::ContinuedAsNew { .. }
            | Self::Panicked(_)
            | Self::Unnamed(_) => self,
        }
    }
}

fn line(at: &Location<'_>) -> String {
    format!("{}:{}", at.file(), at.line())
}
