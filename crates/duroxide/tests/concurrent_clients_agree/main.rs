//! What clients of one SQLite file are told at the same time, some order of their calls explains.
#![cfg(feature = "sqlite")]

#[path = "../concurrent/mod.rs"]
mod concurrent;

use std::sync::Arc;

use async_trait::async_trait;
use concurrent::broken::{AcksEverything, AnswersFromTheFirstRead, ForgetsAttempts, ForgetsEvents};
use concurrent::{Between, Fetches, Handles, Nothing, Rounds, Setting, Subject, run};
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider, Synchronous};

/// Rounds of one run: some ten seconds in a debug build.
const ROUNDS: u64 = 100;
/// Rounds within which each broken store must be found out.
const BROKEN_ROUNDS: u64 = 60;
const ONE_PROCESS: Setting = Setting { handles: Handles::Shared, fetches: Fetches::TheOldest };
const SEVERAL_PROCESSES: Setting = Setting { handles: Handles::Own, fetches: Fetches::TheOldestOrNothing };

struct File(tempfile::TempDir);

#[async_trait]
impl Subject for File {
    async fn open(&self, clock: Arc<ManualClock>) -> Arc<dyn Provider> {
        let url = format!("sqlite:{}", self.0.path().join("store.db").display());
        let options = SqliteOptions { clock, synchronous: Synchronous::Normal, ..Default::default() };
        Arc::new(SqliteProvider::new(&url, Some(options)).await.expect("the store opens"))
    }
}

async fn rounds(between: impl Fn() -> Arc<dyn Between>, setting: Setting, rounds: u64) -> Rounds {
    let subject = || File(tempfile::tempdir().expect("a directory"));
    run(subject, between, setting, rounds).await
}

#[tokio::test(flavor = "multi_thread")]
async fn some_order_explains_what_tasks_of_one_process_are_told() {
    rounds(|| Arc::new(Nothing), ONE_PROCESS, ROUNDS).await.expect_order();
}

#[tokio::test(flavor = "multi_thread")]
async fn some_order_explains_what_clients_with_handles_of_their_own_are_told() {
    rounds(|| Arc::new(Nothing), SEVERAL_PROCESSES, ROUNDS).await.expect_order();
}

async fn check_found(between: impl Fn() -> Arc<dyn Between>) {
    let found = rounds(between, ONE_PROCESS, BROKEN_ROUNDS).await;
    assert!(found.unexplained.is_some(), "{} rounds were explained", found.explained);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_explains_events_that_are_forgotten() {
    check_found(|| Arc::new(ForgetsEvents)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_explains_reads_that_are_stale() {
    check_found(|| Arc::new(AnswersFromTheFirstRead::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_explains_commits_that_were_refused_and_acknowledged() {
    check_found(|| Arc::new(AcksEverything)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_explains_attempts_that_are_not_counted() {
    check_found(|| Arc::new(ForgetsAttempts)).await;
}
