//! The loops that fetch work. A loop outlives every panic and every outage of the store.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{NodeRecord, columns_of};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::give_back::abandon;
use super::node::Node;
use super::probation::{Previous, SuspectPlace, nodes_to_judge};
use super::sessions::{Asks, RunningSession};
use super::suspects::{ALONE_DELAY, Answer, Queue};
use super::{activity, turn};
use crate::providers::{
    FetchedTurn, FetchedWork, GiveBack, ProviderError, Suspects, TurnRequest, WorkRequest,
};

/// Items of one fetch: enough to fill a group commit.
const MAX_ITEMS_PER_FETCH: usize = 32;
/// How long a suspect that may not run yet is left alone, for stores that cannot leave it in the queue.
const SUSPECT_DELAY: Duration = Duration::from_millis(200);

/// How long suspects wait until those that may not run beside them are given back.
const LONGEST_GIVE_BACK: Duration = Duration::from_secs(1);

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

/// The right to run one item, with its place among the suspects if it is one. Given back when dropped.
pub(super) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    suspect: Option<SuspectPlace>,
    _session: Option<RunningSession>,
}

impl Slot {
    /// The place that a suspect has while it is on probation.
    pub(super) fn take_place(&mut self) -> Option<SuspectPlace> {
        self.suspect.take()
    }

    /// What keeps others from the slot, for a handler that keeps it longer than its work.
    pub(super) fn take_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }
}

