//! Bringing the result of an activity into the store.

use duroxide_core::protection::Protection;
use duroxide_core::{ErrorDetails, WorkItem, columns_of};

use super::backoff::OutageBackoff;
use super::commit::Insistence;
use super::give_back::{GivenBack, give_back};
use super::insist::answer_in_time;
use super::keeper::KeptLock;
use super::node::Node;
use super::suspects::Queue;
use super::unprotected;
use crate::providers::{GiveBack, ProviderError, ProviderErrorKind};

/// How often an ack that the store refuses for good is tried before the activity is given back.
const REFUSED_ACKS: u32 = 3;

/// How an ack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acked {
    Yes,
    /// The lock ended before its time, after an ack whose answer was lost: that one was committed.
    Earlier,
    LockLost,
    /// The store failed until the lock was gone or the runtime let go.
    Spoiled,
}

impl Acked {
    /// Whether the store has the result.
    pub(super) fn reached_the_store(self) -> bool {
        match self {
            Self::Yes | Self::Earlier => true,
            Self::LockLost | Self::Spoiled => false,
        }
    }
}

/// Remembers whether the store spoiled this attempt.
pub(super) fn note(node: &Node, key: &str, acked: Acked) {
    match acked {
        Acked::Yes => node.excuses.forget(key),
        Acked::Earlier | Acked::Spoiled => node.excuses.excuse(key),
        Acked::LockLost => {}
    }
}

/// Brings a result into the store. A failed ack is tried again as long as the lock holds: the activity has run,
/// and must not run again because of the store. A result that the store does not accept becomes the failure of the
/// activity, which says so.
pub(super) async fn ack(
    node: &Node,
    token: &str,
    lock: &KeptLock,
    mut completion: Option<WorkItem>,
    insistence: Insistence,
) -> Acked {
    let mut outage = OutageBackoff::default();
    let mut failures = 0u32;
    let mut refused = 0;
    loop {
        let error = match answer_in_time(node.provider.ack_work_item(token, completion.clone())).await {
            Ok(()) => return Acked::Yes,
            Err(error) if error.kind() == ProviderErrorKind::LockLost => {
                return match failures {
                    0 => Acked::LockLost,
                    _ if lock.was_out_of_reach() => Acked::Spoiled,
                    _ => Acked::Earlier,
                };
            }
            Err(error) => error,
        };
        failures = failures.saturating_add(1);
        node.store_failed("acknowledging an activity", &error);
        completion = unprotected::spoil(completion, &error);
        if !error.is_retryable() {
            refused += 1;
        }
        if refused >= REFUSED_ACKS
            && error.kind() == ProviderErrorKind::Invalid
            && !Protection::RefusedDataEnds.is_off()
            && let Some(failure) = completion.as_ref().and_then(|refused| not_accepted(refused, &error))
        {
            completion = Some(failure);
            refused = 0;
            continue;
        }
        let let_go = insistence == Insistence::GiveUp
            || Protection::ResultOutlivesFailedAck.is_off()
            || refused >= REFUSED_ACKS
            || lock.lost().is_cancelled()
            || !node.pause(outage.next()).await;
        if let_go {
            let delay = (refused > 0).then_some(node.options.unregistered_backoff.max_delay);
            let how = GiveBack { delay, ignore_attempt: lock.takes_attempt_back(), cause: None };
            return match give_back(node, Queue::Activities, token, how).await {
                GivenBack::LockWasGone if !lock.was_out_of_reach() => Acked::Earlier,
                GivenBack::LockWasGone | GivenBack::Yes | GivenBack::No => Acked::Spoiled,
            };
        }
    }
}

/// The failure of an activity whose result the store does not accept; `None` if it is that failure already.
fn not_accepted(completion: &WorkItem, error: &ProviderError) -> Option<WorkItem> {
    let columns = columns_of(completion);
    let (Some(execution_id), Some(id)) = (columns.execution_id, columns.event_id) else { return None };
    let details = ErrorDetails::Infrastructure {
        operation: "acknowledging an activity".to_string(),
        message: format!("the store does not accept the result: {}", error.message),
        retryable: false,
    };
    if let WorkItem::ActivityFailed { details: ErrorDetails::Infrastructure { .. }, .. } = completion {
        return None;
    }
    Some(WorkItem::ActivityFailed { instance: completion.instance().to_string(), execution_id, id, details })
}
