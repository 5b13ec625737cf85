//! Protections against known faults, each with a switch for tests: a check that finds nothing when the protection is
//! off proves nothing when it is on. Without the feature `test-hooks` nothing can be switched off and nothing is asked.
//!
//! Code that has a protection shows its fault in one line, with `test_fault!`.

/// The fault that a protection is against, where a test has switched the protection off: `test_fault!(Name => fault)`. In
/// other builds it is nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! test_fault {
    ($protection:ident => $fault:expr) => {
        if $crate::protection::Protection::$protection.is_off() {
            $fault;
        }
    };
}

/// A protection that a test can switch off. The number is that of the fault in `docs/faults.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// 1: messages for unknown instances stop nobody.
    UnknownInstancesStopNobody,
    /// 2: a loop over queued messages has no limit.
    NoIterationLimit,
    /// 3: a renewal that fails is no cancellation.
    FailedRenewalIsNoCancellation,
    /// 4: a store that is away fails no workflow.
    OutageIsNoFailure,
    /// 6: backoff never overflows.
    BackoffNeverOverflows,
    /// 8: an instance between two executions is running.
    BetweenExecutionsIsRunning,
    /// 9: children end with their parent.
    ChildrenEndWithParent,
    /// 10: early events are kept.
    EarlyEventsAreKept,
    /// 11: a completion of another execution is dropped.
    ExecutionsAreApart,
    /// 12: a parent learns that its child's id is taken.
    CollisionTellsParent,
    /// 13: a parent learns that its child is poisoned.
    PoisonTellsParent,
    /// 14: a panic removes no capacity.
    PanicKeepsCapacity,
    /// 18: a result is kept until the store has it.
    ResultOutlivesFailedAck,
    /// 19: only the holder of the live lock commits.
    OnlyTheHolderCommits,
    /// 20: what is delivered twice counts once.
    DuplicatesAreDropped,
    /// 39: a cancel in the inbox comes before the program.
    CancelComesFirst,
    /// 41: what the store will never accept is not tried forever.
    RefusedDataEnds,
    /// 46: what a turn writes has a limit in bytes.
    TurnsHaveALimit,
}

impl Protection {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::UnknownInstancesStopNobody,
        Self::NoIterationLimit,
        Self::FailedRenewalIsNoCancellation,
        Self::OutageIsNoFailure,
        Self::BackoffNeverOverflows,
        Self::BetweenExecutionsIsRunning,
        Self::ChildrenEndWithParent,
        Self::EarlyEventsAreKept,
        Self::ExecutionsAreApart,
        Self::CollisionTellsParent,
        Self::PoisonTellsParent,
        Self::PanicKeepsCapacity,
        Self::ResultOutlivesFailedAck,
        Self::OnlyTheHolderCommits,
        Self::DuplicatesAreDropped,
        Self::CancelComesFirst,
        Self::RefusedDataEnds,
        Self::TurnsHaveALimit,
    ];

    /// Whether it is switched off on this thread. Never, without the feature `test-hooks`.
    #[inline]
    pub fn is_off(self) -> bool {
        #[cfg(feature = "test-hooks")]
        return switch::OFF.get() == Some(self);
        #[cfg(not(feature = "test-hooks"))]
        false
    }

    /// Switches one protection off on this thread, and the others on.
    #[cfg(feature = "test-hooks")]
    pub fn switch_off(protection: Option<Self>) {
        switch::OFF.set(protection);
    }
}

#[cfg(feature = "test-hooks")]
mod switch {
    use std::cell::Cell;

    use super::Protection;

    thread_local! {
        /// A simulation runs on one thread, so that others are not touched.
        pub(super) static OFF: Cell<Option<Protection>> = const { Cell::new(None) };
    }
}
