//! The loops that fetch work. A loop outlives every panic and every outage of the store.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::columns_of;
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::backoff::OutageBackoff;
use super::give_back::abandon;
use super::node::Node;
use super::process::ProcessScope;
use super::sessions::{Asks, RunningSession};
use super::suspects::{ALONE_DELAY, Answer, Queue, Suspicion};
use super::{activity, turn};
use crate::providers::{
    FetchedTurn, FetchedWork, GiveBack, ProviderError, Suspects, TurnRequest, WorkRequest,
};

/// Items of one fetch: enough to fill a group commit.
const MAX_ITEMS_PER_FETCH: usize = 32;
/// How long a suspect that may not run yet is left alone, for stores that cannot leave it in the queue.
const SUSPECT_DELAY: Duration = Duration::from_millis(200);

/// What a fetch brought.
enum Fetched {
    Turns(Vec<FetchedTurn>),
    Work(Vec<FetchedWork>),
}

impl Fetched {
    fn is_empty(&self) -> bool {
        match self {
            Self::Turns(turns) => turns.is_empty(),
            Self::Work(work) => work.is_empty(),
        }
    }
}

/// The right to run one item, and to be its queue's suspect if it is one. Given back when dropped.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
    _suspect: Option<SuspectPermit>,
    _session: Option<RunningSession>,
}

/// Held while its queue's suspect runs.
struct SuspectPermit {
    process: ProcessScope,
    queue: Queue,
}

impl Drop for SuspectPermit {
    fn drop(&mut self) {
        self.process.suspects().end(self.queue);
    }
}

/// Fetches one queue until the node stops.
pub(super) async fn run(node: Arc<Node>, queue: Queue) {
    let mut outage = OutageBackoff::default();
    while !node.stopping.is_cancelled() {
        match AssertUnwindSafe(fetch_and_start(&node, queue)).catch_unwind().await {
            Ok(Ok(())) => outage.reset(),
            Ok(Err(error)) => {
                node.store_failed("fetching", &error);
                pause_unless_stopping(&node, outage.next()).await;
            }
            Err(_panic) => {
                tracing::error!(target: "duroxide::runtime", ?queue, "a fetch panicked; fetching again");
                pause_unless_stopping(&node, outage.next()).await;
            }
        }
    }
}

async fn pause_unless_stopping(node: &Node, delay: Duration) {
    tokio::select! {
        biased;
        () = node.stopping.cancelled() => {}
        () = tokio::time::sleep(delay) => {}
    }
}

async fn fetch_and_start(node: &Arc<Node>, queue: Queue) -> Result<(), ProviderError> {
    let slots = match queue {
        Queue::Turns => &node.turn_slots,
        Queue::Activities => &node.activity_slots,
    };
    let Some(permits) = acquire(node, slots).await else { return Ok(()) };
    let begun = Instant::now();
    let suspects_running = node.options.process.suspects();
    let mut suspect_ended = pin!(suspects_running.one_ended(queue));
    // From here on no end is missed, also one that comes before the fetch waits.
    suspect_ended.as_mut().enable();
    let room = suspects_running.has_room(queue);
    let suspects = if room { Suspects::AdmitOne } else { Suspects::Refuse };
    // Also from before the fetch says which versions this node chooses.
    let mut policy_changes = node.orchestrations.policy_changes();
    let policy_matters = queue == Queue::Turns && node.routes_by_handler();
    let fetched = tokio::select! {
        biased;
        () = node.stopping.cancelled() => return Ok(()),
        fetched = fetch(node, queue, suspects, permits.len()) => fetched?,
        // The next suspect may run: ask again, now for one.
        () = suspect_ended, if !room && node.provider.separates_suspects() => return Ok(()),
        // What this node can run has changed: ask again.
        _ = policy_changes.changed(), if policy_matters => return Ok(()),
        () = tokio::time::sleep(longest_fetch(node, queue)) => {
            return Err(ProviderError::retryable("fetch", "no answer long after the poll timeout"));
        }
    };
    if fetched.is_empty() {
        // A store that waits needs no pause; one that answers at once must not be asked in a loop.
        drop(permits);
        let left = node.options.dispatcher_min_poll_interval.saturating_sub(begun.elapsed());
        pause_unless_stopping(node, left).await;
        return Ok(());
    }
    match fetched {
        Fetched::Turns(turns) => start_turns(node, turns, permits),
        Fetched::Work(work) => start_activities(node, work, permits),
    }
    Ok(())
}

/// How long a fetch may take. Whatever one that takes longer has locked is free again by then.
fn longest_fetch(node: &Node, queue: Queue) -> Duration {
    let lock_timeout = match queue {
        Queue::Turns => node.options.orchestrator_lock_timeout,
        Queue::Activities => node.options.worker_lock_timeout,
    };
    node.options.dispatcher_long_poll_timeout.saturating_add(lock_timeout)
}

/// Waits for one slot and takes what else is free, up to a fetch's size. `None` when the node stops.
async fn acquire(node: &Node, slots: &Arc<Semaphore>) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = node.stopping.cancelled() => return None,
        permit = slots.clone().acquire_owned() => permit.ok()?,
    };
    let mut permits = vec![first];
    while permits.len() < MAX_ITEMS_PER_FETCH {
        let Ok(permit) = slots.clone().try_acquire_owned() else { break };
        permits.push(permit);
    }
    Some(permits)
}

