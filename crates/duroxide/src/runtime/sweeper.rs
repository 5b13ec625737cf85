//! The sweeper finds work that no live node can do and names it. It ends such work only when it is told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{MissingCapability, Need, UnprocessableWork, unpack_version};

use super::activity;
use super::commit::{ToCommit, after_commit};
use super::end_instance::{cancel, cancel_reason, end as end_instance};
use super::node::Node;
use super::obstacle::find_handler;
use super::poison::{self, Past};
use super::save::save;
use super::suspects::Queue;
use super::traces::TurnOf;
use super::verdict::{AttemptCount, Persistence};
use crate::clock::Clock;
use crate::metric;
use crate::providers::{FetchedTurn, ProviderError, SweepRequest};

/// Items that one transaction locks to be ended.
const ITEMS_PER_CALL: usize = 32;

/// How a runtime looks for work that no live node can do. Several nodes may have a sweeper.
///
/// ```
/// use std::time::Duration;
/// use duroxide::RuntimeOptions;
/// use duroxide::runtime::SweeperOptions;
///
/// let options = RuntimeOptions {
///     sweeper: Some(SweeperOptions {
///         end_after: Some(Duration::from_secs(7 * 24 * 60 * 60)),
///         ..SweeperOptions::default()
///     }),
///     ..RuntimeOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweeperOptions {
    /// The time between two looks. 60 s.
    pub interval: Duration,
    /// Ends work that has waited this long as poison; `None` only reports it. Nothing is ended while there is no
    /// live node, while a node has joined within this time, or while a node that was seen within this time, gone or
    /// not, could do it.
    pub end_after: Option<Duration>,
}

impl Default for SweeperOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), end_after: None }
    }
}

/// Looks again and again, until the node stops.
pub(super) async fn run(node: Arc<Node>, sweeper: SweeperOptions) {
    if !node.provider.sweeps() {
        tracing::info!(
            target: "duroxide::runtime",
            store = node.provider.name(),
            "the store does not know which work no node can do: the sweeper finds and ends nothing"
        );
        return;
    }
    let mut known = Known::default();
    loop {
        tokio::select! {
            biased;
            () = node.stopping.cancelled() => return,
            () = tokio::time::sleep(sweeper.interval) => {}
        }
        if let Err(error) = round(&node, &sweeper, &mut known).await {
            // The next round finds what this one left.
            node.store_failed("looking for work that no node can do", &error);
        }
    }
}

async fn round(node: &Arc<Node>, sweeper: &SweeperOptions, known: &mut Known) -> Result<(), ProviderError> {
    let found = node.provider.find_unprocessable_work().await?;
    known.report(&found);
    match sweeper.end_after {
        Some(end_after) if !found.is_empty() => end(node, end_after).await,
        Some(_) | None => Ok(()),
    }
}

/// What was found the last time, so that each finding is told once, and again when something else is missing.
#[derive(Debug, Default)]
struct Known(BTreeMap<Need, MissingCapability>);

impl Known {
    fn report(&mut self, found: &[UnprocessableWork]) {
        let before = std::mem::take(&mut self.0);
        for work in found {
            gauge(&work.what).set(work.count as f64);
            if before.get(&work.what) != Some(&work.missing) {
                tracing::warn!(
                    target: "duroxide::runtime",
                    what = %work.what,
                    missing = %work.missing,
                    waiting = work.count,
                    oldest_age_secs = work.oldest_age.as_secs(),
                    "work waits that no live node can do"
                );
            }
            self.0.insert(work.what.clone(), work.missing);
        }
        for what in before.keys().filter(|what| !self.0.contains_key(*what)) {
            gauge(what).set(0.0);
            tracing::info!(target: "duroxide::runtime", %what, "no such work waits any more");
        }
    }
}

fn gauge(what: &Need) -> metric::Gauge {
    match what {
        Need::Turn(key) => {
            let (name, version) = key.route.columns();
            let pinned = key.pinned.map(|pinned| unpack_version(pinned).to_string()).unwrap_or_default();
            metric::unprocessable_work("orchestration", name.to_string(), version.to_string(), pinned, "")
        }
        Need::Activity { name, tag } => {
            let tag = tag.clone().unwrap_or_default();
            metric::unprocessable_work("activity", name.clone(), "", "", tag)
        }
    }
}

/// Ends what may be ended, a bounded number at a time.
async fn end(node: &Arc<Node>, end_after: Duration) -> Result<(), ProviderError> {
    let request = |lock_timeout| SweepRequest { end_after, lock_timeout, max_items: ITEMS_PER_CALL };
    while !node.stopping.is_cancelled() {
        let turns =
            node.provider.fetch_unprocessable_turns(request(node.options.orchestrator_lock_timeout)).await?;
        if turns.is_empty() {
            break;
        }
        for fetched in turns {
            end_turn(node, fetched).await;
        }
    }
    while !node.stopping.is_cancelled() {
        let work = node.provider.fetch_unprocessable_work(request(node.options.worker_lock_timeout)).await?;
        if work.is_empty() {
            break;
        }
        for fetched in work {
            activity::end_unprocessable(node, fetched).await;
        }
    }
    Ok(())
}

/// Ends an instance as poison, or as cancelled if a cancel waits, by the ordinary commit of a turn.
async fn end_turn(node: &Arc<Node>, fetched: FetchedTurn) {
    let FetchedTurn { item, lock_token, attempts, facts } = fetched;
    let lock = node.keeper.keep(Queue::Turns, &lock_token);
    node.live.forget(&item.instance);
    let of = TurnOf::new(&item);
    let now_ms = facts.as_ref().map_or_else(|| node.clock.now_ms(), |facts| facts.now_ms);
    let result = match cancel_reason(&item.messages).map(str::to_string) {
        Some(reason) => cancel(node, item, facts.as_ref(), &reason, now_ms).await,
        None => {
            let past = Past::of_turn(attempts, facts.as_ref());
            let obstacle = find_handler(node, &item).err();
            let ending = poison::of_swept_turn(node, &item, obstacle, past).await;
            end_instance(node, item, facts.as_ref(), ending, now_ms).await
        }
    };
    let count = AttemptCount { counted: attempts, max: node.options.max_attempts };
    let mut to_commit =
        ToCommit { execution_id: of.execution_id, instance: &of.instance_id, turn: &result.turn, count };
    let saved = save(node, &lock_token, &lock, &mut to_commit, Persistence::End).await;
    drop(lock);
    after_commit(node, of, saved, result, facts);
}
