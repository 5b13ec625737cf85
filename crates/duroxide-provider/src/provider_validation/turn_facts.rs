//! What an extended fetch tells besides the item, and which history it need not read.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::ParentLink;
use duroxide_core::limits::MAX_EVENTS_PER_FETCH;

use super::ProviderFactory;
use super::fixture::{Commit, Store, event, scheduled, start, start_child, started};
use crate::{
    FetchedTurn, HeldHistories, HeldHistory, HistoryPart, NothingHeld, Suspects, TurnFacts, TurnRequest,
};

/// A node that holds one history, whatever the instance.
struct Holds(HeldHistory);

impl HeldHistories for Holds {
    fn held(&self, _instance: &str) -> Option<HeldHistory> {
        Some(self.0)
    }
}

async fn fetch_many(store: &Store<'_>, held: Arc<dyn HeldHistories>, max_items: usize) -> Vec<FetchedTurn> {
    let request = TurnRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        filter: None,
        handlers: None,
        max_items,
        suspects: Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
        held,
    };
    store.provider.fetch_turns(request).await.expect("a fetch does not fail")
}

async fn fetch_holding(store: &Store<'_>, held: Arc<dyn HeldHistories>) -> FetchedTurn {
    let mut turns = fetch_many(store, held, 1).await;
    assert_eq!(turns.len(), 1, "one instance is ready");
    turns.remove(0)
}

/// Fetches and gives back at once; only for stores that have the extension.
async fn facts_of(store: &Store<'_>) -> TurnFacts {
    let turn = fetch_holding(store, Arc::new(NothingHeld)).await;
    store.provider.abandon_orchestration_item(&turn.lock_token, None, true).await.expect("given back");
    turn.facts.expect("the extension tells the facts")
}

/// The facts are those of the columns: last event, parent, incarnation, the store's time.
pub async fn a_fetch_tells_the_facts(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.begin("parent").await;
    store.send(start_child("child", "parent", 5)).await;
    let created = store.admin().get_instance_info("child").await.expect("read").created_at;
    let first = facts_of(&store).await;
    assert_eq!((first.last_event_id, first.history), (0, HistoryPart::Whole));
    let link = ParentLink { instance: "parent".to_string(), execution_id: 1, event_id: 5 };
    assert_eq!(first.parent, Some(link));
    assert!(first.now_ms >= created);
    assert_eq!(first.created_at_ms, created);
    factory.advance(Duration::from_millis(30)).await;
    let turn = store.turn_of("child").await;
    store.commit(&turn, Commit::of(&turn).events([started("child", 1), scheduled(2, "child")])).await;
    store.send(event("child", "go")).await;
    let second = facts_of(&store).await;
    assert_eq!(second.last_event_id, 2);
    assert_eq!((second.incarnation, second.created_at_ms), (first.incarnation, created));
    assert!(second.now_ms >= first.now_ms + 30);
}

/// An id that was deleted and started again is another instance.
pub async fn an_id_started_again_has_another_incarnation(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("a")).await;
    let first = facts_of(&store).await.incarnation;
    store.admin().delete_instance("a", true).await.expect("deleted");
    store.send(start("a")).await;
    assert_ne!(facts_of(&store).await.incarnation, first);
}

/// A history that the node holds exactly is not read again; any other is read whole.
pub async fn only_exactly_the_held_history_is_left_out(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.events([scheduled(2, "a")])).await;
    store.send(event("a", "go")).await;
    let extended = store.provider.separates_suspects();
    let incarnation = if extended { facts_of(&store).await.incarnation } else { 0 };
    let stored = HeldHistory { incarnation, execution_id: 1, last_event_id: 2 };
    let others = [
        HeldHistory { incarnation: incarnation.wrapping_add(1), ..stored },
        HeldHistory { execution_id: 2, ..stored },
        HeldHistory { last_event_id: 1, ..stored },
        HeldHistory { last_event_id: 3, ..stored },
        HeldHistory { last_event_id: 0, ..stored },
    ];
    for other in others {
        let turn = fetch_holding(&store, Arc::new(Holds(other))).await;
        assert_eq!(turn.item.history.len(), 2, "{other:?}");
        assert!(turn.facts.is_none_or(|facts| facts.history == HistoryPart::Whole), "{other:?}");
        store.provider.abandon_orchestration_item(&turn.lock_token, None, true).await.expect("given back");
    }
    let turn = fetch_holding(&store, Arc::new(Holds(stored))).await;
    assert_eq!(turn.item.messages, vec![event("a", "go")]);
    if extended {
        assert_eq!(turn.item.history, vec![]);
        assert_eq!(turn.facts.expect("told").history, HistoryPart::Held);
    } else {
        assert_eq!(turn.item.history.len(), 2);
    }
}

/// A held history is of one execution: after continue-as-new it is out of date.
pub async fn a_held_history_of_the_previous_execution_is_not_used(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let held =
        HeldHistory { incarnation: facts_of(&store).await.incarnation, execution_id: 1, last_event_id: 1 };
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).continues_as_new("a")).await;
    let turn = fetch_holding(&store, Arc::new(Holds(held))).await;
    assert_eq!(turn.item.execution_id, 2);
    let facts = turn.facts.expect("told");
    assert_eq!((facts.last_event_id, facts.history), (0, HistoryPart::Whole));
}

/// Locks run while histories are read, so one fetch does not bring many that are long. What it leaves is not counted.
pub async fn a_fetch_brings_a_bounded_number_of_events(factory: &dyn ProviderFactory) {
    const LENGTH: u64 = MAX_EVENTS_PER_FETCH / 2 - 100;
    let store = Store::new(factory).await;
    let ids = ["long1", "long2", "long3", "long4"];
    for id in ids {
        let events = (2..=LENGTH).map(|event_id| scheduled(event_id, id));
        store.begin_with(id, |commit| commit.events(events)).await;
    }
    for id in ids {
        store.send(event(id, "go")).await;
    }
    let mut brought = Vec::new();
    while brought.len() < ids.len() {
        let turns = fetch_many(&store, Arc::new(NothingHeld), ids.len()).await;
        assert!(!turns.is_empty(), "the rest is ready at once");
        let events: u64 = turns.iter().skip(1).map(|turn| turn.item.history.len() as u64).sum();
        assert!(events <= MAX_EVENTS_PER_FETCH, "{events} events besides the first history");
        assert!(turns.iter().all(|turn| turn.attempts == 1), "what was left was not counted");
        brought.extend(turns.into_iter().map(|turn| turn.item.instance));
    }
    brought.sort();
    assert_eq!(brought, ids);
}
