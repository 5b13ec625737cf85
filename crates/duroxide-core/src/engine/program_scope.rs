//! What surrounds the code of a program while it runs: the log of the process belongs to the caller of the engine.

use super::execution::Execution;

/// Surrounds the code of programs, whether they are polled or dropped.
pub trait ProgramScope: Send + Sync {
    /// Runs `code`, once.
    fn run(&self, of: &ProgramOf<'_>, code: &mut dyn FnMut());
}

/// The execution whose code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramOf<'a> {
    /// The instance.
    pub instance: &'a str,
    /// The number of the execution.
    pub execution_id: u64,
    /// The orchestration's name.
    pub name: &'a str,
    /// The version of its handler.
    pub version: &'a str,
    /// Whether what it does now counts.
    pub phase: Phase,
}

/// Whether what a program does now counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does it for the first time; again only if the turn is not committed.
    Live,
    /// It repeats what is recorded, or is dropped.
    Repeated,
}

impl Execution {
    /// The execution whose code runs, as a scope is told of it.
    fn program_of(&self, phase: Phase) -> ProgramOf<'_> {
        ProgramOf {
            instance: &self.identity.instance,
            execution_id: self.identity.execution_id,
            name: &self.identity.name,
            version: &self.identity.version,
            phase,
        }
    }

    /// The phase of a poll.
    pub(super) fn phase(&self) -> Phase {
        if self.desk.is_replaying() { Phase::Repeated } else { Phase::Live }
    }

    /// Runs code of the program.
    pub(super) fn in_scope(&self, phase: Phase, code: &mut dyn FnMut()) {
        match &self.guards.scope {
            Some(scope) => scope.run(&self.program_of(phase), code),
            None => code(),
        }
    }
}
