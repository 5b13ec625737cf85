//! A crash is charged to one suspect: an item whose previous attempt ended by lock expiry.
//!
//! About the extended fetches. A store without them says so by `separates_suspects`, and must then behave as
//! the default bodies do.

use std::sync::Arc;
use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, event, start};
use crate::{
    FetchedTurn, FetchedWork, LockHolder, NothingHeld, ProviderErrorKind, SessionLimits, Suspects, TagFilter,
    TurnRequest, WorkRequest,
};

/// The node that fetches here.
fn holder() -> LockHolder {
    LockHolder::of_start("this start of this node")
}

fn turns(store: &Store<'_>, max_items: usize, suspects: Suspects) -> TurnRequest {
    TurnRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        filter: None,
        handlers: None,
        max_items,
        suspects,
        holder: holder(),
        held: Arc::new(NothingHeld),
    }
}

async fn fetch_turns(store: &Store<'_>, max_items: usize, suspects: Suspects) -> Vec<FetchedTurn> {
    store.provider.fetch_turns(turns(store, max_items, suspects)).await.expect("a fetch does not fail")
}

async fn fetch_work(store: &Store<'_>, max_items: usize, suspects: Suspects) -> Vec<FetchedWork> {
    let request = WorkRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        session: None,
        session_limits: SessionLimits::NONE,
        tags: TagFilter::DefaultOnly,
        activities: None,
        max_items,
        suspects,
        holder: holder(),
    };
    store.provider.fetch_work(request).await.expect("a fetch does not fail")
}

fn is_suspect(turn: &FetchedTurn) -> bool {
    turn.facts.as_ref().expect("a store that separates suspects tells the facts").suspect
}

fn ids(turns: &[FetchedTurn]) -> Vec<&str> {
    turns.iter().map(|turn| turn.item.instance.as_str()).collect()
}

/// One fetch takes several instances, oldest first and each with its own lock; without the extension, one.
pub async fn one_fetch_takes_several_instances(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), start("b"), start("c")]).await;
    let first = fetch_turns(&store, 2, Suspects::AtMost(1)).await;
    let rest = fetch_turns(&store, 10, Suspects::AtMost(1)).await;
    if store.provider.separates_suspects() {
        assert_eq!((ids(&first), ids(&rest)), (vec!["a", "b"], vec!["c"]));
    } else {
        assert_eq!((ids(&first), ids(&rest)), (vec!["a"], vec!["b"]));
    }
    let turn = &first[0];
    assert_eq!(turn.attempts, 1);
    store
        .provider
        .ack_orchestration_item(&turn.lock_token, 1, vec![], vec![], vec![], Default::default(), vec![])
        .await
        .expect("its own lock");
    assert!(fetch_turns(&store, 0, Suspects::Refuse).await.len() <= 1, "at least one is asked for");
}

/// One fetch takes several work items; without the extension, one.
pub async fn one_fetch_takes_several_work_items(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for id in 2..6 {
        store.queue_work(activity("a", id)).await;
    }
    let first = fetch_work(&store, 3, Suspects::AtMost(1)).await;
    let taken = if store.provider.separates_suspects() { 3 } else { 1 };
    assert_eq!(first.len(), taken);
    assert_eq!(first[0].item, activity("a", 2));
    assert!(first.iter().all(|work| work.attempts == 1 && !work.suspect));
    store.provider.ack_work_item(&first[0].lock_token, None).await.expect("its own lock");
}

/// An instance whose lock expired is a suspect; one that was given back, or never fetched, is not.
pub async fn an_expired_lock_makes_a_suspect(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send_all([start("crashed"), start("given back")]).await;
    let fetched = fetch_turns(&store, 2, Suspects::AtMost(1)).await;
    assert!(fetched.iter().all(|turn| !is_suspect(turn)));
    store.provider.abandon_orchestration_item(&fetched[1].lock_token, None, false).await.expect("given back");
    store.expire_locks().await;
    store.send(start("new")).await;
    let fetched = fetch_turns(&store, 3, Suspects::AtMost(1)).await;
    assert_eq!(fetched.len(), 3);
    for turn in &fetched {
        assert_eq!(is_suspect(turn), turn.item.instance == "crashed", "{}", turn.item.instance);
    }
}

