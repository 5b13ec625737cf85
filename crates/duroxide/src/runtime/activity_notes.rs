//! What a worker tells an orchestration about its activity besides the result.

use std::sync::Arc;

use duroxide_core::WorkItem;

use super::activity::Work;
use super::backoff::OutageBackoff;
use super::insist::answer_in_time;
use super::keeper::KeptLock;
use super::node::Node;

/// Tells the orchestration that an activity with a schedule-to-start deadline begins, before it does. Gives
/// whether it may: not if the lock is lost or the runtime lets go before the store has the message.
pub(super) async fn say_begun(node: &Node, work: &Work, lock: &KeptLock) -> bool {
    if work.deadlines.schedule_to_start_ms.is_none() {
        return true;
    }
    let begun = WorkItem::ActivityBegun {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        id: work.id,
    };
    let mut outage = OutageBackoff::default();
    loop {
        let Err(error) = answer_in_time(node.provider.enqueue_for_orchestrator(begun.clone(), None)).await
        else {
            return true;
        };
        node.store_failed("saying that an activity begins", &error);
        if lock.lost().is_cancelled() || !node.pause(outage.next()).await {
            return false;
        }
    }
}

/// Tells the orchestration that its activity, which it may have given up, does not run here any more. For one that runs on
/// elsewhere it changes nothing.
pub(super) fn tell_stopped(node: Arc<Node>, work: &Work) -> impl Future<Output = ()> + Send + use<> {
    let stopped = work.reports_stop.then(|| WorkItem::ActivityStopped {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        id: work.id,
    });
    async move {
        let Some(stopped) = stopped else { return };
        let mut outage = OutageBackoff::default();
        loop {
            let told = answer_in_time(node.provider.enqueue_for_orchestrator(stopped.clone(), None)).await;
            let Err(error) = told else { return };
            node.store_failed("saying that an activity has stopped", &error);
            // After a shutdown the orchestration waits for its own limit.
            if !error.is_retryable() || !node.pause(outage.next()).await {
                return;
            }
        }
    }
}
