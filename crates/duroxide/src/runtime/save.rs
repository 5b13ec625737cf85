//! Bringing what came of fetched work into the store, under its lock. A turn and the result of an activity go the same way.

use super::give_back::{GivenBack, give_back};
use super::keeper::KeptLock;
use super::node::Node;
use super::retry::{GivenUp, Why, until_done};
use super::suspects::Queue;
use super::verdict::{Persistence, Saved, Tries, charge};
use crate::providers::{GiveBack, ProviderError};

/// What came of fetched work.
pub(super) trait Product: Sync {
    /// The queue that the work came from.
    const QUEUE: Queue;
    /// What a failed try failed at.
    const SAVING: &'static str;

    /// The name under which its attempts are forgiven; `None` if they are not counted.
    fn work(&self) -> Option<&str>;

    /// Brings it into the store, in one transaction, after these tries failed.
    fn send(
        &self,
        node: &Node,
        token: &str,
        before: Tries,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Whether a failed try was committed after all. Asked when the lock is gone: it may have ended with that try.
    fn look_up(&self, node: &Node, lock: &KeptLock) -> impl Future<Output = Saved> + Send;

    /// What is done about data that the store will never accept.
    fn never_accepted(&mut self, node: &Node, error: &ProviderError) -> Refusal;
}

/// What is done about data that the store will never accept.
pub(super) enum Refusal {
    /// The product is something else now, which is sent instead.
    SendInstead,
    /// The work is given back, and the attempt counts.
    GiveBack(GiveBack),
    /// There is nothing else to send: the work is let go.
    LetGo,
}

/// Brings what came of work into the store, and charges the attempt. An outage is waited out with the lock renewed; it never
/// becomes a failure of the work.
pub(super) async fn save<P: Product>(
    node: &Node,
    token: &str,
    lock: &KeptLock,
    product: &mut P,
    persistence: Persistence,
) -> Saved {
    let saved = try_to_save(node, token, lock, product, persistence).await;
    if let Some(work) = product.work() {
        node.forgiven.charge(work, charge(saved, lock.reach()));
    }
    saved
}

async fn try_to_save<P: Product>(
    node: &Node,
    token: &str,
    lock: &KeptLock,
    product: &mut P,
    persistence: Persistence,
) -> Saved {
    loop {
        let send = |before| product.send(node, token, before);
        let GivenUp { why, tries, error } =
            match until_done(node, P::SAVING, persistence, Some(lock), send).await {
                Ok(()) => return Saved::Yes,
                Err(given_up) => given_up,
            };
        match why {
            Why::LockLost => {
                tracing::debug!(target: "duroxide::runtime", work = product.work(), "the lock was lost before the commit");
                return if tries.failures == 0 { Saved::LockLost } else { product.look_up(node, lock).await };
            }
            Why::NeverAccepted => match product.never_accepted(node, &error) {
                Refusal::SendInstead => continue,
                Refusal::GiveBack(how) => {
                    // Whether the store takes it back or the lock expires, the attempt counts.
                    give_back(node, P::QUEUE, token, how).await;
                    return Saved::NeverAccepted;
                }
                Refusal::LetGo => {}
            },
            Why::LetGo => {}
        }
        let ignore_attempt = lock.takes_attempt_back();
        let how = GiveBack { delay: node.delay_after(tries), ignore_attempt, cause: None };
        return match give_back(node, P::QUEUE, token, how).await {
            GivenBack::LockWasGone => product.look_up(node, lock).await,
            GivenBack::Yes | GivenBack::No => Saved::Spoiled,
        };
    }
}
