//! What the store would do next, for tests whose time jumps while the program waits.

use duroxide_core::BounceCause;

use super::MemoryProvider;
use super::rows::{KeptCause, Ms};
use super::state::State;

/// What a store in memory does next if no call from outside reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// A lock is held, or a row is ready to be fetched.
    Busy,
    /// No lock is held and no row is ready before this time.
    IdleUntil {
        /// In milliseconds since the epoch.
        at_ms: u64,
    },
    /// No lock is held, and no row becomes ready by time alone.
    Idle,
}

/// An instance or one of its activities that a node has given back for a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenBack {
    /// The instance.
    pub instance: String,
    /// Why the node gave it back.
    pub cause: BounceCause,
}

impl MemoryProvider {
    /// What the store does next.
    pub fn next_step(&self) -> NextStep {
        self.look(State::next_step)
    }

    /// The first row that a node has given back for a cause and that has not succeeded since.
    pub fn given_back(&self) -> Option<GivenBack> {
        self.look(|state, _| state.given_back())
    }

    /// Resolves at the next transaction: a call that fetches, commits, sends, renews or reads. Transactions count from the
    /// first poll on, or from [`tokio::sync::futures::Notified::enable`].
    pub fn next_transaction(&self) -> tokio::sync::futures::Notified<'_> {
        self.transactions.notified()
    }
}

impl State {
    fn next_step(&self, now: Ms) -> NextStep {
        let turn_locks = self.instances.values().filter_map(|row| row.lock.as_ref()).map(|lock| lock.until);
        let work_locks = self.work.values().filter_map(|row| row.lock.as_ref()).map(|lock| lock.until);
        let is_locked = turn_locks.chain(work_locks).any(|until| now < until);
        let is_ready = self.ready_turns.ready_keys(now, true).next().is_some()
            || self.ready_work.ready_keys(now, true).next().is_some();
        if is_locked || is_ready {
            return NextStep::Busy;
        }
        let turn = self.ready_turns.next_ready(now, |_| true);
        let work = self.ready_work.next_ready(now, |_| true);
        match turn.into_iter().chain(work).min() {
            Some(at) => NextStep::IdleUntil { at_ms: u64::try_from(at).unwrap_or(0) },
            None => NextStep::Idle,
        }
    }

    fn given_back(&self) -> Option<GivenBack> {
        let given_back = |instance: &str, kept: &KeptCause| GivenBack {
            instance: instance.to_string(),
            cause: kept.cause.clone(),
        };
        let turns = self.instances.iter().filter(|(_, row)| !row.status.ends_instance());
        let mut turns = turns.filter_map(|(id, row)| Some(given_back(id, row.bounce.as_ref()?)));
        let mut work =
            self.work.values().filter_map(|row| Some(given_back(&row.key.instance, row.bounce.as_ref()?)));
        turns.next().or_else(|| work.next())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;

    use duroxide_core::WorkItem;
    use futures_util::FutureExt;

    use super::*;
    use crate::Provider;
    use crate::clock::ManualClock;

    const NOW_MS: u64 = 1_000;
    const LOCK: Duration = Duration::from_secs(5);

    fn start(instance: &str) -> WorkItem {
        WorkItem::StartOrchestration {
            instance: instance.to_string(),
            orchestration: "o".to_string(),
            input: String::new(),
            version: Some("1.0.0".to_string()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        }
    }

    #[tokio::test]
    async fn a_store_is_busy_while_a_row_is_ready_or_locked_and_idle_until_the_next_one_is_due() {
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let store = MemoryProvider::with_clock(clock.clone());
        assert_eq!(store.next_step(), NextStep::Idle);
        let delay = Some(Duration::from_millis(500));
        store.enqueue_for_orchestrator(start("i"), delay).await.expect("the store takes a start");
        assert_eq!(store.next_step(), NextStep::IdleUntil { at_ms: NOW_MS + 500 });
        clock.advance(Duration::from_millis(500));
        assert_eq!(store.next_step(), NextStep::Busy, "ready");
        let fetched = store.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        let (_, token, _) = fetched.expect("the store answers").expect("the start is ready");
        assert_eq!(store.next_step(), NextStep::Busy, "locked");
        let delay = Some(Duration::from_secs(1));
        store.abandon_orchestration_item(&token, delay, false).await.expect("the lock is held");
        assert_eq!(store.next_step(), NextStep::IdleUntil { at_ms: NOW_MS + 1_500 });
    }

    #[tokio::test]
    async fn every_transaction_is_told_and_a_look_is_none() {
        let store = MemoryProvider::new();
        let mut told = pin!(store.next_transaction());
        told.as_mut().enable();
        assert_eq!(store.next_step(), NextStep::Idle);
        assert_eq!(store.given_back(), None);
        assert!(told.as_mut().now_or_never().is_none(), "a look is no transaction");
        store.enqueue_for_orchestrator(start("i"), None).await.expect("the store takes a start");
        told.await;
    }
}
