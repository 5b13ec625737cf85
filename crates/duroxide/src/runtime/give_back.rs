//! Giving fetched work back to its queue.

use duroxide_core::BounceCause;

use super::keeper::KeptLock;
use super::node::Node;
use super::store_call::answer_in_time;
use super::suspects::Queue;
use super::verdict::{AttemptCount, LockState, Saved, Tries, charge};
use crate::providers::{GiveBack, ProviderErrorKind};

/// How giving work back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBack {
    Yes,
    /// There was nothing to give back: the lock was not held any more.
    LockWasGone,
    /// The store cannot be reached; the lock's expiry will give it back.
    No,
}

/// How work is left to other nodes for a while: the attempt counts, and the cause is kept with it.
pub(super) fn bounced(node: &Node, count: AttemptCount, cause: BounceCause) -> GiveBack {
    GiveBack::bounced(node.options.unregistered_backoff.delay(count.counted), cause)
}

/// Lets work go that the store was in the way of before there was anything to save. The attempt does not count: it is given
/// back uncounted, and forgiven here in case the store does not take it back.
pub(super) async fn let_go(
    node: &Node,
    queue: Queue,
    token: &str,
    lock: &KeptLock,
    work: &str,
    tries: Tries,
) {
    let saved = match lock.state() {
        LockState::Held => Saved::Spoiled,
        LockState::Lost => Saved::LockLost,
    };
    node.forgiven.charge(work, charge(saved, lock.reach()));
    abandon(node, queue, token, GiveBack::uncounted(node.delay_after(tries))).await;
}

/// [`give_back`], ignoring how it ended.
pub(super) async fn abandon(node: &Node, queue: Queue, token: &str, how: GiveBack) {
    give_back(node, queue, token, how).await;
}

/// Gives an item back, for the next fetch after the delay.
pub(super) async fn give_back(node: &Node, queue: Queue, token: &str, how: GiveBack) -> GivenBack {
    let given_back = match queue {
        Queue::Turns => answer_in_time(node.provider.give_back_turn(token, how)).await,
        Queue::Activities => answer_in_time(node.provider.give_back_work(token, how)).await,
    };
    match given_back {
        Ok(()) => GivenBack::Yes,
        Err(error) if error.kind() == ProviderErrorKind::LockLost => GivenBack::LockWasGone,
        Err(error) => {
            let what = match queue {
                Queue::Turns => "giving an instance back",
                Queue::Activities => "giving an activity back",
            };
            node.store_failed(what, &error);
            GivenBack::No
        }
    }
}
