//! Watching the programs of turns: one that runs for too long is reported and given up.
//!
//! Nothing can end the thread it runs on. But its lock is renewed no longer, so that the attempt counts wherever the
//! instance is taken over and the instance is poisoned in the end, and its place among the turns goes to others.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::dispatch::Slot;
use super::node::Node;

/// How often the programs are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Turns that were given up and whose place goes to others, at most. Each keeps a thread until its program returns; above
/// this many, a node takes fewer turns at a time.
const MAX_REPLACED: usize = 256;

/// A turn, as the watch sees it.
pub(super) struct WatchedTurn {
    instance: String,
    orchestration: String,
    attempts: u32,
    /// Dropped when the turn is done or given up.
    slot: Option<Slot>,
    running: Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    /// It waits for the store, or for a thread.
    No,
    Since(Instant),
    /// Seen above the limit once. Perhaps the whole process stood still: it gets until the next look.
    TooLongSince(Instant),
    GivenUp,
}

/// A turn that was given up.
pub(super) struct Overdue {
    instance: String,
    orchestration: String,
    attempts: u32,
    ran: Duration,
    slot: Option<Slot>,
}

/// Says that a program which was given up has returned.
pub(super) struct Returned {
    instance: String,
    orchestration: String,
}

impl WatchedTurn {
    pub(super) fn new(instance: &str, orchestration: &str, attempts: u32, slot: Slot) -> Self {
        Self {
            instance: instance.to_string(),
            orchestration: orchestration.to_string(),
            attempts,
            slot: Some(slot),
            running: Running::No,
        }
    }

    /// Its program begins to run.
    pub(super) fn begin(&mut self, now: Instant) {
        self.running = Running::Since(now);
    }

    /// Its program has returned.
    pub(super) fn end(&mut self) -> Option<Returned> {
        let was = std::mem::replace(&mut self.running, Running::No);
        (was == Running::GivenUp)
            .then(|| Returned { instance: self.instance.clone(), orchestration: self.orchestration.clone() })
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.running == Running::GivenUp
    }

    pub(super) fn into_slot(self) -> Option<Slot> {
        self.slot
    }

    /// Gives the turn up if its program has run for longer than the limit at two looks.
    pub(super) fn look(&mut self, now: Instant, limit: Duration, given_up: usize) -> Option<Overdue> {
        match self.running {
            Running::No | Running::GivenUp => None,
            Running::Since(begun) => {
                if now.duration_since(begun) > limit {
                    self.running = Running::TooLongSince(begun);
                }
                None
            }
            Running::TooLongSince(begun) => {
                self.running = Running::GivenUp;
                Some(Overdue {
                    instance: self.instance.clone(),
                    orchestration: self.orchestration.clone(),
                    attempts: self.attempts,
                    ran: now.duration_since(begun),
                    slot: if given_up < MAX_REPLACED { self.slot.take() } else { None },
                })
            }
        }
    }
}

impl Overdue {
    fn report(self, node: &Node) {
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %self.instance,
            orchestration_name = %self.orchestration,
            attempt_count = self.attempts,
            max_attempts = node.options.max_attempts,
            running_secs = self.ran.as_secs_f32(),
            "the orchestration does not yield: its turn exceeds max_turn_time ({:?}) and keeps its thread; the lock is \
             left to expire, and the attempt counts",
            node.options.max_turn_time
        );
        drop(self.slot);
    }
}

impl Returned {
    pub(super) fn returned(self, after: Duration) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %self.instance,
            orchestration_name = %self.orchestration,
            running_secs = after.as_secs_f32(),
            "a turn that exceeded max_turn_time has ended; it is committed only if no other node has taken it over"
        );
    }
}

/// Looks at the programs as long as turns are in progress.
pub(super) async fn run(node: Arc<Node>) {
    loop {
        node.keeper.a_turn_is_kept().await;
        tokio::time::sleep(LOOK_INTERVAL).await;
        for overdue in node.keeper.give_up_overdue(node.options.max_turn_time) {
            overdue.report(&node);
        }
    }
}
