//! In PostgreSQL: every kind of bounce is stated.

use std::sync::Arc;
use std::time::Duration;

use duroxide::Client;
use duroxide::providers::support::one_turn;
use duroxide::providers::{BounceCause, Bounces, GiveBack, Provider as _, ProviderAdmin as _};

use crate::stated_causes::{self, Store};
use crate::support::{corrupt, new_schema, open, options};

async fn store(schema: &str) -> Store {
    Arc::new(open(options(schema)).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_orchestration_version_or_activity_is_named() {
    stated_causes::check_missing_handlers(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_cause_of_other_nodes_is_named_by_the_node_that_poisons() {
    stated_causes::check_causes_of_other_nodes(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_outside_the_program_is_named() {
    stated_causes::check_panics(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_that_expired_are_named() {
    stated_causes::check_expired_locks(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_replayed_is_named() {
    stated_causes::check_refused_versions(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_does_not_fit_its_history_is_named() {
    stated_causes::check_nondeterminism(store(&new_schema()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_does_not_decode_is_named() {
    let schema = new_schema();
    let spoil = async || {
        let changed =
            corrupt(&schema, "UPDATE {s}.history SET event = 'spoilt' WHERE event_id = 1", &[]).await;
        assert_eq!(changed, 1);
    };
    stated_causes::check_undecodable(store(&schema).await, spoil).await;
}

/// A build before commits a turn and leaves the columns of the cause as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_cause_from_before_a_turn_that_an_earlier_build_committed_is_none() {
    let schema = new_schema();
    let store = open(options(&schema)).await;
    Client::new(Arc::new(open(options(&schema)).await))
        .start_orchestration("a", "O", "")
        .await
        .expect("started");
    let fetch = || store.fetch_turns(one_turn(Duration::from_secs(60), Duration::ZERO, None));
    let turn = fetch().await.expect("fetched").pop().expect("it is ready");
    let because = GiveBack { cause: Some(BounceCause::NoStart), ..GiveBack::default() };
    store.give_back_turn(&turn.lock_token, because).await.expect("held");
    let cause = store.bounces("a").await.expect("known").turn.map(|bounce| bounce.cause);
    assert_eq!(cause, Some(BounceCause::NoStart));
    let committed = "UPDATE {s}.queues SET updated_at = bounced_at + 1, revision = revision + 1";
    assert_eq!(corrupt(&schema, committed, &[]).await, 1);
    assert_eq!(store.bounces("a").await.expect("known"), Bounces::default());
    let turn = fetch().await.expect("fetched").pop().expect("it is ready");
    assert_eq!(turn.facts.expect("told").last_cause, None);
}
