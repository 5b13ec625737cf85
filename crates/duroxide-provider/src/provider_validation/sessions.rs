//! Activities of one session run with one owner at a time.

use std::time::Duration;

use super::ProviderFactory;
use super::fixture::{Store, Work, activity, routed_activity};
use crate::{
    FetchedWork, SessionFetchConfig, SessionLimits, SessionOverlap, Suspects, TagFilter, WorkItem,
    WorkRequest,
};

fn of_session(id: u64, session: &str) -> WorkItem {
    routed_activity("a", id, Some(session), None)
}

/// A claim that outlives the locks of the items.
const CLAIM_LOCKS: u32 = 4;

async fn fetch_as(store: &Store<'_>, owner: &str) -> Option<Work> {
    let config = SessionFetchConfig { owner_id: owner.to_string(), lock_timeout: store.lock * CLAIM_LOCKS };
    let fetched = store
        .provider
        .fetch_work_item(store.lock, Duration::ZERO, Some(&config), &TagFilter::DefaultOnly)
        .await;
    let (item, token, attempts) = fetched.expect("a fetch does not fail")?;
    Some(Work { item, token, attempts })
}

async fn work_as(store: &Store<'_>, owner: &str) -> Work {
    fetch_as(store, owner).await.unwrap_or_else(|| panic!("there is work for {owner}"))
}

async fn queue(store: &Store<'_>, items: impl IntoIterator<Item = WorkItem>) {
    for item in items {
        store.queue_work(item).await;
    }
}

/// A worker without sessions gets no activity of one.
pub async fn a_worker_without_sessions_gets_none_of_theirs(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s"), activity("a", 3)]).await;
    assert_eq!(store.work().await.item, activity("a", 3));
    store.expect_no_work().await;
}

/// A worker with sessions takes both, in the order of arrival.
pub async fn a_worker_with_sessions_takes_all_in_order(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let all = [of_session(2, "s"), activity("a", 3), of_session(4, "t"), of_session(5, "s")];
    queue(&store, all.clone()).await;
    for expected in all {
        assert_eq!(work_as(&store, "me").await.item, expected);
    }
    assert!(fetch_as(&store, "me").await.is_none());
}

/// The first to fetch from a session owns it; the others get nothing of it.
pub async fn a_session_belongs_to_whoever_fetched_first(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s"), of_session(3, "s"), of_session(4, "t")]).await;
    assert_eq!(work_as(&store, "me").await.item, of_session(2, "s"));
    assert_eq!(work_as(&store, "you").await.item, of_session(4, "t"));
    assert!(fetch_as(&store, "you").await.is_none());
    assert_eq!(work_as(&store, "me").await.item, of_session(3, "s"));
}

/// A session stays with its owner after its work is done, and across quiet times.
pub async fn a_session_stays_with_its_owner(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s")]).await;
    let work = work_as(&store, "me").await;
    store.complete(&work).await;
    queue(&store, [of_session(3, "s")]).await;
    assert!(fetch_as(&store, "you").await.is_none());
    assert_eq!(work_as(&store, "me").await.item, of_session(3, "s"));
}

/// When the claim has expired, the next one takes the session over.
pub async fn an_expired_claim_can_be_taken_over(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s"), of_session(3, "s")]).await;
    let work = work_as(&store, "me").await;
    store.complete(&work).await;
    assert!(fetch_as(&store, "you").await.is_none());
    factory.advance(store.lock * CLAIM_LOCKS).await;
    assert_eq!(work_as(&store, "you").await.item, of_session(3, "s"));
    queue(&store, [of_session(4, "s")]).await;
    assert!(fetch_as(&store, "me").await.is_none());
}

/// An item whose own lock expired stays within its session.
pub async fn an_expired_item_stays_in_its_session(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s")]).await;
    work_as(&store, "me").await;
    store.expire_locks().await;
    assert!(fetch_as(&store, "you").await.is_none());
    store.expect_no_work().await;
    let again = work_as(&store, "me").await;
    assert_eq!((again.item, again.attempts), (of_session(2, "s"), 2));
}

