//! What happens with fetched work, at each point where it may not go on. Pure: `turn`, `activity` and `save` carry it out.
//!
//! | point | decided by |
//! |---|---|
//! | the work is fetched: run, cancel, end or give it back | [`before_run`] |
//! | the code of a turn has run: commit it or give it back | [`after_run`] |
//! | a call of the store has failed: make it again or not | [`after_try`] |
//! | the attempt is over: it counts or is forgiven | [`charge`] |
//!
//! Turns and activities follow the same rules.

use duroxide_core::{BounceCause, Outcome, test_fault};

use super::OnNondeterminism;
use crate::providers::ProviderErrorKind;

/// How often work was attempted, this time included, as far as it counts; and how often it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttemptCount {
    pub(super) counted: u32,
    pub(super) max: u32,
}

impl AttemptCount {
    /// Whether it is ended instead of being tried again.
    pub(super) fn is_worn_out(self) -> bool {
        self.counted > self.max
    }

    /// How many attempts are left after this one.
    pub(super) fn remaining(self) -> u32 {
        self.max.saturating_sub(self.counted)
    }
}

/// The code that fetched work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// The execution is held in memory: it is compatible and registered.
    Held,
    /// Its handler is registered here, and may replay its history.
    Registered,
    /// Something stands in the way.
    Obstructed,
}

/// Whether a cancel waits in the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    No,
    /// It needs no code of the execution.
    EndsAtOnce,
    /// Only the code of the execution can undo what it did.
    NeedsCode,
}

/// What to do with fetched work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BeforeRun {
    /// Run its code.
    Run,
    /// Cancel it without its code.
    Cancel,
    /// End it without its code: it was attempted too often.
    End,
    /// Give it back for a while, and count the attempt.
    GiveBack,
}

/// Order of checks: cancel, poison, version, handler. A cancel is left to code that can be run; it ends worn out work.
pub(super) fn before_run(count: AttemptCount, code: Code, cancel: Cancel) -> BeforeRun {
    if count.is_worn_out() {
        return match cancel {
            Cancel::No => BeforeRun::End,
            Cancel::EndsAtOnce | Cancel::NeedsCode => BeforeRun::Cancel,
        };
    }
    match (code, cancel) {
        (Code::Held | Code::Registered, _) => BeforeRun::Run,
        (Code::Obstructed, Cancel::EndsAtOnce) => BeforeRun::Cancel,
        (Code::Obstructed, Cancel::No | Cancel::NeedsCode) => BeforeRun::GiveBack,
    }
}

/// What to do with a turn whose code has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AfterRun {
    Commit,
    /// Leave the instance to other nodes for a while, and count the attempt.
    GiveBack(BounceCause),
}

/// What another node may do better is not committed: a start that was not there, a function without a name here, and, as
/// long as there are attempts left, code that does not fit the history.
pub(super) fn after_run(
    count: AttemptCount,
    outcome: &Outcome,
    on_nondeterminism: OnNondeterminism,
) -> AfterRun {
    match outcome {
        Outcome::NotStarted => AfterRun::GiveBack(BounceCause::NoStart),
        Outcome::Unnamed { message } => {
            AfterRun::GiveBack(BounceCause::FunctionWithoutName { text: message.clone() })
        }
        Outcome::Nondeterministic { diff } => match on_nondeterminism {
            OnNondeterminism::HandBack if count.remaining() > 0 => {
                AfterRun::GiveBack(BounceCause::Nondeterministic { diff: diff.clone() })
            }
            OnNondeterminism::HandBack | OnNondeterminism::Fail => AfterRun::Commit,
        },
        Outcome::Waiting
        | Outcome::Completed { .. }
        | Outcome::Failed { .. }
        | Outcome::ContinuedAsNew
        | Outcome::Panicked { .. }
        | Outcome::AlreadyEnded => AfterRun::Commit,
    }
}

/// How long a call that fails is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// It brings what came of work, or what must be in the store before the work begins. An outage is waited out: the work must
    /// not be done again because of the store.
    Result,
    /// It ends work that was attempted too often. A store that takes no commits may be why; so the end is given up, and
    /// the work gets another chance.
    End,
    /// It brings a note beside the work, which the orchestration can do without.
    Note,
    /// It asks for what a program wants to know, while its turn waits.
    Question,
}

impl Persistence {
    /// Failures of whatever kind until the call is given up; `None` while the lock holds and the runtime does not stop.
    fn max_failures(self) -> Option<u32> {
        match self {
            Self::Result | Self::Note => None,
            Self::End => Some(1),
            Self::Question => Some(10),
        }
    }

    /// Failures that will not go away by themselves until the call is given up.
    fn max_refusals(self) -> u32 {
        match self {
            Self::Result => 3,
            Self::End | Self::Note | Self::Question => 1,
        }
    }
}

