//! Causes beside a build that does not know them.

use duroxide::providers::{BounceCause, Bounces, GiveBack, Provider, ProviderAdmin};

use crate::fixture::{Place, enqueue, fetch_turn, start};

/// A build before commits a turn and leaves the columns of the cause as they are.
#[tokio::test]
async fn a_cause_from_before_a_turn_that_an_earlier_build_committed_is_none() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let turn = fetch_turn(&store).await;
    let because = GiveBack { cause: Some(BounceCause::NoStart), ..GiveBack::default() };
    store.give_back_turn(&turn.lock_token, because).await.unwrap();
    assert_eq!(store.bounces("a").await.unwrap().turn.map(|bounce| bounce.cause), Some(BounceCause::NoStart));
    place.raw().execute("UPDATE instances SET updated_at = bounced_at + 1", []).unwrap();
    assert_eq!(store.bounces("a").await.unwrap(), Bounces::default());
    assert_eq!(fetch_turn(&store).await.facts.unwrap().last_cause, None);
}

/// Neither a cause that a later build wrote nor damage of it keeps a turn or an activity from being fetched.
#[tokio::test]
async fn a_cause_that_does_not_decode_is_none() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let turn = fetch_turn(&store).await;
    let because = GiveBack { cause: Some(BounceCause::NoStart), ..GiveBack::default() };
    store.give_back_turn(&turn.lock_token, because).await.unwrap();
    place.raw().execute("UPDATE instances SET bounce = '{\"Later\":{}}'", []).unwrap();
    assert_eq!(store.bounces("a").await.unwrap(), Bounces::default());
    assert_eq!(fetch_turn(&store).await.facts.unwrap().last_cause, None);
}
