//! What a worker tells an orchestration about its activity besides the result.

use std::sync::Arc;

use duroxide_core::WorkItem;

use super::activity_work::Work;
use super::keeper::KeptLock;
use super::node::Node;
use super::retry::{GivenUp, until_done};
use super::verdict::Persistence;

/// Tells the orchestration that an activity with a schedule-to-start deadline begins, before it does. It must not begin if
/// the lock is lost or the runtime lets go before the store has the message.
pub(super) async fn say_begun(node: &Node, work: &Work, lock: &KeptLock) -> Result<(), GivenUp> {
    if work.deadlines.schedule_to_start_ms.is_none() {
        return Ok(());
    }
    let begun = WorkItem::ActivityBegun {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        id: work.id,
    };
    until_done(node, "saying that an activity begins", Persistence::Result, Some(lock), |_| {
        node.provider.enqueue_for_orchestrator(begun.clone(), None)
    })
    .await
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
        let told = until_done(&node, "saying that an activity has stopped", Persistence::Note, None, |_| {
            node.provider.enqueue_for_orchestrator(stopped.clone(), None)
        });
        // If it is not told, because of a shutdown for example, the orchestration waits for its own limit.
        drop(told.await);
    }
}
