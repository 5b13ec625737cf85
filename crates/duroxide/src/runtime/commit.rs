//! The commit of a turn, and what follows from it.

use std::sync::Arc;

use duroxide_core::{BounceCause, EventKind, Turn, TurnResult};

use super::give_back::bounced;
use super::keeper::KeptLock;
use super::life;
use super::node::Node;
use super::retention;
use super::save::{Product, Refusal};
use super::store_call::answer_in_time;
use super::suspects::Queue;
use super::traces::{self, TurnOf};
use super::verdict::{AttemptCount, Saved, Tries};
use crate::providers::{ProviderError, TurnFacts};

/// A turn to be committed. What the store never accepts fails the instance in the end: it is given back as an attempt, with
/// what the store said.
pub(super) struct ToCommit<'a> {
    pub(super) execution_id: u64,
    pub(super) instance: &'a str,
    pub(super) turn: &'a Turn,
    pub(super) count: AttemptCount,
}

impl Product for ToCommit<'_> {
    const QUEUE: Queue = Queue::Turns;
    const SAVING: &'static str = "committing a turn";

    fn work(&self) -> Option<&str> {
        Some(self.instance)
    }

    async fn send(&self, node: &Node, token: &str, _before: Tries) -> Result<(), ProviderError> {
        let turn = self.turn;
        let acked = node.provider.ack_orchestration_item(
            token,
            self.execution_id,
            turn.events.clone(),
            turn.worker_items.clone(),
            turn.orchestrator_items.clone(),
            turn.metadata.clone(),
            turn.cancelled_activities.clone(),
        );
        acked.await
    }

    /// The store is read for it. That is done only when an answer was lost, so it may be a whole history.
    async fn look_up(&self, node: &Node, _lock: &KeptLock) -> Saved {
        let Some(last) = self.turn.events.last() else { return Saved::Spoiled };
        match answer_in_time(node.provider.read_with_execution(self.instance, self.execution_id)).await {
            Ok(history) if history.iter().rev().any(|event| event == last) => Saved::Earlier,
            Ok(_) => Saved::Spoiled,
            Err(error) => {
                node.store_failed("reading a history", &error);
                Saved::Spoiled
            }
        }
    }

    fn never_accepted(&mut self, node: &Node, error: &ProviderError) -> Refusal {
        let cause = BounceCause::CommitRefused { error: error.message.clone() };
        Refusal::GiveBack(bounced(node, self.count, cause))
    }
}

/// Counts, logs and keeps what a turn brought that reached the store; forgets what did not.
pub(super) fn after_commit(
    node: &Arc<Node>,
    mut of: TurnOf,
    saved: Saved,
    result: TurnResult,
    facts: Option<TurnFacts>,
) {
    let TurnResult { turn, execution } = result;
    of.begun(&turn.events);
    let instance = &of.instance_id;
    if saved != Saved::Yes {
        node.live.forget(instance);
    }
    if !saved.reached_the_store() {
        return;
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
    if let (Saved::Yes, Some(execution), Some(facts)) = (saved, execution, facts) {
        node.live.keep(of.instance_id, facts.incarnation, execution);
    }
}