/// A claim that is renewed holds longer; only those of the named owners are renewed.
pub async fn renewed_sessions_stay_with_their_owners(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s"), of_session(3, "t"), of_session(4, "s"), of_session(5, "t")]).await;
    work_as(&store, "me").await;
    work_as(&store, "you").await;
    let long = store.lock * 100;
    let renewed = store.provider.renew_session_lock(&["me", "nobody"], long, long).await.expect("renewed");
    assert_eq!(renewed, 1);
    factory.advance(store.lock * CLAIM_LOCKS).await;
    // The claim of `you` has expired, that of `me` has not.
    let third = SessionFetchConfig { owner_id: "third".to_string(), lock_timeout: store.lock };
    let fetched = store
        .provider
        .fetch_work_item(store.lock, Duration::ZERO, Some(&third), &TagFilter::DefaultOnly)
        .await
        .expect("a fetch does not fail");
    assert_eq!(fetched.expect("the session is free").0, of_session(5, "t"));
    assert_eq!(work_as(&store, "me").await.item, of_session(4, "s"));
    assert_eq!(store.provider.renew_session_lock(&["you"], long, long).await.expect("renewed"), 0);
    assert_eq!(store.provider.renew_session_lock(&[], long, long).await.expect("renewed"), 0);
}

/// A session without activity for the idle time is not renewed; work on it counts as activity.
pub async fn an_idle_session_is_not_renewed(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "busy"), of_session(3, "idle")]).await;
    let busy = work_as(&store, "me").await;
    let idle = work_as(&store, "me").await;
    store.complete(&idle).await;
    let (half, long) = (store.lock / 2, store.lock * 100);
    factory.advance(half).await;
    store.provider.renew_work_item_lock(&busy.token, long).await.expect("held");
    factory.advance(half / 2).await;
    assert_eq!(store.provider.renew_session_lock(&["me"], long, half).await.expect("renewed"), 1);
    factory.advance(store.lock * CLAIM_LOCKS).await;
    queue(&store, [of_session(4, "busy"), of_session(5, "idle")]).await;
    assert_eq!(work_as(&store, "you").await.item, of_session(5, "idle"));
    assert!(fetch_as(&store, "you").await.is_none());
}

/// Sessions that nobody holds and for which nothing is queued are removed.
pub async fn orphaned_sessions_are_removed(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "done"), of_session(3, "waiting"), of_session(4, "held")]).await;
    let done = work_as(&store, "me").await;
    work_as(&store, "me").await;
    let idle = Duration::ZERO;
    store.complete(&done).await;
    assert_eq!(
        store.provider.cleanup_orphaned_sessions(idle).await.expect("cleaned"),
        0,
        "claims still hold"
    );
    factory.advance(store.lock * CLAIM_LOCKS).await;
    let held = fetch_as(&store, "me").await.expect("ready");
    assert_eq!(held.item, of_session(4, "held"));
    store.complete(&held).await;
    assert_eq!(store.provider.cleanup_orphaned_sessions(idle).await.expect("cleaned"), 1, "only `done`");
    assert_eq!(store.provider.cleanup_orphaned_sessions(idle).await.expect("cleaned"), 0);
}

/// Tags and sessions are both looked at.
pub async fn a_session_item_needs_a_matching_tag(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [routed_activity("a", 2, Some("s"), Some("gpu")), of_session(3, "s")]).await;
    assert_eq!(work_as(&store, "me").await.item, of_session(3, "s"));
    assert!(fetch_as(&store, "me").await.is_none());
}

/// A claim does not end while an item of its session is locked, however short the claim was meant to be: two
/// owners never have items of one session at the same time.
pub async fn a_claim_lasts_as_long_as_the_locks_of_its_items(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s"), of_session(3, "s")]).await;
    let short = SessionFetchConfig { owner_id: "me".to_string(), lock_timeout: store.lock / 4 };
    let fetch =
        store.provider.fetch_work_item(store.lock, Duration::ZERO, Some(&short), &TagFilter::DefaultOnly);
    let (item, token, _) = fetch.await.expect("a fetch does not fail").expect("ready");
    assert_eq!(item, of_session(2, "s"));
    factory.advance(store.lock / 2).await;
    assert!(fetch_as(&store, "you").await.is_none(), "the claim's own time has passed, the item's has not");
    store.provider.renew_work_item_lock(&token, store.lock).await.expect("held");
    factory.advance(store.lock / 2).await;
    assert!(fetch_as(&store, "you").await.is_none(), "the renewed lock holds the claim too");
    let given_up = store.provider.renew_session_lock(&["me"], Duration::ZERO, store.lock * 100).await;
    assert_eq!(given_up.expect("renewed"), 1);
    assert!(fetch_as(&store, "you").await.is_none(), "it cannot be given up while an item is in progress");
    factory.advance(store.lock / 2).await;
    assert_eq!(work_as(&store, "you").await.item, of_session(3, "s"));
    let late = store.provider.ack_work_item(&token, None).await;
    assert!(late.is_err(), "who lost the session does not commit");
}

