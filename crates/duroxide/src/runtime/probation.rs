//! The place of a suspect: which item gets one, and when it gives it up.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::NodeRecord;

use super::keeper::KeptLock;
use super::node::Node;
use super::process::ProcessScope;
use super::retry::{GivenUp, Why, until_done};
use super::suspects::{Attempts, Place, Queue, Suspicion};
use super::verdict::Persistence;
use crate::providers::{ExpiredLock, FetchedTurn, FetchedWork};

/// How long the list of nodes is waited for, while what was fetched is locked and does not run.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// What a fetch says about the lock that an item had before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Previous {
    suspect: bool,
    expired: Option<ExpiredLock>,
    attempts: u32,
    forgiven: u32,
}

impl Previous {
    pub(super) fn of_turn(fetched: &FetchedTurn) -> Self {
        let (attempts, forgiven) = (fetched.attempts, 0);
        match &fetched.facts {
            Some(facts) => Self { suspect: facts.suspect, expired: facts.expired, attempts, forgiven },
            // Without the extension the runtime does not know how the previous attempt ended.
            None => Self { suspect: attempts > 1, expired: None, attempts, forgiven },
        }
    }

    pub(super) fn of_work(fetched: &FetchedWork) -> Self {
        let FetchedWork { attempts, forgiven, suspect, expired, .. } = fetched;
        Self { suspect: *suspect, expired: *expired, attempts: *attempts, forgiven: *forgiven }
    }

    /// Whether only the rows of nodes can tell if the process that held the lock has died.
    fn needs_nodes(&self, node: &Node) -> bool {
        self.suspect && self.expired.is_some_and(|expired| expired.holder != node.lock_holder)
    }

    /// An expired lock is suspicious only if the process that held it may have died of the item.
    fn holder_lives(&self, node: &Node, nodes: &[NodeRecord]) -> bool {
        self.expired.is_some_and(|expired| {
            expired.holder == node.lock_holder || nodes.iter().any(|one| expired.was_outlived_by(one))
        })
    }

    pub(super) fn attempts(&self, node: &Node) -> Attempts {
        Attempts { counted: self.attempts, forgiven: self.forgiven, max: node.options.max_attempts }
    }

    /// How suspicious the item is.
    pub(super) fn suspicion(&self, node: &Node, queue: Queue, nodes: &[NodeRecord]) -> Suspicion {
        if !self.suspect || self.holder_lives(node, nodes) {
            return Suspicion::None;
        }
        let width = match queue {
            Queue::Turns => node.options.orchestration_concurrency,
            Queue::Activities => node.options.worker_concurrency,
        };
        Suspicion::of_suspect(self.attempts(node), width)
    }
}

/// The nodes, if they are needed to judge one of these items. Without an answer every expired lock is suspicious.
pub(super) async fn nodes_to_judge(
    node: &Node,
    mut items: impl Iterator<Item = Previous>,
) -> Vec<NodeRecord> {
    if !items.any(|item| item.needs_nodes(node)) || !node.provider.keeps_nodes() {
        return Vec::new();
    }
    match tokio::time::timeout(LONGEST_LOOK, node.provider.list_nodes()).await {
        Ok(Ok(nodes)) => nodes,
        Ok(Err(error)) => {
            node.store_failed("listing the nodes", &error);
            Vec::new()
        }
        Err(_elapsed) => Vec::new(),
    }
}

/// The place of a suspect on probation. Given up when dropped.
pub(super) struct SuspectPlace {
    process: ProcessScope,
    place: Place,
    suspicion: Suspicion,
    attempts: Attempts,
}

impl Drop for SuspectPlace {
    fn drop(&mut self) {
        self.process.suspects().end(self.place);
    }
}

impl SuspectPlace {
    pub(super) fn new(process: ProcessScope, place: Place, suspicion: Suspicion, attempts: Attempts) -> Self {
        Self { process, place, suspicion, attempts }
    }

    /// Runs an activity that is on probation if it has a place, and gives the place up when the probation is over.
    pub(super) async fn watch<T>(
        place: Option<Self>,
        node: &Arc<Node>,
        lock: &KeptLock,
        token: &str,
        activity: impl Future<Output = T>,
    ) -> T {
        let Some(place) = place else { return activity.await };
        let mut activity = std::pin::pin!(activity);
        tokio::select! {
            biased;
            ended = &mut activity => return ended,
            () = place.pass(node, lock, token) => {}
        }
        activity.await
    }

    /// Ends when the probation is over. A grave suspect that cannot be forgiven keeps its place to its end: the next
    /// one, which may be the killer, would charge it with more than half of its attempts.
    async fn pass(self, node: &Node, lock: &KeptLock, token: &str) {
        tokio::time::sleep(self.suspicion.probation(self.attempts)).await;
        match self.suspicion {
            Suspicion::None | Suspicion::Some { .. } => return,
            Suspicion::Grave => {}
        }
        if !node.provider.separates_suspects() || self.attempts.forgiven >= self.attempts.max {
            return std::future::pending().await;
        }
        let forgive = |_| node.provider.forgive_attempt(token);
        match until_done(node, "forgiving an attempt", Persistence::Note, None, forgive).await {
            Ok(()) => lock.forgive(),
            // The result is no longer wanted; the activity is about to be told.
            Err(GivenUp { why: Why::LockLost, .. }) => {}
            Err(GivenUp { why: Why::NeverAccepted | Why::LetGo, .. }) => std::future::pending().await,
        }
    }
}