/// A node that runs a suspect already gets none, and the suspect is neither locked nor counted.
pub async fn a_refused_suspect_stays_uncounted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("crashed")).await;
    store.turn_of("crashed").await;
    store.queue_work(activity("a", 2)).await;
    store.work().await;
    store.expire_locks().await;
    store.send(start("new")).await;
    store.queue_work(activity("a", 3)).await;
    let fetched = fetch_turns(&store, 10, Suspects::Refuse).await;
    assert_eq!(ids(&fetched), vec!["new"]);
    assert_eq!(store.max_attempts("crashed").await, 1);
    assert!(fetch_turns(&store, 10, Suspects::Refuse).await.is_empty());
    let work = fetch_work(&store, 10, Suspects::Refuse).await;
    assert_eq!((work.len(), &work[0].item), (1, &activity("a", 3)));
    let work = fetch_work(&store, 10, Suspects::AtMost(1)).await;
    assert_eq!((work.len(), work[0].attempts, work[0].suspect), (1, 2, true));
    assert_eq!(store.turn_of("crashed").await.attempts, 2);
}

/// One fetch returns as many suspects as it asks for at most, among any number of others.
pub async fn a_fetch_returns_no_more_suspects_than_it_asks_for(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    for n in 0..3 {
        store.send(start(&format!("crashed {n}"))).await;
        store.queue_work(activity("a", 2 + n)).await;
    }
    assert_eq!(fetch_turns(&store, 10, Suspects::AtMost(1)).await.len(), 3);
    assert_eq!(fetch_work(&store, 10, Suspects::AtMost(1)).await.len(), 3);
    store.expire_locks().await;
    for n in 0..3 {
        store.send(start(&format!("new {n}"))).await;
        store.queue_work(activity("a", 10 + n)).await;
    }
    let fetched = fetch_turns(&store, 10, Suspects::AtMost(1)).await;
    assert_eq!((fetched.len(), fetched.iter().filter(|turn| is_suspect(turn)).count()), (4, 1));
    let fetched = fetch_turns(&store, 10, Suspects::AtMost(2)).await;
    assert_eq!(ids(&fetched), vec!["crashed 1", "crashed 2"]);
    let work = fetch_work(&store, 10, Suspects::AtMost(2)).await;
    assert_eq!((work.len(), work.iter().filter(|work| work.suspect).count()), (5, 2));
    assert_eq!(fetch_work(&store, 10, Suspects::AtMost(9)).await.len(), 1);
}

/// A lock that expired is told with its holder and its end; one that was given back is not.
pub async fn an_expired_lock_is_told_with_its_holder(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    let began = fetch_turns(&store, 1, Suspects::AtMost(1)).await.remove(0).facts.expect("facts");
    assert_eq!(began.expired, None);
    assert_eq!(fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0).expired, None);
    store.expire_locks().await;
    let turn = fetch_turns(&store, 1, Suspects::AtMost(1)).await.remove(0);
    let facts = turn.facts.expect("facts");
    let work = fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0);
    for expired in [facts.expired, work.expired] {
        let expired = expired.expect("the lock expired");
        assert_eq!(expired.holder, holder());
        assert!((began.now_ms..=facts.now_ms).contains(&expired.expired_at_ms), "{expired:?}");
    }
    store.provider.abandon_orchestration_item(&turn.lock_token, None, false).await.expect("given back");
    store.provider.abandon_work_item(&work.lock_token, None, false).await.expect("given back");
    let facts = fetch_turns(&store, 1, Suspects::AtMost(1)).await.remove(0).facts.expect("facts");
    assert_eq!(facts.expired, None);
    assert_eq!(fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0).expired, None);
}

