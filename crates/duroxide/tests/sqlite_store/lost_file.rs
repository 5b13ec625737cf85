//! A store whose file is deleted, moved or replaced refuses every call: what it would write is gone with the file.
#![cfg(unix)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{Provider, ProviderAdmin, ProviderError, ProviderErrorKind};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::fixture::{LONG, NOW, Place, enqueue, raised, start, turn_request, work_request};

/// What happens to the file under an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Deleted,
    DeletedWithItsLog,
    MovedAway,
    Replaced,
    DirectoryMoved,
}

const LOSSES: [Loss; 5] =
    [Loss::Deleted, Loss::DeletedWithItsLog, Loss::MovedAway, Loss::Replaced, Loss::DirectoryMoved];

fn beside(place: &Place, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", place.path().display()))
}

/// Does it. What is moved stays in the directory that is given back, or beside the file.
fn bring_about(place: &Place, loss: Loss) -> tempfile::TempDir {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = place.path();
    match loss {
        Loss::Deleted => std::fs::remove_file(path).unwrap(),
        Loss::DeletedWithItsLog => {
            for suffix in ["", "-wal", "-shm"] {
                std::fs::remove_file(beside(place, suffix)).unwrap();
            }
        }
        Loss::MovedAway => std::fs::rename(path, beside(place, ".old")).unwrap(),
        Loss::Replaced => {
            std::fs::write(beside(place, ".new"), "").unwrap();
            std::fs::rename(beside(place, ".new"), path).unwrap();
        }
        Loss::DirectoryMoved => {
            std::fs::rename(path.parent().unwrap(), elsewhere.path().join("moved")).unwrap();
        }
    }
    elsewhere
}

fn assert_refused<T: std::fmt::Debug>(loss: Loss, outcome: Result<T, ProviderError>) {
    let error = outcome.expect_err(&format!("{loss:?}: the call is refused"));
    assert_eq!(
        (error.kind(), error.is_retryable()),
        (ProviderErrorKind::Unavailable, true),
        "{loss:?}: {error}"
    );
    let text = error.to_string();
    assert!(text.contains("store.db") && text.contains("restart"), "{loss:?}: {text}");
    let said = if loss == Loss::Replaced { "another file" } else { "deleted or moved" };
    assert!(text.contains(said), "{loss:?}: {text}");
}

#[tokio::test]
async fn every_call_after_the_file_is_lost_is_refused() {
    for loss in LOSSES {
        let place = Place::new();
        let store = place.open().await;
        enqueue(&store, start("a")).await;
        let _elsewhere = bring_about(&place, loss);
        assert_refused(loss, store.enqueue_for_orchestrator(raised("a", "lost"), None).await);
        assert_refused(loss, store.fetch_turns(turn_request(1, NOW)).await);
        assert_refused(loss, store.fetch_work(work_request(1, LONG)).await);
        assert_refused(loss, store.read("a").await);
        assert_refused(loss, store.list_instances().await);
    }
}

#[tokio::test]
async fn a_store_that_only_reads_notices_as_well() {
    for loss in LOSSES {
        let place = Place::new();
        let store = place.open().await;
        let _elsewhere = bring_about(&place, loss);
        assert_refused(loss, store.list_instances().await);
    }
}

#[tokio::test]
async fn fetches_that_wait_are_told_within_the_poll_interval() {
    let place = Place::new();
    let options =
        SqliteOptions { shared_file_poll_interval: Duration::from_millis(10), ..SqliteOptions::default() };
    let store = place.open_with(options).await;
    let (turns, work, ()) = futures::join!(
        store.fetch_turns(turn_request(1, LONG)),
        store.fetch_work(work_request(1, LONG)),
        async { drop(bring_about(&place, Loss::Deleted)) }
    );
    assert_refused(Loss::Deleted, turns);
    assert_refused(Loss::Deleted, work);
}

