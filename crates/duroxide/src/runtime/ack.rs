//! The ack of an activity: its result goes into the inbox of its orchestration, in place of the work item.

use duroxide_core::{ErrorDetails, WorkItem, columns_of, test_fault};

use super::keeper::KeptLock;
use super::node::Node;
use super::poison;
use super::save::{Product, Refusal};
use super::suspects::Queue;
use super::test_faults;
use super::verdict::{Reach, Saved, Tries};
use crate::providers::ProviderError;

/// The result of an activity. One that the store never accepts becomes the failure of the activity, which says so.
pub(super) struct ToAck<'a> {
    /// The name of the activity among those whose attempts are forgiven.
    pub(super) work: Option<&'a str>,
    /// `None` removes the work item without a result.
    pub(super) completion: Option<WorkItem>,
}

impl Product for ToAck<'_> {
    const QUEUE: Queue = Queue::Activities;
    const SAVING: &'static str = "acknowledging an activity";

    fn work(&self) -> Option<&str> {
        self.work
    }

    async fn send(&self, node: &Node, token: &str, before: Tries) -> Result<(), ProviderError> {
        let mut completion = self.completion.clone();
        test_fault!(OutageIsNoFailure => completion = test_faults::spoil(completion, before));
        node.provider.ack_work_item(token, completion).await
    }

    /// The result may have been read and be gone from the inbox, so that no question finds it out.
    async fn look_up(&self, _node: &Node, lock: &KeptLock) -> Saved {
        match lock.reach() {
            Reach::Within => Saved::Presumably,
            Reach::Out => Saved::Spoiled,
        }
    }

    fn never_accepted(&mut self, _node: &Node, error: &ProviderError) -> Refusal {
        match self.completion.as_ref().and_then(|refused| failure_instead(refused, error)) {
            Some(failure) => {
                self.completion = Some(failure);
                Refusal::SendInstead
            }
            None => Refusal::LetGo,
        }
    }
}

/// The failure of an activity whose result the store does not accept; `None` if it is that failure already.
fn failure_instead(completion: &WorkItem, error: &ProviderError) -> Option<WorkItem> {
    if let WorkItem::ActivityFailed { details: ErrorDetails::Infrastructure { .. }, .. } = completion {
        return None;
    }
    let columns = columns_of(completion);
    let (execution_id, id) = (columns.execution_id?, columns.event_id?);
    let details = poison::result_not_accepted(error);
    Some(WorkItem::ActivityFailed { instance: completion.instance().to_string(), execution_id, id, details })
}
