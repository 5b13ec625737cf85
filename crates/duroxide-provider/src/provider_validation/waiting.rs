//! Waiting ends with what is waited for, not with a poll.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::OrchestrationStatus;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::ProviderFactory;
use super::fixture::{
    Commit, LONG, Store, activity, cancel, completed_event, completion_of, event, happened, routed_activity,
    start, timer,
};
use crate::EventKind;
use crate::support::one_work;
use crate::{
    Provider, SessionFetchConfig, SessionLimits, SessionOverlap, TagFilter, WaitUntil, WorkItem, WorkRequest,
};

/// A fetch that waits in the background, with the instance that it will get.
async fn waiting_turn(store: &Store<'_>) -> JoinHandle<Option<String>> {
    let (provider, lock) = (Arc::clone(&store.provider), store.lock);
    let waiting = tokio::spawn(async move {
        let fetched =
            provider.fetch_orchestration_item(lock, LONG, None).await.expect("a fetch does not fail");
        fetched.map(|(item, _, _)| item.instance)
    });
    settle().await;
    waiting
}

async fn waiting_work(
    store: &Store<'_>,
    session: Option<SessionFetchConfig>,
) -> JoinHandle<Option<WorkItem>> {
    let (provider, lock) = (Arc::clone(&store.provider), store.lock);
    let waiting = tokio::spawn(async move {
        let fetched = provider.fetch_work_item(lock, LONG, session.as_ref(), &TagFilter::DefaultOnly).await;
        fetched.expect("a fetch does not fail").map(|(item, _, _)| item)
    });
    settle().await;
    waiting
}

/// Lets what was just spawned come to rest. If it has not by then, the validation still holds.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// What was waited for, long before the patience of the fetch would have ended.
async fn in_time<T>(waiting: JoinHandle<T>) -> T {
    timeout(LONG / 4, waiting).await.expect("woken in time").expect("no panic")
}

/// Some time, short enough to really pass in a validation.
const SHORT: Duration = Duration::from_millis(60);

/// A fetch that shall not wait returns at once when nothing is ready.
pub async fn a_fetch_without_patience_returns_at_once(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("a", |commit| commit.messages([timer("a", 2, u64::MAX)])).await;
    let begun = Instant::now();
    store.expect_no_turn().await;
    store.expect_no_work().await;
    assert!(begun.elapsed() < factory.short_poll_threshold(), "{:?}", begun.elapsed());
}

/// A fetch whose patience ends returns nothing.
pub async fn a_fetch_returns_nothing_when_its_patience_ends(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let begun = Instant::now();
    let turn = store.provider.fetch_orchestration_item(store.lock, SHORT, None).await.expect("no failure");
    assert!(turn.is_none());
    assert!(begun.elapsed() >= SHORT / 2, "it waits: {:?}", begun.elapsed());
    let work =
        store.provider.fetch_work_item(store.lock, SHORT, None, &TagFilter::Any).await.expect("no failure");
    assert!(work.is_none());
    assert!(begun.elapsed() < LONG / 4);
}

/// What is ready is returned at once, however long the fetch would wait.
pub async fn a_patient_fetch_returns_at_once_when_something_is_ready(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    assert_eq!(in_time(waiting_turn(&store).await).await.as_deref(), Some("a"));
    assert_eq!(in_time(waiting_work(&store, None).await).await, Some(activity("a", 2)));
}

/// A message wakes the fetch that waits.
pub async fn a_message_wakes_a_waiting_fetch(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let waiting = waiting_turn(&store).await;
    assert!(!waiting.is_finished());
    store.send(start("a")).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("a"));
    store.begin("b").await;
    let waiting = waiting_turn(&store).await;
    store.send(event("b", "go")).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("b"));
}

/// Each of many waiting fetches gets one of many messages.
pub async fn many_waiting_fetches_are_all_served(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(waiting_turn(&store).await);
    }
    let ids: Vec<String> = (0..8).map(|n| format!("i{n}")).collect();
    for id in &ids {
        store.send(start(id)).await;
    }
    let mut got = Vec::new();
    for fetch in waiting {
        got.extend(in_time(fetch).await);
    }
    got.sort();
    assert_eq!(got, ids);
}

/// A turn's commit wakes the workers, and a worker's completion wakes the dispatchers.
pub async fn commits_wake_those_behind_them(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    let worker = waiting_work(&store, None).await;
    store.commit(&turn, Commit::of(&turn).work([activity("a", 2)]).messages([start("b")])).await;
    assert_eq!(in_time(worker).await, Some(activity("a", 2)));
    assert_eq!(in_time(waiting_turn(&store).await).await.as_deref(), Some("b"));
    let dispatcher = waiting_turn(&store).await;
    store.queue_work(activity("a", 3)).await;
    let work = store.work().await;
    store.provider.ack_work_item(&work.token, Some(completion_of(&work.item))).await.expect("completed");
    assert_eq!(in_time(dispatcher).await.as_deref(), Some("a"));
}