async fn fetch(
    node: &Node,
    queue: Queue,
    suspects: Suspects,
    max_items: usize,
) -> Result<Fetched, ProviderError> {
    let poll_timeout = node.options.dispatcher_long_poll_timeout;
    match queue {
        Queue::Turns => {
            let request = TurnRequest {
                lock_timeout: node.options.orchestrator_lock_timeout,
                poll_timeout,
                filter: Some(node.filter.clone()),
                handlers: node.routes_by_handler().then(|| node.handlers.orchestrations()),
                max_items,
                suspects,
                held: node.live.clone(),
            };
            let turns = node.provider.fetch_turns(request).await?;
            node.counters.orch_dispatcher_items_fetched.add(turns.len());
            Ok(Fetched::Turns(turns))
        }
        Queue::Activities => {
            let (session, poll_timeout) = match node.sessions.asks(&node.options) {
                Asks::Never => (None, poll_timeout),
                // Soon there may be room; a fetch of such a store is not given up, or what it locked would be lost.
                Asks::NotNow => (None, poll_timeout.min(node.options.dispatcher_min_poll_interval)),
                Asks::For(config) => (Some(config), poll_timeout),
            };
            let request = WorkRequest {
                lock_timeout: node.options.worker_lock_timeout,
                poll_timeout,
                session,
                session_limits: node.sessions.limits(),
                tags: node.options.worker_tag_filter.clone(),
                activities: node.routes_by_handler().then(|| node.handlers.activities()),
                max_items,
                suspects,
            };
            let work = node.provider.fetch_work(request).await?;
            node.counters.worker_dispatcher_items_fetched.add(work.len());
            Ok(Fetched::Work(work))
        }
    }
}

fn start_turns(node: &Arc<Node>, turns: Vec<FetchedTurn>, permits: Vec<OwnedSemaphorePermit>) {
    for (fetched, permit) in turns.into_iter().zip(permits) {
        // Without the extension nobody knows how the previous attempt ended.
        let suspect = fetched.facts.as_ref().map_or(fetched.attempts > 1, |facts| facts.suspect);
        let suspicion = Suspicion::of(suspect, fetched.attempts, node.options.max_attempts);
        match admit(node, Queue::Turns, suspicion, permit) {
            Ok(slot) => node.spawn_turn(turn::process(node.clone(), fetched, slot)),
            Err(refused) => node.spawn(refuse(node.clone(), Queue::Turns, fetched.lock_token, refused)),
        }
    }
}

fn start_activities(node: &Arc<Node>, work: Vec<FetchedWork>, permits: Vec<OwnedSemaphorePermit>) {
    for (fetched, permit) in work.into_iter().zip(permits) {
        let session_id = columns_of(&fetched.item).session_id;
        let session = session_id.and_then(|session_id| node.sessions.begin(session_id));
        if session_id.is_some() && session.is_none() {
            // There was room when it was asked for; meanwhile another fetch has used it.
            let no_room = Refused { delay: None, queue: None };
            node.spawn(refuse(node.clone(), Queue::Activities, fetched.lock_token, no_room));
            continue;
        }
        let suspicion = Suspicion::of(fetched.suspect, fetched.attempts, node.options.max_attempts);
        match admit(node, Queue::Activities, suspicion, permit) {
            Ok(slot) => {
                let slot = Slot { _session: session, ..slot };
                node.spawn(activity::process(node.clone(), fetched, slot));
            }
            Err(refused) => {
                node.spawn(refuse(node.clone(), Queue::Activities, fetched.lock_token, refused));
            }
        }
    }
}

/// An item that may not run now.
struct Refused {
    /// How long it is left alone.
    delay: Option<Duration>,
    /// The queue of a suspect is taken while it is given back.
    queue: Option<SuspectPermit>,
}

fn admit(
    node: &Node,
    queue: Queue,
    suspicion: Suspicion,
    permit: OwnedSemaphorePermit,
) -> Result<Slot, Refused> {
    let process = node.options.process.clone();
    let answer = process.suspects().ask(queue, suspicion);
    match answer {
        Answer::MayRun => {
            let suspect = (suspicion != Suspicion::None).then(|| SuspectPermit { process, queue });
            Ok(Slot { _permit: permit, _suspect: suspect, _session: None })
        }
        Answer::QueueTaken => Err(Refused { delay: Some(SUSPECT_DELAY), queue: None }),
        Answer::NotAlone => {
            Err(Refused { delay: Some(ALONE_DELAY), queue: Some(SuspectPermit { process, queue }) })
        }
    }
}

/// Gives an item back uncounted: others run now.
async fn refuse(node: Arc<Node>, queue: Queue, token: String, refused: Refused) {
    abandon(&node, queue, &token, GiveBack::uncounted(refused.delay)).await;
    if let Some(queue) = refused.queue {
        // However many there are, they are not fetched and given back in a loop.
        pause_unless_stopping(&node, SUSPECT_DELAY).await;
        drop(queue);
    }
}