/// The failed tries of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// All of them.
    pub(super) failures: u32,
    /// Those that failed for a reason that will not go away by itself.
    pub(super) refusals: u32,
}

/// Whether the store has said that the lock is gone, or could not be reached until its time had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockState {
    Held,
    Lost,
}

/// What to do after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterTry {
    /// Wait, then make the call again.
    Again,
    /// This try changed nothing, and no other can. One before it may have been committed.
    LockLost,
    /// The store will never accept the data, however often it is sent.
    NeverAccepted,
    /// Do without it, and let the work go.
    LetGo,
}

/// Whether a call that has failed is made again. `Invalid` says that the store never will, so once is enough.
pub(super) fn after_try(
    persistence: Persistence,
    tries: Tries,
    kind: ProviderErrorKind,
    lock: LockState,
) -> AfterTry {
    let mut is_about_data = kind == ProviderErrorKind::Invalid && persistence == Persistence::Result;
    test_fault!(RefusedDataEnds => is_about_data = false);
    if kind == ProviderErrorKind::LockLost {
        AfterTry::LockLost
    } else if is_about_data {
        AfterTry::NeverAccepted
    } else if persistence.max_failures().is_some_and(|max| tries.failures >= max)
        || tries.refusals >= persistence.max_refusals()
        || lock == LockState::Lost
    {
        AfterTry::LetGo
    } else {
        AfterTry::Again
    }
}

/// Whether what came of work is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Yes,
    /// By a try whose answer was lost: the store was read and has it. What the instance is now is not known here.
    Earlier,
    /// The lock ended before its time, after a try whose answer was lost: presumably that one was committed.
    Presumably,
    /// The lock was gone before the first try.
    LockLost,
    /// The store failed until the lock was gone or the runtime let go.
    Spoiled,
    /// The store does not accept what a turn writes. The same turn will be refused again.
    NeverAccepted,
}

impl Saved {
    /// Whether the store has it, as far as is known here.
    pub(super) fn reached_the_store(self) -> bool {
        match self {
            Self::Yes | Self::Earlier | Self::Presumably => true,
            Self::LockLost | Self::Spoiled | Self::NeverAccepted => false,
        }
    }
}

/// Whether the store could be reached to renew the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Within,
    /// The lock ended by this process's time while renewals failed or hung.
    Out,
}

/// What becomes of the attempt that a fetch has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// It counts.
    Counts,
    /// The store was at fault: neither this attempt counts nor those that were made in vain up to the next one.
    Forgiven,
    /// The work is done; what was forgiven is needed no longer.
    Done,
}

/// An attempt is forgiven if the store was in its way, unless the store is known to have what came of it.
pub(super) fn charge(saved: Saved, reach: Reach) -> Charge {
    match (saved, reach) {
        (Saved::Yes | Saved::Earlier, _) => Charge::Done,
        (Saved::Presumably | Saved::Spoiled, _) | (Saved::LockLost, Reach::Out) => Charge::Forgiven,
        (Saved::LockLost, Reach::Within) | (Saved::NeverAccepted, _) => Charge::Counts,
    }
}

#[cfg(test)]
mod tests {
    use duroxide_core::ErrorDetails;

    use super::*;

    fn count(counted: u32) -> AttemptCount {
        AttemptCount { counted, max: 3 }
    }

    #[test]
    fn fetched_work_is_run_cancelled_ended_or_given_back() {
        use BeforeRun::{Cancel as CancelIt, End, GiveBack, Run};
        let table = [
            // code, cancel, at the last attempt, worn out
            (Code::Held, Cancel::No, Run, End),
            (Code::Held, Cancel::EndsAtOnce, Run, CancelIt),
            (Code::Held, Cancel::NeedsCode, Run, CancelIt),
            (Code::Registered, Cancel::No, Run, End),
            (Code::Registered, Cancel::EndsAtOnce, Run, CancelIt),
            (Code::Registered, Cancel::NeedsCode, Run, CancelIt),
            (Code::Obstructed, Cancel::No, GiveBack, End),
            (Code::Obstructed, Cancel::EndsAtOnce, CancelIt, CancelIt),
            (Code::Obstructed, Cancel::NeedsCode, GiveBack, CancelIt),
        ];
        for (code, cancel, at_last, worn_out) in table {
            assert_eq!(before_run(count(1), code, cancel), at_last, "first attempt: {code:?}, {cancel:?}");
            assert_eq!(before_run(count(3), code, cancel), at_last, "last attempt: {code:?}, {cancel:?}");
            assert_eq!(before_run(count(4), code, cancel), worn_out, "worn out: {code:?}, {cancel:?}");
        }
    }

