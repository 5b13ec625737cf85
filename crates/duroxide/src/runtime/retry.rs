//! The one loop that makes a call of the store again. `verdict` decides whether there is another try.

use super::backoff::Backoff;
use super::keeper::KeptLock;
use super::node::Node;
use super::store_call::answer_in_time;
use super::verdict::{AfterTry, LockState, Persistence, Tries, after_try};
use crate::providers::ProviderError;

/// A call that is not made again.
#[derive(Debug)]
pub(super) struct GivenUp {
    pub(super) why: Why,
    /// Its tries that failed, without the one that found the lock lost.
    pub(super) tries: Tries,
    /// The last answer.
    pub(super) error: ProviderError,
}

/// Why a call is not made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The store says that the lock is gone: the last try changed nothing, and no other can.
    LockLost,
    /// The store will never accept the data.
    NeverAccepted,
    /// It has failed often enough, the lock is lost, or the runtime shuts down.
    LetGo,
}

/// Makes a call until the store has answered it for good. An outage is waited out with growing pauses.
///
/// `call` is told of the tries before. Without a lock the call ends when the runtime shuts down, at the latest.
pub(super) async fn until_done<T, C>(
    node: &Node,
    doing: &str,
    persistence: Persistence,
    lock: Option<&KeptLock>,
    call: impl Fn(Tries) -> C,
) -> Result<T, GivenUp>
where
    C: Future<Output = Result<T, ProviderError>>,
{
    let mut backoff = Backoff::default();
    let mut tries = Tries::default();
    loop {
        let error = match answer_in_time(call(tries)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let lock_state = lock.map_or(LockState::Held, KeptLock::state);
        let failed = tries.and(&error);
        let next = after_try(persistence, failed, error.kind(), lock_state);
        if next != AfterTry::LockLost {
            tries = failed;
            node.store_failed(doing, &error);
        }
        let why = match next {
            AfterTry::LockLost => Why::LockLost,
            AfterTry::NeverAccepted => Why::NeverAccepted,
            AfterTry::LetGo => Why::LetGo,
            AfterTry::Again if node.pause(backoff.next()).await => continue,
            AfterTry::Again => Why::LetGo,
        };
        return Err(GivenUp { why, tries, error });
    }
}

impl Tries {
    /// These, and one that failed like this.
    fn and(self, error: &ProviderError) -> Self {
        Self {
            failures: self.failures.saturating_add(1),
            refusals: self.refusals.saturating_add(u32::from(!error.is_retryable())),
        }
    }
}
