//! One attempt of an activity: its context, its handler, and the message that tells how it ended.

use std::sync::Arc;

use duroxide_core::{WorkItem, test_fault};
use tokio_util::sync::CancellationToken;

use super::ack::ToAck;
use super::activity_context::{ActivityContext, ActivityFacts};
use super::activity_handler::{Ended, run_handler};
use super::activity_notes::tell_stopped;
use super::activity_result::{checked, failure, panicked, timeout};
use super::activity_work::Work;
use super::dispatch::Slot;
use super::give_back::abandon;
use super::keeper::KeptLock;
use super::life;
use super::node::Node;
use super::probation::SuspectPlace;
use super::registry::ActivityHandler;
use super::save::save;
use super::store_call::answer_in_time;
use super::suspects::Queue;
use super::test_faults;
use super::verdict::{Persistence, Saved, charge};
use crate::providers::{GiveBack, OrchestrationRef};

/// One fetch of an activity.
pub(super) struct Attempt {
    /// This one among all fetches, those that were forgiven included.
    pub(super) number: u32,
    pub(super) token: String,
    pub(super) orchestration: Option<OrchestrationRef>,
    pub(super) progress: Option<String>,
}

/// Runs an activity and acks its result, or gives it back.
pub(super) async fn run(
    node: &Arc<Node>,
    token: &str,
    attempt: Attempt,
    lock: &KeptLock,
    work: Work,
    handler: Arc<dyn ActivityHandler>,
    slot: &mut Slot,
) {
    let key = work.key();
    let cancelled = CancellationToken::new();
    let context = context(node, &work, attempt, cancelled.clone()).await;
    let facts = context.facts().clone();
    life::activity_started(node, &facts);
    let began = tokio::time::Instant::now();
    let records_panics = handler.records_panics();
    let place = slot.take_place();
    let activity = run_handler(node, handler, context, &work, lock, &cancelled, slot);
    let ended = SuspectPlace::watch(place, node, lock, token, activity).await;
    life::handler_ended(node, &facts, ended.word(), began.elapsed());
    let completion = match ended {
        Ended::Returned(result) => match checked(&work, result) {
            Ok(result) => WorkItem::ActivityCompleted {
                instance: work.instance.clone(),
                execution_id: work.execution_id,
                id: work.id,
                result,
            },
            Err(error) => failure(&work, error),
        },
        Ended::RanTooLong(limit_ms) => timeout(&work, limit_ms),
        Ended::Panicked(text) => {
            test_fault!(PanicKeepsCapacity => test_faults::lose_slot(node));
            panicked(&work, &text, records_panics)
        }
        Ended::LockLost => {
            test_fault!(FailedRenewalIsNoCancellation => return remove(node, token, lock).await);
            return node.forgiven.charge(&key, charge(Saved::LockLost, lock.reach()));
        }
        Ended::Released => {
            let how = GiveBack { ignore_attempt: lock.takes_attempt_back(), ..GiveBack::default() };
            return abandon(node, Queue::Activities, token, how).await;
        }
    };
    let mut persistence = Persistence::Result;
    test_fault!(ResultOutlivesFailedAck => persistence = Persistence::End);
    let mut to_ack = ToAck { work: Some(&key), completion: Some(completion) };
    let saved = save(node, token, lock, &mut to_ack, persistence).await;
    // What did not reach the store will be run again, perhaps elsewhere, and is counted there.
    if let (true, Some(completion)) = (saved.reached_the_store(), &to_ack.completion) {
        life::activity_committed(node, &facts, completion);
    }
    if saved == Saved::LockLost {
        node.spawn(tell_stopped(node.clone(), &work));
    }
}

/// Removes a work item without a result.
pub(super) async fn remove(node: &Node, token: &str, lock: &KeptLock) {
    let mut to_ack = ToAck { work: None, completion: None };
    save(node, token, lock, &mut to_ack, Persistence::Result).await;
}

async fn context(
    node: &Arc<Node>,
    work: &Work,
    attempt: Attempt,
    cancelled: CancellationToken,
) -> ActivityContext {
    let orchestration = match attempt.orchestration {
        Some(orchestration) => orchestration,
        None => look_up_orchestration(node, &work.instance).await,
    };
    let facts = ActivityFacts {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        activity_id: work.id,
        name: work.name.clone(),
        session_id: work.session_id.clone(),
        tag: work.tag.clone(),
        orchestration_name: orchestration.name,
        orchestration_version: orchestration.version,
        worker_id: node.node_id.clone(),
        retried: work.retried,
        fetches: attempt.number,
        lock_token: attempt.token,
        progress: attempt.progress,
    };
    ActivityContext::new(facts, cancelled, node.provider.clone())
}

/// For stores that do not tell: one small read, never a history.
async fn look_up_orchestration(node: &Node, instance: &str) -> OrchestrationRef {
    let unknown = OrchestrationRef { name: String::new(), version: String::new() };
    let Some(admin) = node.provider.as_management_capability() else { return unknown };
    match answer_in_time(admin.get_instance_info(instance)).await {
        Ok(info) => OrchestrationRef { name: info.orchestration_name, version: info.orchestration_version },
        Err(error) => {
            node.store_failed("reading an instance", &error);
            unknown
        }
    }
}