/// A claim that is renewed for no time at all is given up.
pub async fn a_session_that_is_given_up_is_free(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s")]).await;
    let work = work_as(&store, "me").await;
    store.complete(&work).await;
    queue(&store, [of_session(3, "s")]).await;
    assert!(fetch_as(&store, "you").await.is_none());
    let given_up = store.provider.renew_session_lock(&["me"], Duration::ZERO, store.lock * 100).await;
    assert_eq!(given_up.expect("renewed"), 1);
    assert_eq!(work_as(&store, "you").await.item, of_session(3, "s"));
    assert!(fetch_as(&store, "me").await.is_none());
}

/// A fetch of an item is a use of its session.
pub async fn a_fetch_keeps_a_session_from_idling(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    queue(&store, [of_session(2, "s")]).await;
    let work = work_as(&store, "me").await;
    store.complete(&work).await;
    queue(&store, [of_session(3, "s")]).await;
    factory.advance(store.lock).await;
    let work = work_as(&store, "me").await;
    let (idle, long) = (store.lock / 2, store.lock * 100);
    assert_eq!(store.provider.renew_session_lock(&["me"], long, idle).await.expect("renewed"), 1);
    store.complete(&work).await;
}

async fn fetch_within(store: &Store<'_>, owner: &str, limits: SessionLimits) -> Vec<FetchedWork> {
    let request = WorkRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        session: Some(SessionFetchConfig {
            owner_id: owner.to_string(),
            lock_timeout: store.lock * CLAIM_LOCKS,
        }),
        session_limits: limits,
        tags: TagFilter::DefaultOnly,
        activities: None,
        max_items: 10,
        suspects: Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
    };
    store.provider.fetch_work(request).await.expect("a fetch does not fail")
}

fn items(work: &[FetchedWork]) -> Vec<WorkItem> {
    work.iter().map(|work| work.item.clone()).collect()
}

fn limits(max_running: usize, overlap: SessionOverlap) -> SessionLimits {
    SessionLimits { max_running, overlap }
}

async fn done(store: &Store<'_>, work: &FetchedWork) {
    store.provider.ack_work_item(&work.lock_token, None).await.expect("held");
}

/// The limit counts sessions with an activity in progress: sessions that are merely owned hold up no other, and take
/// part again when it is their turn.
pub async fn the_limit_counts_sessions_with_an_activity_in_progress(factory: &dyn ProviderFactory) {
    for overlap in [SessionOverlap::OneAtATime, SessionOverlap::Parallel] {
        let store = Store::new(factory).await;
        if !store.provider.limits_sessions() {
            return;
        }
        let two = limits(2, overlap);
        queue(&store, [of_session(2, "a"), of_session(3, "b"), of_session(4, "c"), activity("a", 5)]).await;
        let taken = fetch_within(&store, "me", two).await;
        assert_eq!(items(&taken), [of_session(2, "a"), of_session(3, "b"), activity("a", 5)]);
        assert_eq!(items(&fetch_within(&store, "me", two).await), [], "two have something in progress");
        done(&store, &taken[0]).await;
        let third = fetch_within(&store, "me", two).await;
        assert_eq!(items(&third), [of_session(4, "c")], "`a` is owned, and nothing of it is in progress");
        queue(&store, [of_session(6, "d"), of_session(7, "b")]).await;
        done(&store, &taken[1]).await;
        // Oldest first among free and owned sessions.
        let next = fetch_within(&store, "me", two).await;
        assert_eq!(items(&next), [of_session(6, "d")]);
        done(&store, &third[0]).await;
        assert_eq!(items(&fetch_within(&store, "me", two).await), [of_session(7, "b")]);
    }
}

/// An owner at its limit is given more of the sessions that it has activities of in progress, if they may overlap.
pub async fn an_owner_at_its_limit_goes_on_with_what_is_in_progress(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.limits_sessions() {
        return;
    }
    let two = limits(2, SessionOverlap::Parallel);
    queue(&store, [of_session(2, "a"), of_session(3, "b"), of_session(4, "c")]).await;
    let taken = fetch_within(&store, "me", two).await;
    assert_eq!(items(&taken), [of_session(2, "a"), of_session(3, "b")]);
    queue(&store, [of_session(5, "b"), of_session(6, "a")]).await;
    let more = fetch_within(&store, "me", two).await;
    assert_eq!(items(&more), [of_session(5, "b"), of_session(6, "a")]);
    done(&store, &taken[0]).await;
    assert_eq!(items(&fetch_within(&store, "me", two).await), [], "`a` has still one in progress");
    assert_eq!(items(&fetch_within(&store, "you", limits(0, SessionOverlap::Parallel)).await), []);
    assert_eq!(items(&fetch_within(&store, "you", two).await), [of_session(4, "c")]);
}

