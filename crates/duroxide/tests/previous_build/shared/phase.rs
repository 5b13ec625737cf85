//! In which life of the process the programs run.

/// The lives of the process, in their order. The orchestrations are the same in all of them but for the faults of
/// [`Phase::Broken`]; what differs is how the activities behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything runs as far as the activities let it; some of them hold still.
    Interrupted,
    /// Some code is faulty: it does not fit the history, or ends the process.
    Broken,
    /// Orchestrations run, activities stay queued.
    Queueing,
    /// Everything runs to its end.
    Finishing,
    /// Nodes of two builds work on one store; what is tried again fails the first time in every process.
    Together,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Interrupted, Self::Broken, Self::Queueing, Self::Finishing, Self::Together];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Broken => "broken",
            Self::Queueing => "queueing",
            Self::Finishing => "finishing",
            Self::Together => "together",
        }
    }

    /// The phase that a process was told by its environment.
    pub(crate) fn of_word(word: &str) -> Self {
        let found = Self::ALL.into_iter().find(|phase| phase.word() == word);
        found.unwrap_or_else(|| panic!("there is no phase '{word}'"))
    }
}
