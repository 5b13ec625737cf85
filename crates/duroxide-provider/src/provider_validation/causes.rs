//! Why work was given back is kept with it.

use std::time::Duration;

use duroxide_core::BounceCause;
use duroxide_core::limits::MAX_BOUNCE_TEXT_BYTES;

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, completed_event, event, routed_activity, start, started};
use crate::support::{one_turn, one_work};
use crate::{
    ActivityBounce, Bounce, Bounces, FetchedTurn, FetchedWork, GiveBack, ProviderErrorKind,
    SessionFetchConfig, TagFilter,
};

fn no_order(version: &str) -> BounceCause {
    BounceCause::OrchestrationNotRegistered { name: "Order".to_string(), version: Some(version.to_string()) }
}

fn no_activity() -> BounceCause {
    BounceCause::ActivityNotRegistered { name: "Act".to_string() }
}

/// A counted attempt without a delay.
fn because(cause: BounceCause) -> GiveBack {
    GiveBack { cause: Some(cause), ..GiveBack::default() }
}

impl Store<'_> {
    async fn causes_turn(&self) -> FetchedTurn {
        let turns = self.provider.fetch_turns(one_turn(self.lock, Duration::ZERO, None)).await;
        turns.expect("a fetch does not fail").pop().expect("an instance is ready")
    }

    async fn causes_work(&self, session: Option<&SessionFetchConfig>) -> FetchedWork {
        let request = one_work(self.lock, Duration::ZERO, session, &TagFilter::DefaultOnly);
        let work = self.provider.fetch_work(request).await;
        work.expect("a fetch does not fail").pop().expect("a work item is ready")
    }

    async fn bounce_turn(&self, give_back: GiveBack) -> Option<BounceCause> {
        let turn = self.causes_turn().await;
        self.provider.give_back_turn(&turn.lock_token, give_back).await.expect("given back");
        turn.facts.expect("a store that keeps causes tells facts").last_cause
    }

    async fn bounce_work(&self, give_back: GiveBack) -> Option<BounceCause> {
        let work = self.causes_work(None).await;
        self.provider.give_back_work(&work.lock_token, give_back).await.expect("given back");
        work.last_cause
    }

    async fn bounces(&self, instance: &str) -> Bounces {
        self.admin().bounces(instance).await.expect("the instance is known")
    }
}

/// Every fetch tells why the instance was last given back, until a turn of it is committed.
pub async fn the_cause_of_an_instance_is_kept_until_a_turn_is_committed(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_causes() {
        return;
    }
    store.send(start("a")).await;
    assert_eq!(store.bounce_turn(because(no_order("1.0.0"))).await, None, "nothing stood in its way yet");
    assert_eq!(store.bounce_turn(because(no_order("2.0.0"))).await, Some(no_order("1.0.0")));
    store.send(start("b")).await;
    let turn = store.turn_of("a").await;
    store.commit(&turn, Commit::of(&turn).events([started("a", 1)])).await;
    assert_eq!(store.bounce_turn(GiveBack::default()).await, None, "another instance");
    store.send(event("a", "go")).await;
    let turns = [store.causes_turn().await, store.causes_turn().await];
    assert!(
        turns.iter().all(|turn| turn.facts.as_ref().is_some_and(|facts| facts.last_cause.is_none())),
        "committed: {turns:?}"
    );
    assert_eq!(store.bounces("a").await, Bounces::default());
}

/// The same with a work item, until it is deleted. One that is queued anew under its name has no cause.
pub async fn the_cause_of_an_activity_is_kept_until_it_is_deleted(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_causes() {
        return;
    }
    store.queue_work(activity("a", 1)).await;
    assert_eq!(store.bounce_work(because(no_activity())).await, None);
    assert_eq!(store.bounce_work(GiveBack::default()).await, Some(no_activity()));
    let work = store.work().await;
    store.complete(&work).await;
    store.queue_work(activity("a", 1)).await;
    assert_eq!(store.bounce_work(because(no_activity())).await, None);

    let work = store.work().await;
    store.complete(&work).await;
    store.queue_work(routed_activity("a", 2, Some("s"), None)).await;
    let owner = SessionFetchConfig { owner_id: "owner".to_string(), lock_timeout: store.lock };
    let work = store.causes_work(Some(&owner)).await;
    store.provider.give_back_work(&work.lock_token, because(no_activity())).await.expect("given back");
    assert_eq!(store.causes_work(Some(&owner)).await.last_cause, Some(no_activity()), "of a session");
}