/// What is given back wakes the fetch that waits.
pub async fn an_abandon_wakes_a_waiting_fetch(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    let turn = store.turn_of("a").await;
    let work = store.work().await;
    let (dispatcher, worker) = (waiting_turn(&store).await, waiting_work(&store, None).await);
    store.abandon(&turn, None).await;
    store.abandon_work(&work, None, false).await;
    assert_eq!(in_time(dispatcher).await.as_deref(), Some("a"));
    assert_eq!(in_time(worker).await, Some(activity("a", 2)));
}

/// A due time that passes ends the wait: of a delay, a backoff and a lock.
pub async fn a_due_time_ends_the_wait(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_after(start("delayed"), SHORT).await;
    let waiting = waiting_turn(&store).await;
    factory.advance(SHORT).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("delayed"));

    store.send(start("backing off")).await;
    let turn = store.turn_of("backing off").await;
    store.abandon(&turn, Some(SHORT)).await;
    let waiting = waiting_turn(&store).await;
    factory.advance(SHORT).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("backing off"));

    store.queue_work(activity("a", 2)).await;
    store.provider.fetch_work_item(SHORT, Duration::ZERO, None, &TagFilter::Any).await.expect("no failure");
    let waiting = waiting_work(&store, None).await;
    factory.advance(SHORT).await;
    assert_eq!(in_time(waiting).await, Some(activity("a", 2)));
}

/// A wait whose next due time lies far ahead is woken by one that comes before it.
pub async fn an_earlier_due_time_is_noticed(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_with("far", |commit| commit.messages([timer("far", 2, u64::MAX)])).await;
    store.send_after(start("further"), LONG * 10).await;
    let waiting = waiting_turn(&store).await;
    store.send_after(start("near"), SHORT).await;
    settle().await;
    factory.advance(SHORT).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("near"));
}

/// A cancel wakes the fetch although the instance backs off.
pub async fn a_cancel_wakes_a_waiting_fetch(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    let turn = store.turn_of("a").await;
    store.abandon(&turn, Some(LONG * 10)).await;
    let waiting = waiting_turn(&store).await;
    store.send(cancel("a")).await;
    assert_eq!(in_time(waiting).await.as_deref(), Some("a"));
}

/// The end of another owner's claim ends the wait for its session.
pub async fn the_end_of_a_claim_ends_the_wait(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for id in [2, 3] {
        store.queue_work(routed_activity("a", id, Some("s"), None)).await;
    }
    let mine = SessionFetchConfig { owner_id: "me".to_string(), lock_timeout: SHORT };
    store
        .provider
        .fetch_work_item(SHORT, Duration::ZERO, Some(&mine), &TagFilter::Any)
        .await
        .expect("no failure")
        .expect("the session is free");
    let yours = SessionFetchConfig { owner_id: "you".to_string(), lock_timeout: SHORT };
    let waiting = waiting_work(&store, Some(yours)).await;
    factory.advance(SHORT).await;
    assert_eq!(in_time(waiting).await, Some(routed_activity("a", 3, Some("s"), None)));
}

fn at_most_one_session(store: &Store<'_>, owner: &str, poll_timeout: Duration) -> WorkRequest {
    WorkRequest {
        session: Some(SessionFetchConfig { owner_id: owner.to_string(), lock_timeout: store.lock }),
        session_limits: SessionLimits { max_running: 1, overlap: SessionOverlap::OneAtATime },
        ..one_work(store.lock, poll_timeout, None, &TagFilter::DefaultOnly)
    }
}

/// The end of an activity ends the wait of an owner at its limit for another session, and a claim that such an owner
/// gives up ends the wait of another owner.
pub async fn room_for_a_session_ends_the_wait(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.limits_sessions() {
        return;
    }
    let of_session = |id, session| routed_activity("a", id, Some(session), None);
    let fetch = async |owner, poll_timeout| {
        let fetched = store.provider.fetch_work(at_most_one_session(&store, owner, poll_timeout)).await;
        fetched.expect("a fetch does not fail").into_iter().next()
    };
    store.queue_work(of_session(2, "s")).await;
    store.queue_work(of_session(3, "t")).await;
    let first = fetch("me", Duration::ZERO).await.expect("of the first session");
    let waiting = {
        let (provider, request) = (Arc::clone(&store.provider), at_most_one_session(&store, "me", LONG));
        tokio::spawn(async move { provider.fetch_work(request).await.expect("a fetch does not fail") })
    };
    settle().await;
    store.provider.ack_work_item(&first.lock_token, None).await.expect("held");
    let second: Vec<WorkItem> = in_time(waiting).await.into_iter().map(|work| work.item).collect();
    assert_eq!(second, [of_session(3, "t")]);
    let yours = SessionFetchConfig { owner_id: "you".to_string(), lock_timeout: store.lock };
    let waiting = waiting_work(&store, Some(yours)).await;
    store.queue_work(of_session(4, "s")).await;
    settle().await;
    assert!(fetch("me", Duration::ZERO).await.is_none(), "no room: `s` is given up");
    assert_eq!(in_time(waiting).await, Some(of_session(4, "s")));
}

