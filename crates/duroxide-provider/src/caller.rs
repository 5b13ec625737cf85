//! Messages that are sent inside a transaction of the caller.

use duroxide_core::WorkItem;

use super::{Enqueued, ProviderError};

/// A transaction of the caller on the database of a store, in which messages can be sent.
///
/// What is sent becomes visible when the caller commits, together with everything else the transaction did.
pub trait CallerTransaction {
    /// Sends a message, like [`Provider::enqueue_for_orchestrator`](super::Provider::enqueue_for_orchestrator)
    /// without a delay.
    fn enqueue(&self, item: WorkItem) -> impl Future<Output = Result<(), ProviderError>>;

    /// Sends a message and tells what became of it, like
    /// [`Provider::enqueue_checked`](super::Provider::enqueue_checked) without a delay. The answer holds once the caller
    /// commits.
    ///
    /// The default body sends nothing and fails: a transaction that has only [`Self::enqueue`] cannot tell.
    fn enqueue_checked(&self, item: WorkItem) -> impl Future<Output = Result<Enqueued, ProviderError>> {
        let _ = item;
        let text = "this store does not tell what became of a message inside a transaction of the caller";
        std::future::ready(Err(ProviderError::permanent("enqueue_checked", text)))
    }

    /// Whether [`Self::enqueue_checked`] tells.
    fn tells_outcomes(&self) -> bool {
        false
    }
}
