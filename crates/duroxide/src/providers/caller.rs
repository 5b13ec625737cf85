//! Messages that are sent inside a transaction of the caller.

use duroxide_core::WorkItem;

use super::ProviderError;

/// A transaction of the caller on the database of a store, in which messages can be sent.
///
/// What is sent becomes visible when the caller commits, together with everything else the transaction did.
pub trait CallerTransaction {
    /// Sends a message, like [`Provider::enqueue_for_orchestrator`](super::Provider::enqueue_for_orchestrator)
    /// without a delay.
    fn enqueue(&self, item: WorkItem) -> impl Future<Output = Result<(), ProviderError>>;
}
