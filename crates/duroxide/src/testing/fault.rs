//! What can go wrong with a call, and who decides.

use std::time::Duration;

use super::Method;

/// What goes wrong with one call.
///
/// One that means nothing for a call, such as a duplicate delivery for a read, does nothing to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The store does nothing and says so.
    FailBefore,
    /// The store does it, and the answer is lost.
    LoseAnswer,
    /// The store does it late.
    DelayBefore(Duration),
    /// The answer comes late.
    DelayAfter(Duration),
    /// The caller lets the call go on so many times and then goes away: the call is dropped in its middle. The store
    /// may do it all the same.
    Drop(u32),
    /// The lock that a fetch or a renewal asks for expires at once.
    ExpireLock,
    /// A fetch of turns tells a time that is off by so many milliseconds.
    SkewTime(i64),
    /// What a fetch of turns or an enqueue delivers is delivered twice; the result of an activity as well.
    Duplicate,
    /// Completions and timers of a turn, or the activities of a fetch, come in the opposite order. What must keep
    /// its order keeps it.
    Reorder,
    /// A fetch finds nothing, although there may be something.
    RunDry,
    /// A stored row does not decode: a fetch of turns brings instances with a `history_error`, any other call is an
    /// error of kind `Corrupt`.
    Corrupt,
    /// The store does nothing and says that it never will.
    Refuse,
    /// The store's code panics.
    Panic,
    /// The store says `Ok` and does nothing, where the answer is no more than that. Only a broken store does this: it
    /// shows whether a check notices.
    Pretend,
    /// The process stops before the call: from now on nothing that it asks for is done or answered.
    Freeze,
    /// The same after the call was carried out.
    FreezeAfter,
}

/// Decides what happens to each call that no script decides.
pub trait FaultSource: Send + Sync {
    /// What happens to this call, in this order; nothing for a call that succeeds.
    fn faults(&self, method: Method) -> Vec<Fault>;
}