/// A forgiven attempt does not count, and is told. The lock goes on, and only its holder can forgive.
pub async fn a_forgiven_attempt_does_not_count(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.queue_work(activity("a", 2)).await;
    let first = fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0);
    store.expire_locks().await;
    let lost = store.provider.forgive_attempt(&first.lock_token).await.expect_err("the lock has expired");
    assert_eq!(lost.kind(), ProviderErrorKind::LockLost);
    let second = fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0);
    assert_eq!((second.attempts, second.forgiven), (2, 0));
    store.provider.forgive_attempt(&second.lock_token).await.expect("its lock is live");
    store.provider.renew_work_item_lock(&second.lock_token, store.lock).await.expect("the lock goes on");
    store.expire_locks().await;
    let third = fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0);
    assert_eq!((third.attempts, third.forgiven, third.suspect), (2, 1, true));
    store.provider.ack_work_item(&third.lock_token, None).await.expect("its lock is live");
}

/// The plain fetch takes a suspect like any other item.
pub async fn the_plain_fetch_takes_suspects(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("crashed")).await;
    store.queue_work(activity("a", 2)).await;
    store.turn_of("crashed").await;
    store.work().await;
    store.expire_locks().await;
    assert_eq!(store.turn_of("crashed").await.attempts, 2);
    assert_eq!(store.work().await.attempts, 2);
}

/// A suspect that was given back unused is still one; one that was really tried, and given back, is not.
pub async fn a_suspect_given_back_unused_is_still_one(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    store.turn_of("a").await;
    store.work().await;
    store.expire_locks().await;
    for ignore_attempt in [true, true, false] {
        let turn = fetch_turns(&store, 1, Suspects::AtMost(1)).await.remove(0);
        assert!(is_suspect(&turn));
        store
            .provider
            .abandon_orchestration_item(&turn.lock_token, None, ignore_attempt)
            .await
            .expect("given back");
        let work = fetch_work(&store, 1, Suspects::AtMost(1)).await.remove(0);
        assert!(work.suspect);
        store.provider.abandon_work_item(&work.lock_token, None, ignore_attempt).await.expect("given back");
    }
    assert!(!is_suspect(&fetch_turns(&store, 1, Suspects::Refuse).await.remove(0)));
    assert!(!fetch_work(&store, 1, Suspects::Refuse).await.remove(0).suspect);
}

/// What was given back unused before any crash is no suspect.
pub async fn an_item_given_back_unused_is_no_suspect(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    let turn = store.turn_of("a").await;
    store.abandon_uncounted(&turn).await;
    let work = store.work().await;
    store.abandon_work(&work, None, true).await;
    let turn = fetch_turns(&store, 1, Suspects::Refuse).await.remove(0);
    assert_eq!((is_suspect(&turn), turn.attempts), (false, 1));
    let work = fetch_work(&store, 1, Suspects::Refuse).await.remove(0);
    assert_eq!((work.suspect, work.attempts), (false, 1));
}

/// A committed turn clears the suspicion.
pub async fn a_committed_turn_clears_the_suspicion(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.separates_suspects() {
        return;
    }
    store.send(start("a")).await;
    store.turn_of("a").await;
    store.expire_locks().await;
    let turn = store.turn_of("a").await;
    store.send(event("a", "late")).await;
    store.commit(&turn, Commit::of(&turn)).await;
    assert!(!is_suspect(&fetch_turns(&store, 1, Suspects::Refuse).await.remove(0)));
}

/// Without the extension nothing is known but the count: a second attempt is a suspect.
pub async fn without_the_extension_a_second_attempt_is_a_suspect(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if store.provider.separates_suspects() {
        return;
    }
    store.queue_work(activity("a", 2)).await;
    store.send(start("a")).await;
    let work = fetch_work(&store, 5, Suspects::Refuse).await.remove(0);
    assert!(!work.suspect);
    store
        .abandon_work(
            &super::fixture::Work { item: work.item, token: work.lock_token, attempts: 1 },
            None,
            false,
        )
        .await;
    assert!(fetch_work(&store, 5, Suspects::Refuse).await.remove(0).suspect);
    assert_eq!(fetch_turns(&store, 5, Suspects::Refuse).await.remove(0).facts, None);
}