    #[test]
    fn a_turn_that_another_node_may_run_better_is_not_committed() {
        let given_back = AfterRun::GiveBack;
        let diff = || "recorded A, now B".to_string();
        let named = || "no name".to_string();
        let text = |text: &str| text.to_string();
        let does_not_fit = Outcome::Nondeterministic { diff: diff() };
        let table = [
            (Outcome::NotStarted, given_back(BounceCause::NoStart)),
            (
                Outcome::Unnamed { message: named() },
                given_back(BounceCause::FunctionWithoutName { text: named() }),
            ),
            (Outcome::Waiting, AfterRun::Commit),
            (Outcome::Completed { output: text("1") }, AfterRun::Commit),
            (Outcome::Failed { details: ErrorDetails::orchestration_failed("no") }, AfterRun::Commit),
            (Outcome::ContinuedAsNew, AfterRun::Commit),
            (Outcome::Panicked { message: text("boom") }, AfterRun::Commit),
            (Outcome::AlreadyEnded, AfterRun::Commit),
        ];
        for (outcome, expected) in table {
            for counted in [1, 3, 4] {
                for on in [OnNondeterminism::Fail, OnNondeterminism::HandBack] {
                    assert_eq!(after_run(count(counted), &outcome, on), expected, "{outcome:?}");
                }
            }
        }
        let handed_back = given_back(BounceCause::Nondeterministic { diff: diff() });
        for (counted, on, expected) in [
            (1, OnNondeterminism::HandBack, handed_back.clone()),
            (2, OnNondeterminism::HandBack, handed_back),
            (3, OnNondeterminism::HandBack, AfterRun::Commit),
            (1, OnNondeterminism::Fail, AfterRun::Commit),
        ] {
            assert_eq!(after_run(count(counted), &does_not_fit, on), expected, "attempt {counted}, {on:?}");
        }
    }

    #[test]
    fn a_failed_call_is_made_again_while_that_may_help() {
        use AfterTry::{Again, LetGo, LockLost, NeverAccepted};
        use ProviderErrorKind as Kind;
        let outages = |failures| Tries { failures, refusals: 0 };
        let refused = |refusals| Tries { failures: refusals, refusals };
        let table = [
            (Persistence::Result, outages(1_000_000), Kind::Unavailable, Again),
            (Persistence::Result, refused(2), Kind::Other, Again),
            (Persistence::Result, refused(3), Kind::Other, LetGo),
            (Persistence::Result, refused(3), Kind::Corrupt, LetGo),
            (Persistence::Result, refused(3), Kind::NotFound, LetGo),
            (Persistence::Result, refused(1), Kind::Invalid, NeverAccepted),
            (Persistence::End, outages(1), Kind::Unavailable, LetGo),
            (Persistence::End, refused(1), Kind::Other, LetGo),
            (Persistence::End, refused(1), Kind::Invalid, LetGo),
            (Persistence::Note, outages(1_000_000), Kind::Unavailable, Again),
            (Persistence::Note, refused(1), Kind::Invalid, LetGo),
            (Persistence::Question, outages(9), Kind::Unavailable, Again),
            (Persistence::Question, outages(10), Kind::Unavailable, LetGo),
            (Persistence::Question, refused(1), Kind::Other, LetGo),
        ];
        for (persistence, tries, kind, expected) in table {
            let held = after_try(persistence, tries, kind, LockState::Held);
            assert_eq!(held, expected, "{persistence:?} after {tries:?} and {kind:?}");
            let lost = after_try(persistence, tries, kind, LockState::Lost);
            let expected = if expected == Again { LetGo } else { expected };
            assert_eq!(lost, expected, "{persistence:?} after {tries:?} and {kind:?}, the lock is lost");
            let answer = after_try(persistence, tries, Kind::LockLost, LockState::Held);
            assert_eq!(answer, LockLost, "{persistence:?} after {tries:?}: the store's word");
        }
    }

    #[test]
    fn an_attempt_is_forgiven_if_the_store_was_in_its_way() {
        let table = [
            // in the store, charged if the store was within reach, charged if it was not
            (Saved::Yes, true, Charge::Done, Charge::Done),
            (Saved::Earlier, true, Charge::Done, Charge::Done),
            (Saved::Presumably, true, Charge::Forgiven, Charge::Forgiven),
            (Saved::LockLost, false, Charge::Counts, Charge::Forgiven),
            (Saved::Spoiled, false, Charge::Forgiven, Charge::Forgiven),
            (Saved::NeverAccepted, false, Charge::Counts, Charge::Counts),
        ];
        for (saved, reached, within, out) in table {
            assert_eq!(saved.reached_the_store(), reached, "{saved:?}");
            assert_eq!(charge(saved, Reach::Within), within, "{saved:?}");
            assert_eq!(charge(saved, Reach::Out), out, "{saved:?} out of reach");
        }
    }
}