/// Fetches one queue until the node stops.
pub(super) async fn run(node: Arc<Node>, queue: Queue) {
    let mut backoff = Backoff::default();
    while !node.stopping.is_cancelled() {
        match AssertUnwindSafe(fetch_and_start(&node, queue)).catch_unwind().await {
            Ok(Ok(())) => backoff.reset(),
            Ok(Err(error)) => {
                node.store_failed("fetching", &error);
                pause_unless_stopping(&node, backoff.next()).await;
            }
            Err(_panic) => {
                tracing::error!(target: "duroxide::runtime", ?queue, "a fetch panicked; fetching again");
                pause_unless_stopping(&node, backoff.next()).await;
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
    let room = suspects_running.room(queue);
    let suspects = Suspects::at_most(room.min(permits.len()));
    // Also from before the fetch says which versions this node chooses.
    let mut policy_changes = node.orchestrations.policy_changes();
    let policy_matters = queue == Queue::Turns && node.routes_by_handler();
    let fetched = tokio::select! {
        biased;
        () = node.stopping.cancelled() => return Ok(()),
        fetched = fetch(node, queue, suspects, permits.len()) => fetched?,
        // The next suspect may run: ask again, now for one.
        () = suspect_ended, if room == 0 && node.provider.separates_suspects() => return Ok(()),
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
        Fetched::Turns(turns) => start_turns(node, turns, permits).await,
        Fetched::Work(work) => start_activities(node, work, permits).await,
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
                holder: node.lock_holder,
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
                holder: node.lock_holder,
            };
            let work = node.provider.fetch_work(request).await?;
            node.counters.worker_dispatcher_items_fetched.add(work.len());
            Ok(Fetched::Work(work))
        }
    }
}

async fn start_turns(node: &Arc<Node>, turns: Vec<FetchedTurn>, permits: Vec<OwnedSemaphorePermit>) {
    let nodes = nodes_to_judge(node, turns.iter().map(Previous::of_turn)).await;
    let (mut suspects, mut refused) = (Vec::new(), Vec::new());
    for (fetched, permit) in turns.into_iter().zip(permits) {
        match admit(node, Queue::Turns, Previous::of_turn(&fetched), &nodes, permit) {
            Ok(slot) if slot.suspect.is_some() => suspects.push((fetched, slot)),
            Ok(slot) => node.spawn_work(Queue::Turns, turn::process(node.clone(), fetched, slot)),
            Err(one) => refused.push((fetched.lock_token, one)),
        }
    }
    refuse_before(node, Queue::Turns, refused, suspects.len()).await;
    for (fetched, slot) in suspects {
        node.spawn_work(Queue::Turns, turn::process(node.clone(), fetched, slot));
    }
}

async fn start_activities(node: &Arc<Node>, work: Vec<FetchedWork>, permits: Vec<OwnedSemaphorePermit>) {
    let nodes = nodes_to_judge(node, work.iter().map(Previous::of_work)).await;
    let (mut suspects, mut refused) = (Vec::new(), Vec::new());
    for (fetched, permit) in work.into_iter().zip(permits) {
        let session_id = columns_of(&fetched.item).session_id;
        let session = session_id.and_then(|session_id| node.sessions.begin(session_id));
        if session_id.is_some() && session.is_none() {
            // There was room when it was asked for; meanwhile another fetch has used it.
            refused.push((fetched.lock_token, Refused { delay: None, place: None }));
            continue;
        }
        match admit(node, Queue::Activities, Previous::of_work(&fetched), &nodes, permit) {
            Ok(slot) => {
                let slot = Slot { _session: session, ..slot };
                if slot.suspect.is_some() {
                    suspects.push((fetched, slot));
                } else {
                    node.spawn_work(Queue::Activities, activity::process(node.clone(), fetched, slot));
                }
            }
            Err(one) => refused.push((fetched.lock_token, one)),
        }
    }
    refuse_before(node, Queue::Activities, refused, suspects.len()).await;
    for (fetched, slot) in suspects {
        node.spawn_work(Queue::Activities, activity::process(node.clone(), fetched, slot));
    }
}

/// An item that may not run now.
struct Refused {
    /// How long it is left alone.
    delay: Option<Duration>,
    /// A place that is kept while it is given back.
    place: Option<SuspectPlace>,
}

fn admit(
    node: &Node,
    queue: Queue,
    previous: Previous,
    nodes: &[NodeRecord],
    permit: OwnedSemaphorePermit,
) -> Result<Slot, Refused> {
    let process = &node.options.process;
    let suspicion = previous.suspicion(node, queue, nodes);
    let place = |place| SuspectPlace::new(process.clone(), place, suspicion, previous.attempts(node));
    match process.suspects().ask(queue, suspicion) {
        Answer::MayRun(taken) => Ok(Slot { permit: Some(permit), suspect: taken.map(place), _session: None }),
        Answer::QueueTaken => Err(Refused { delay: Some(SUSPECT_DELAY), place: None }),
        Answer::NotAlone(taken) => Err(Refused { delay: Some(ALONE_DELAY), place: Some(place(taken)) }),
    }
}

/// Gives items back before this many suspects of the same fetch begin. One of those may kill the process at once, and what is
/// locked then is charged with it although it did not run: again and again, if the two are always fetched together.
async fn refuse_before(node: &Arc<Node>, queue: Queue, refused: Vec<(String, Refused)>, suspects: usize) {
    let mut given_back = Vec::with_capacity(refused.len());
    for (token, one) in refused {
        let (done, waiting) = oneshot::channel();
        node.spawn(refuse(node.clone(), queue, token, one, done));
        given_back.push(waiting);
    }
    if suspects > 0 && !given_back.is_empty() {
        // The suspects wait for a store that does not answer for a bounded time only.
        drop(tokio::time::timeout(LONGEST_GIVE_BACK, join_all(given_back)).await);
    }
}

/// Gives an item back uncounted: others run now. Drops `done` once the store has it.
async fn refuse(node: Arc<Node>, queue: Queue, token: String, refused: Refused, done: oneshot::Sender<()>) {
    abandon(&node, queue, &token, GiveBack::uncounted(refused.delay)).await;
    drop(done);
    if let Some(place) = refused.place {
        // However many there are, they are not fetched and given back in a loop.
        pause_unless_stopping(&node, SUSPECT_DELAY).await;
        drop(place);
    }
}
