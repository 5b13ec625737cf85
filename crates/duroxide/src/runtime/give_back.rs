//! Giving fetched work back to its queue.

use std::time::Duration;

use super::insist::answer_in_time;
use super::node::Node;
use super::suspects::Queue;
use crate::providers::ProviderErrorKind;

/// How giving work back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBack {
    Yes,
    /// There was nothing to give back: the lock was not held any more.
    LockWasGone,
    /// The store cannot be reached; the lock's expiry will give it back.
    No,
}

/// [`give_back`], for who need not know how it ended.
pub(super) async fn abandon(
    node: &Node,
    queue: Queue,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) {
    give_back(node, queue, token, delay, ignore_attempt).await;
}

/// Gives an item back, for the next fetch after `delay`.
pub(super) async fn give_back(
    node: &Node,
    queue: Queue,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> GivenBack {
    let given_back = match queue {
        Queue::Turns => {
            answer_in_time(node.provider.abandon_orchestration_item(token, delay, ignore_attempt)).await
        }
        Queue::Activities => {
            answer_in_time(node.provider.abandon_work_item(token, delay, ignore_attempt)).await
        }
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
