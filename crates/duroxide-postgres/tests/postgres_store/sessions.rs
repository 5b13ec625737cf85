//! Sessions of several processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::support::one_work;
use duroxide::providers::{
    Provider, SessionFetchConfig, SessionLimits, SessionOverlap, TagFilter, WorkItem, WorkRequest,
};
use duroxide_postgres::PostgresOptions;

use crate::support::{new_schema, open, options};

#[tokio::test(flavor = "multi_thread")]
async fn more_sessions_than_a_worker_runs_at_a_time_finish_at_once() {
    crate::many_sessions::run_on(Arc::new(open(options(&new_schema())).await)).await;
}

fn request(owner: &str, poll_timeout: Duration) -> WorkRequest {
    let lock = Duration::from_secs(60);
    WorkRequest {
        session: Some(SessionFetchConfig { owner_id: owner.to_string(), lock_timeout: lock }),
        session_limits: SessionLimits { max_running: 1, overlap: SessionOverlap::OneAtATime },
        ..one_work(lock, poll_timeout, None, &TagFilter::DefaultOnly)
    }
}

fn of_session(id: u64, session: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_string(),
        execution_id: 1,
        id,
        name: "Work".to_string(),
        input: String::new(),
        session_id: Some(session.to_string()),
        tag: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_hears_at_once_that_a_claim_was_given_up() {
    let schema = new_schema();
    let only_notified = PostgresOptions { poll_interval: Duration::from_secs(300), ..options(&schema) };
    let mine = open(only_notified.clone()).await;
    let yours = Arc::new(open(only_notified).await);
    for (id, session) in [(2, "waits"), (3, "runs")] {
        mine.enqueue_for_worker(of_session(id, session)).await.expect("queued");
        let work = mine.fetch_work(request("me", Duration::ZERO)).await.expect("fetched");
        if session == "waits" {
            mine.ack_work_item(&work[0].lock_token, None).await.expect("held");
        }
    }
    mine.enqueue_for_worker(of_session(4, "waits")).await.expect("queued");
    let before = yours.statistics().statements;
    let waiting = {
        let yours = yours.clone();
        tokio::spawn(async move { yours.fetch_work(request("you", Duration::from_secs(60))).await })
    };
    while yours.statistics().statements == before {
        tokio::task::yield_now().await;
    }
    // Carried out behind the first look of the fetch, which finds the session claimed.
    let cancel = WorkItem::CancelInstance { instance: "unknown".to_string(), reason: String::new() };
    yours.enqueue_for_orchestrator(cancel, None).await.expect("dropped");
    let begun = Instant::now();
    assert!(mine.fetch_work(request("me", Duration::ZERO)).await.expect("fetched").is_empty(), "no room");
    let work = waiting.await.expect("no panic").expect("fetched");
    assert_eq!(work.into_iter().map(|work| work.item).collect::<Vec<_>>(), [of_session(4, "waits")]);
    assert!(begun.elapsed() < Duration::from_secs(20), "took {:?}", begun.elapsed());
}
