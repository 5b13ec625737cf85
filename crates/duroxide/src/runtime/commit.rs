//! Bringing a turn into the store, and what follows from it.

use std::sync::Arc;

use duroxide_core::protection::Protection;
use duroxide_core::{BounceCause, EventKind, Turn, TurnResult};

use super::backoff::OutageBackoff;
use super::give_back::{GivenBack, give_back};
use super::insist::answer_in_time;
use super::life;
use super::node::Node;
use super::retention;
use super::suspects::Queue;
use super::traces::{self, TurnOf};
use crate::providers::{GiveBack, ProviderErrorKind, TurnFacts};

/// How often an ack that the store refuses for good is tried before the instance is given back uncounted.
const REFUSED_ACKS: u32 = 3;

/// Whether a turn reached the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    Yes,
    /// By a try whose answer was lost. What the instance is now is not known here.
    Earlier,
    /// Somebody else holds the lock now, or an earlier try was committed after all.
    LockLost,
    /// The store failed until the lock was gone or the runtime let go.
    Spoiled,
    /// The store does not accept what the turn writes. The attempt counts: the same turn will be refused again.
    Refused,
}

/// What to do when the store fails while a turn is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insistence {
    /// The turn is the work itself: wait until the store is back.
    KeepTrying,
    /// The turn ends work that was attempted too often. A store that takes no commits may be why; so the end is
    /// given up, and the work gets another chance.
    GiveUp,
}

/// A turn under its lock.
pub(super) struct ToCommit<'a> {
    pub(super) token: &'a str,
    pub(super) execution_id: u64,
    pub(super) instance: &'a str,
    pub(super) turn: &'a Turn,
    /// How often the instance was attempted, this time included.
    pub(super) attempts: u32,
}

/// Commits a turn. An outage is waited out with the lock renewed; it never becomes the workflow's failure. What the store
/// refuses because of its content does in the end: it is given back as an attempt, with what the store said.
pub(super) async fn commit(node: &Node, to_commit: ToCommit<'_>, insistence: Insistence) -> Committed {
    let ToCommit { token, execution_id, instance, turn, attempts } = to_commit;
    let mut outage = OutageBackoff::default();
    let mut failures = 0u32;
    let mut refused = 0;
    loop {
        let acked = node.provider.ack_orchestration_item(
            token,
            execution_id,
            turn.events.clone(),
            turn.worker_items.clone(),
            turn.orchestrator_items.clone(),
            turn.metadata.clone(),
            turn.cancelled_activities.clone(),
        );
        let error = match answer_in_time(acked).await {
            Ok(()) => return Committed::Yes,
            Err(error) if error.kind() == ProviderErrorKind::LockLost => {
                tracing::debug!(target: "duroxide::runtime", instance_id = %instance, "the lock was lost before the commit");
                return match failures {
                    0 => Committed::LockLost,
                    _ if is_stored(node, instance, execution_id, turn).await => Committed::Earlier,
                    _ => Committed::Spoiled,
                };
            }
            Err(error) => error,
        };
        failures = failures.saturating_add(1);
        node.store_failed("committing a turn", &error);
        let is_about_data =
            error.kind() == ProviderErrorKind::Invalid && !Protection::RefusedDataEnds.is_off();
        if insistence == Insistence::KeepTrying && is_about_data {
            let cause = BounceCause::CommitRefused { error: error.message };
            let delay = node.options.unregistered_backoff.delay(attempts);
            give_back(node, Queue::Turns, token, GiveBack::bounced(delay, cause)).await;
            return Committed::Refused;
        }
        if !error.is_retryable() {
            refused += 1;
        }
        let let_go =
            insistence == Insistence::GiveUp || refused >= REFUSED_ACKS || !node.pause(outage.next()).await;
        if let_go {
            let delay = (refused > 0).then_some(node.options.unregistered_backoff.max_delay);
            return match give_back(node, Queue::Turns, token, GiveBack::uncounted(delay)).await {
                GivenBack::LockWasGone if is_stored(node, instance, execution_id, turn).await => {
                    Committed::Earlier
                }
                GivenBack::LockWasGone | GivenBack::Yes | GivenBack::No => Committed::Spoiled,
            };
        }
    }
}

/// Whether the store has this very turn. Asked only when an answer was lost, so a history may be read for it.
async fn is_stored(node: &Node, instance: &str, execution_id: u64, turn: &Turn) -> bool {
    let Some(last) = turn.events.last() else { return false };
    match answer_in_time(node.provider.read_with_execution(instance, execution_id)).await {
        Ok(history) => history.iter().rev().any(|event| event == last),
        Err(error) => {
            node.store_failed("reading a history", &error);
            false
        }
    }
}

/// Counts, logs and keeps what a turn brought that reached the store; forgets what did not.
pub(super) fn after_commit(
    node: &Arc<Node>,
    mut of: TurnOf,
    committed: Committed,
    result: TurnResult,
    facts: Option<TurnFacts>,
) {
    let TurnResult { turn, execution } = result;
    of.begun(&turn.events);
    let instance = &of.instance_id;
    match committed {
        Committed::Yes => node.excuses.forget(instance),
        Committed::Earlier => {
            node.live.forget(instance);
            node.excuses.forget(instance);
        }
        Committed::Spoiled => {
            node.live.forget(instance);
            return node.excuses.excuse(instance);
        }
        Committed::LockLost | Committed::Refused => return node.live.forget(instance),
    }
    for line in &turn.traces {
        traces::of_orchestration(&of, &node.node_id, line);
    }
    life::turn_committed(node, &of, &turn, facts.as_ref());
    if let Some(last) = turn.events.last()
        && matches!(last.kind, EventKind::OrchestrationContinuedAsNew { .. })
    {
        retention::continued_as_new(node, instance, last.execution_id);
    }
    if let (Committed::Yes, Some(execution), Some(facts)) = (committed, execution, facts) {
        node.live.keep(of.instance_id, facts.incarnation, execution);
    }
}