/// A fetch that is dropped keeps nothing: what it might have locked is there for the next.
pub async fn a_dropped_fetch_keeps_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for _ in 0..5 {
        let waiting = waiting_turn(&store).await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    }
    store.send(start("a")).await;
    assert_eq!(in_time(waiting_turn(&store).await).await.as_deref(), Some("a"));
    for _ in 0..5 {
        let waiting = waiting_work(&store, None).await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    }
    store.queue_work(activity("a", 2)).await;
    assert_eq!(in_time(waiting_work(&store, None).await).await, Some(activity("a", 2)));
}

/// A fetch that is dropped halfway gives back what it locked, at the latest when that lock expires.
pub async fn a_fetch_dropped_halfway_keeps_nothing_for_long(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start("a")).await;
    store.queue_work(activity("a", 2)).await;
    for _ in 0..20 {
        let turn = store.provider.fetch_orchestration_item(store.lock, LONG, None);
        // Either it was answered at once, and the answer is lost here, or it is dropped.
        drop(timeout(Duration::ZERO, turn).await);
        drop(
            timeout(Duration::ZERO, store.provider.fetch_work_item(store.lock, LONG, None, &TagFilter::Any))
                .await,
        );
        store.expire_locks().await;
    }
    assert_eq!(in_time(waiting_turn(&store).await).await.as_deref(), Some("a"));
    assert_eq!(in_time(waiting_work(&store, None).await).await, Some(activity("a", 2)));
}

async fn wait(provider: Arc<dyn Provider>, until: WaitUntil<'_>) -> Option<OrchestrationStatus> {
    provider.wait_for_instance("a", until, LONG).await.expect("a wait does not fail")
}

/// A client that waits for the end of an instance, even one that does not exist yet, sees it.
pub async fn a_client_waits_for_the_end(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let waiting = tokio::spawn(wait(Arc::clone(&store.provider), WaitUntil::Terminal));
    settle().await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    settle().await;
    assert!(!waiting.is_finished(), "a running instance has not ended");
    let ended = completed_event(2, "a", 1, "out");
    store.commit(&turn, Commit::of(&turn).events([ended]).completes("out")).await;
    let output = "out".to_string();
    let expected = OrchestrationStatus::Completed { output, custom_status: None, custom_status_version: 0 };
    assert_eq!(in_time(waiting).await, Some(expected.clone()));
    assert_eq!(wait(Arc::clone(&store.provider), WaitUntil::Terminal).await, Some(expected), "at once");
}

/// A client that waits for a later custom status, or for a value, sees it.
pub async fn a_client_waits_for_a_change(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    let status = tokio::spawn(wait(Arc::clone(&store.provider), WaitUntil::CustomStatusAfter(1)));
    let value = tokio::spawn(wait(Arc::clone(&store.provider), WaitUntil::KvValue("k")));
    settle().await;
    for (event_id, text) in [(2, "first"), (3, "second")] {
        assert!(!status.is_finished() && !value.is_finished());
        store.send(event("a", "go")).await;
        let turn = store.turn_of("a").await;
        let kind = EventKind::CustomStatusUpdated { status: Some(text.to_string()) };
        store.commit(&turn, Commit::of(&turn).events([happened(event_id, "a", kind)])).await;
        settle().await;
    }
    let custom_status = Some("second".to_string());
    let expected = OrchestrationStatus::Running { custom_status, custom_status_version: 2 };
    assert_eq!(in_time(status).await, Some(expected));
    assert!(!value.is_finished());
    store.send(event("a", "go")).await;
    let turn = store.turn_of("a").await;
    let kind = EventKind::KeyValueSet { key: "k".to_string(), value: "v".to_string(), last_updated_at_ms: 1 };
    store.commit(&turn, Commit::of(&turn).events([happened(4, "a", kind)])).await;
    assert!(in_time(value).await.is_some());
}

/// A client whose patience ends is told nothing.
pub async fn a_client_s_patience_ends(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    for until in [WaitUntil::Terminal, WaitUntil::CustomStatusAfter(0), WaitUntil::KvValue("k")] {
        let seen = store.provider.wait_for_instance("a", until, SHORT).await.expect("a wait does not fail");
        assert_eq!(seen, None, "{until:?}");
    }
}
