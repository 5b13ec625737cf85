//! Giving fetched work back to its queue.

use super::insist::answer_in_time;
use super::node::Node;
use super::suspects::Queue;
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
