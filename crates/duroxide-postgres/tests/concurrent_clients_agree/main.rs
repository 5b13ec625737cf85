//! What clients of one PostgreSQL database are told at the same time, some order of their calls explains.

#[allow(dead_code, reason = "each store promises something else of its fetches")]
#[path = "../../../duroxide/tests/concurrent/mod.rs"]
mod concurrent;
#[allow(dead_code, reason = "not every test file uses all of it")]
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use async_trait::async_trait;
use concurrent::broken::{AcksEverything, AnswersFromTheFirstRead, ForgetsAttempts, ForgetsEvents};
use concurrent::{Between, Fetches, Handles, Nothing, Rounds, Setting, Subject, run};
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide_postgres::PostgresOptions;

/// Rounds of one run: some thirty seconds.
const ROUNDS: u64 = 60;
/// Rounds within which each broken store must be found out.
const BROKEN_ROUNDS: u64 = 100;
/// A fetch passes over what another transaction has in its hands.
const ONE_PROCESS: Setting = Setting { handles: Handles::Shared, fetches: Fetches::AnyReady };
const SEVERAL_PROCESSES: Setting = Setting { handles: Handles::Own, fetches: Fetches::AnyReady };

struct Schema(String);

#[async_trait]
impl Subject for Schema {
    async fn open(&self, clock: Arc<ManualClock>) -> Arc<dyn Provider> {
        let options = PostgresOptions { clock: Some(clock), ..support::options(&self.0) };
        Arc::new(support::open(options).await)
    }
}

async fn rounds(between: impl Fn() -> Arc<dyn Between>, setting: Setting, rounds: u64) -> Rounds {
    run(|| Schema(support::new_schema()), between, setting, rounds).await
}

#[tokio::test(flavor = "multi_thread")]
async fn some_order_explains_what_tasks_of_one_process_are_told() {
    rounds(|| Arc::new(Nothing), ONE_PROCESS, ROUNDS).await.expect_order();
}

#[tokio::test(flavor = "multi_thread")]
async fn some_order_explains_what_clients_with_handles_of_their_own_are_told() {
    rounds(|| Arc::new(Nothing), SEVERAL_PROCESSES, ROUNDS).await.expect_order();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_explains_what_a_broken_store_says() {
    let broken: [fn() -> Arc<dyn Between>; 4] = [
        || Arc::new(ForgetsEvents),
        || Arc::new(AnswersFromTheFirstRead::default()),
        || Arc::new(AcksEverything),
        || Arc::new(ForgetsAttempts),
    ];
    for (number, between) in broken.into_iter().enumerate() {
        let found = rounds(between, ONE_PROCESS, BROKEN_ROUNDS).await;
        assert!(
            found.unexplained.is_some(),
            "{} rounds of broken store {number} were explained",
            found.explained
        );
    }
}