#[tokio::test]
async fn a_message_in_a_transaction_of_the_caller_is_refused() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let mut own = place.raw();
    let tx = own.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let _elsewhere = bring_about(&place, Loss::MovedAway);
    let error = client.start_orchestration_in(&store.within(&tx), "a", "Flow", "").await.unwrap_err();
    assert!(error.to_string().contains("deleted or moved"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_moved_back_is_used_again_only_after_a_restart() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("a")).await;
    let _elsewhere = bring_about(&place, Loss::MovedAway);
    assert_refused(Loss::MovedAway, store.enqueue_for_orchestrator(start("b"), None).await);
    std::fs::rename(beside(&place, ".old"), place.path()).unwrap();
    assert_refused(Loss::MovedAway, store.enqueue_for_orchestrator(start("c"), None).await);
    drop(store);
    assert_eq!(place.open().await.list_instances().await.unwrap(), ["a"]);
}

#[tokio::test]
async fn a_store_whose_log_was_deleted_stops_and_saves_what_it_acknowledged_when_it_is_closed() {
    let place = Place::new();
    let options =
        SqliteOptions { shared_file_poll_interval: Duration::from_millis(10), ..SqliteOptions::default() };
    let store = place.open_with(options).await;
    enqueue(&store, start("a")).await;
    std::fs::remove_file(beside(&place, "-wal")).unwrap();
    // The fetch gets the instance if it is looked for before the log is.
    let refused = loop {
        match store.fetch_turns(turn_request(1, LONG)).await {
            Ok(turns) => assert!(!turns.is_empty(), "told before its time is over"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ProviderErrorKind::Unavailable);
    assert!(refused.to_string().contains("store.db-wal"), "{refused}");
    assert!(store.enqueue_for_orchestrator(start("b"), None).await.is_err());
    drop(store);
    assert_eq!(place.open().await.list_instances().await.unwrap(), ["a"]);
}

#[tokio::test]
async fn closing_a_store_whose_file_was_replaced_leaves_the_new_file_alone() {
    let place = Place::new();
    let lost = place.open().await;
    enqueue(&lost, start("old")).await;
    let _elsewhere = bring_about(&place, Loss::DeletedWithItsLog);
    let new = place.open().await;
    enqueue(&new, start("new")).await;
    assert!(lost.list_instances().await.is_err());
    drop(lost);
    enqueue(&new, start("newer")).await;
    drop(new);
    assert_eq!(place.open().await.list_instances().await.unwrap(), ["newer", "new"]);
}

#[tokio::test]
async fn a_store_in_memory_has_no_file_to_lose() {
    let store = SqliteProvider::new_in_memory().await.unwrap();
    enqueue(&store, start("a")).await;
    assert_eq!(store.list_instances().await.unwrap(), ["a"]);
}

/// The runtime waits as in any outage: no workflow fails, and what was acknowledged before goes on after a restart from
/// the file that was put back.
#[tokio::test]
async fn no_workflow_fails_while_the_file_is_away() {
    async fn run(store: &Arc<SqliteProvider>) -> Arc<Runtime> {
        let activities = ActivityRegistry::builder()
            .register("Step", |_: ActivityContext, input: String| async move { Ok(input) })
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register("Flow", |ctx: OrchestrationContext, _: String| async move {
                let go = ctx.schedule_wait("go").await;
                ctx.schedule_activity("Step", go).await
            })
            .build();
        Runtime::start_with_store(store.clone(), activities, orchestrations).await
    }
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let runtime = run(&store).await;
    client.start_orchestration("a", "Flow", "").await.unwrap();
    while client.read_execution_history("a", 1).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let _elsewhere = bring_about(&place, Loss::MovedAway);
    assert!(client.raise_event("a", "go", "refused").await.is_err());
    runtime.shutdown(Some(0)).await;
    drop((client, store));

    std::fs::rename(beside(&place, ".old"), place.path()).unwrap();
    let store = Arc::new(place.open().await);
    let client = Client::new(store.clone());
    let runtime = run(&store).await;
    client.raise_event("a", "go", "kept").await.unwrap();
    let status = client.wait_for_orchestration("a", LONG).await.unwrap();
    assert!(
        matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "kept"),
        "{status:?}"
    );
    runtime.shutdown(None).await;
}