/// An activity that was given back makes room, and so does one whose lock expired.
pub async fn an_activity_that_is_let_go_makes_room(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.limits_sessions() {
        return;
    }
    let one = limits(1, SessionOverlap::OneAtATime);
    queue(&store, [of_session(2, "a"), of_session(3, "b"), of_session(4, "c")]).await;
    let taken = fetch_within(&store, "me", one).await;
    assert_eq!(items(&taken), [of_session(2, "a")]);
    let later = Some(store.lock * 2);
    store.provider.abandon_work_item(&taken[0].lock_token, later, false).await.expect("held");
    assert_eq!(items(&fetch_within(&store, "me", one).await), [of_session(3, "b")]);
    assert_eq!(items(&fetch_within(&store, "me", one).await), []);
    store.expire_locks().await;
    assert_eq!(items(&fetch_within(&store, "me", one).await), [of_session(4, "c")]);
}

/// An owner at its limit gives up its claims on sessions that wait for it and have nothing in progress: another owner
/// takes them. Those that do not wait stay claimed.
pub async fn an_idle_claim_gives_way_when_its_owner_is_at_its_limit(factory: &dyn ProviderFactory) {
    for overlap in [SessionOverlap::OneAtATime, SessionOverlap::Parallel] {
        let store = Store::new(factory).await;
        if !store.provider.limits_sessions() {
            return;
        }
        let (one, many) = (limits(1, overlap), limits(9, overlap));
        for (id, session) in [(2, "waits"), (3, "rests")] {
            queue(&store, [of_session(id, session)]).await;
            done(&store, &fetch_within(&store, "me", one).await[0]).await;
        }
        queue(&store, [of_session(4, "runs")]).await;
        assert_eq!(items(&fetch_within(&store, "me", one).await), [of_session(4, "runs")]);
        queue(&store, [of_session(5, "waits")]).await;
        assert_eq!(items(&fetch_within(&store, "you", many).await), [], "it is claimed");
        assert_eq!(items(&fetch_within(&store, "me", one).await), [], "no room");
        assert_eq!(items(&fetch_within(&store, "you", many).await), [of_session(5, "waits")], "given up");
        queue(&store, [of_session(6, "rests"), of_session(7, "runs")]).await;
        assert_eq!(items(&fetch_within(&store, "you", many).await), [], "nothing waited for these");
    }
}

/// A session whose activity backs off stays claimed until the activity is ready.
pub async fn a_claim_does_not_give_way_while_its_activity_backs_off(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.limits_sessions() {
        return;
    }
    let (one, many) = (limits(1, SessionOverlap::OneAtATime), limits(9, SessionOverlap::OneAtATime));
    queue(&store, [of_session(2, "a")]).await;
    let first = fetch_within(&store, "me", one).await;
    let delay = store.lock / 2;
    store.provider.abandon_work_item(&first[0].lock_token, Some(delay), false).await.expect("held");
    queue(&store, [of_session(3, "b")]).await;
    assert_eq!(items(&fetch_within(&store, "me", one).await), [of_session(3, "b")], "`a` does not count");
    assert_eq!(items(&fetch_within(&store, "me", one).await), []);
    factory.advance(delay).await;
    assert_eq!(items(&fetch_within(&store, "you", many).await), [], "it was not given up");
    assert_eq!(items(&fetch_within(&store, "me", one).await), []);
    assert_eq!(items(&fetch_within(&store, "you", many).await), [of_session(2, "a")], "now it was");
}

/// Where activities of a session run one at a time, the next is handed out when the one in progress has ended.
pub async fn a_busy_session_is_passed_over(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.limits_sessions() {
        return;
    }
    let limits = limits(10, SessionOverlap::OneAtATime);
    queue(&store, [of_session(2, "s"), of_session(3, "s"), of_session(4, "t")]).await;
    let taken = fetch_within(&store, "me", limits).await;
    assert_eq!(items(&taken), [of_session(2, "s"), of_session(4, "t")]);
    assert_eq!(items(&fetch_within(&store, "me", limits).await), []);
    let first = taken.first().expect("two were taken");
    store.provider.ack_work_item(&first.lock_token, None).await.expect("held");
    let next = fetch_within(&store, "me", limits).await;
    assert_eq!(items(&next), [of_session(3, "s")]);
    let next = next.first().expect("one was taken");
    store.provider.abandon_work_item(&next.lock_token, None, true).await.expect("held");
    assert_eq!(items(&fetch_within(&store, "me", limits).await), [of_session(3, "s")]);
    store.expire_locks().await;
    assert_eq!(
        fetch_within(&store, "me", limits).await.len(),
        1,
        "an expired lock does not block the session"
    );
}