/// What is given back without a cause, counted or not, and what loses its lock keeps the cause from before.
pub async fn an_attempt_without_a_cause_leaves_the_last_one(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_causes() {
        return;
    }
    store.send(start("a")).await;
    store.queue_work(activity("a", 1)).await;
    store.bounce_turn(because(no_order("1.0.0"))).await;
    store.bounce_work(because(no_activity())).await;
    for give_back in [GiveBack::uncounted(None), GiveBack::default()] {
        assert_eq!(store.bounce_turn(give_back.clone()).await, Some(no_order("1.0.0")));
        assert_eq!(store.bounce_work(give_back).await, Some(no_activity()));
    }
    let turn = store.turn_of("a").await;
    store.abandon(&turn, None).await;
    let work = store.work().await;
    store.abandon_work(&work, None, false).await;
    let lost = store.causes_turn().await;
    store.causes_work(None).await;
    store.expire_locks().await;
    assert_eq!(store.bounce_turn(GiveBack::default()).await, Some(no_order("1.0.0")));
    assert_eq!(store.bounce_work(GiveBack::default()).await, Some(no_activity()));
    let refused = store.provider.give_back_turn(&lost.lock_token, because(BounceCause::NoStart)).await;
    assert_eq!(refused.expect_err("the lock was lost").kind(), ProviderErrorKind::LockLost);
    assert_eq!(store.bounce_turn(GiveBack::default()).await, Some(no_order("1.0.0")), "of the holder alone");
    // An attempt that did not count may have a cause all the same.
    store.bounce_turn(GiveBack { ignore_attempt: true, ..because(BounceCause::NoStart) }).await;
    assert_eq!(store.bounce_turn(GiveBack::default()).await, Some(BounceCause::NoStart));
}

/// A long text is cut between two characters; any text comes back as it was.
pub async fn a_long_cause_is_cut(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_causes() {
        return;
    }
    store.send(start("a")).await;
    store.queue_work(activity("a", 1)).await;
    let panic = |message: String| BounceCause::Panicked { message };
    let odd = panic("\0 \"quoted\" \n é 😀 \u{1b}[31m".to_string());
    let long = panic(format!("x{}", "😀".repeat(MAX_BOUNCE_TEXT_BYTES)));
    store.bounce_turn(because(odd.clone())).await;
    store.bounce_work(because(odd.clone())).await;
    assert_eq!(store.bounce_turn(because(long.clone())).await, Some(odd.clone()));
    assert_eq!(store.bounce_work(because(long.clone())).await, Some(odd));
    let cut = Some(long.bounded());
    assert_eq!(store.bounce_turn(GiveBack::default()).await, cut);
    assert_eq!(store.bounce_work(GiveBack::default()).await, cut);
    let Some(BounceCause::Panicked { message }) = cut else { panic!("the same cause") };
    assert!(message.len() <= MAX_BOUNCE_TEXT_BYTES && message.starts_with("x😀"), "{}", message.len());
}

/// What was given back is told with its cause, its attempts and the time of its next one.
pub async fn what_was_given_back_is_told_with_its_next_attempt(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.keeps_causes() {
        return;
    }
    let unknown = store.admin().bounces("a").await.expect_err("nothing is known of it");
    assert!(unknown.to_string().contains("not found"), "{unknown}");
    store.send(start("a")).await;
    store.queue_work(activity("a", 1)).await;
    store.queue_work(activity("a", 2)).await;
    assert_eq!(store.bounces("a").await, Bounces::default());
    let delay = store.lock * 3;
    let delay_ms = u64::try_from(delay.as_millis()).expect("small");
    let before = store.admin().now_ms().await.expect("the time");
    store.bounce_turn(GiveBack::bounced(delay, no_order("1.0.0"))).await;
    store.bounce_work(GiveBack::bounced(delay, no_activity())).await;
    let after = store.admin().now_ms().await.expect("the time");
    let told = store.bounces("a").await;
    let check = |bounce: &Bounce, cause: BounceCause, attempts: u32| {
        assert_eq!((&bounce.cause, bounce.attempts), (&cause, attempts));
        assert!((before..=after).contains(&bounce.at_ms), "{bounce:?}");
        assert_eq!(bounce.next_try_ms, Some(bounce.at_ms + delay_ms));
    };
    check(told.turn.as_ref().expect("it was given back"), no_order("1.0.0"), 1);
    let [ActivityBounce { execution_id: 1, activity_id: 1, name, bounce }] = told.activities.as_slice()
    else {
        panic!("one was given back: {told:?}")
    };
    assert_eq!(name, "Act");
    check(bounce, no_activity(), 1);

    factory.advance(delay).await;
    let turn = store.turn_of("a").await;
    let fetched = [store.work().await, store.work().await];
    let told = store.bounces("a").await;
    let under_way = |bounce: &Bounce| (bounce.attempts, bounce.next_try_ms) == (2, None);
    assert!(told.turn.as_ref().is_some_and(under_way), "{told:?}");
    assert!(told.activities.iter().all(|activity| under_way(&activity.bounce)), "{told:?}");
    assert_eq!(fetched.map(|work| work.attempts).iter().sum::<u32>(), 3);
    let ended = Commit::of(&turn).events([started("a", 1), completed_event(2, "a", 1, "done")]);
    store.commit(&turn, ended.completes("done")).await;
    assert_eq!(store.bounces("a").await, Bounces::default(), "it has ended");
}
