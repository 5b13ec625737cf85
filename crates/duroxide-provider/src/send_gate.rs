//! Large messages of clients are encoded a few at a time: however many are sent at once, only these are in memory twice.

use duroxide_core::{WorkItem, limits};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A message below this is let through: the gate is for few large ones, not for many small ones.
const SMALL_BYTES: usize = 64 * 1024;

/// Where large messages wait until they may be encoded, in the order of their arrival.
#[derive(Debug)]
pub struct SendGate(Semaphore);

impl Default for SendGate {
    fn default() -> Self {
        Self(Semaphore::new(limits::MAX_SENDING_BYTES))
    }
}

impl SendGate {
    /// Waits until a message may be encoded. To be kept until it is stored.
    pub async fn enter(&self, item: &WorkItem) -> Option<SemaphorePermit<'_>> {
        let bytes = payload_bytes(item).min(limits::MAX_SENDING_BYTES);
        if bytes < SMALL_BYTES {
            return None;
        }
        // Never closed, and the limit is far below what a number of permits can be.
        self.0.acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX)).await.ok()
    }
}

/// The bytes of what a client sends. Not those of the stored form: to count these takes as long as to make it.
fn payload_bytes(item: &WorkItem) -> usize {
    match item {
        WorkItem::StartOrchestration { input, .. } => input.len(),
        WorkItem::ExternalRaised { data, .. } | WorkItem::QueueMessage { data, .. } => data.len(),
        WorkItem::CancelInstance { .. }
        | WorkItem::ContinueAsNew { .. }
        | WorkItem::ActivityCompleted { .. }
        | WorkItem::ActivityFailed { .. }
        | WorkItem::ActivityErrored { .. }
        | WorkItem::ActivityBegun { .. }
        | WorkItem::ActivityStopped { .. }
        | WorkItem::TimerFired { .. }
        | WorkItem::SubOrchCompleted { .. }
        | WorkItem::SubOrchFailed { .. }
        | WorkItem::SubOrchErrored { .. }
        | WorkItem::Redriven { .. }
        | WorkItem::Repaired { .. }
        | WorkItem::ActivityExecute { .. }
        | WorkItem::ActivityExecuteWithin { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn message(bytes: usize) -> WorkItem {
        let (instance, name) = ("i".to_string(), "q".to_string());
        WorkItem::QueueMessage { instance, name, data: "x".repeat(bytes) }
    }

    #[test]
    fn large_messages_wait_for_each_other_and_small_ones_for_none() {
        let gate = SendGate::default();
        // Above the limit by itself: it comes alone.
        let first =
            gate.enter(&message(limits::MAX_SENDING_BYTES)).now_or_never().expect("nothing is under way");
        assert!(first.is_some());
        assert!(gate.enter(&message(SMALL_BYTES)).now_or_never().is_none(), "it waits");
        assert!(gate.enter(&message(10)).now_or_never().is_some(), "it does not");
        drop(first);
        assert!(gate.enter(&message(SMALL_BYTES)).now_or_never().is_some());
    }
}
