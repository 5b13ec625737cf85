//! Several stores on one schema, as several processes have them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::{Client, OrchestrationStatus};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::programs::{PATIENCE, node};
use crate::proxy::Proxy;
use crate::support::{new_schema, open, options, raw, url};

/// No look but for notifications.
fn only_notified(schema: &str) -> PostgresOptions {
    PostgresOptions { poll_interval: Duration::from_secs(300), ..options(schema) }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_is_woken_by_work_by_the_end_and_by_a_timer() {
    let schema = new_schema();
    let worker = Arc::new(open(only_notified(&schema)).await);
    let _node = node(worker.clone()).await;
    let client = Client::new(Arc::new(open(only_notified(&schema)).await));
    let begun = Instant::now();
    for n in 0..5 {
        let instance = format!("i{n}");
        client.start_orchestration(&instance, "FiveSteps", "x").await.expect("started");
        let status = client.wait_for_orchestration(&instance, PATIENCE).await.expect("seen");
        assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waited for a poll: {:?}", begun.elapsed());
    assert!(worker.statistics().notifications > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_listener_comes_back() {
    let schema = new_schema();
    let worker = Arc::new(open(only_notified(&schema)).await);
    let _node = node(worker.clone()).await;
    let client = Client::new(Arc::new(open(only_notified(&schema)).await));
    let raw = raw().await;
    let listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE query LIKE 'LISTEN duroxide_%' AND pid <> pg_backend_pid()";
    // Those of other tests come back as well.
    raw.execute(listeners, &[]).await.expect("ended");
    client.start_orchestration("a", "FiveSteps", "x").await.expect("started");
    let status = client.wait_for_orchestration("a", PATIENCE).await.expect("seen");
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_falls_silent_comes_back() {
    let schema = new_schema();
    let proxy = Proxy::start(&url()).await;
    let second = Duration::from_secs(1);
    let impatient =
        PostgresOptions { statement_timeout: second, connect_timeout: second, ..only_notified(&schema) };
    let worker = Arc::new(PostgresProvider::new(&proxy.url, Some(impatient)).await.expect("opened"));
    let _node = node(worker.clone()).await;
    let client = Client::new(Arc::new(open(only_notified(&schema)).await));
    proxy.silence();
    client.start_orchestration("a", "FiveSteps", "x").await.expect("started");
    let status = client.wait_for_orchestration("a", PATIENCE).await.expect("seen");
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_idle_nodes_leave_the_server_alone() {
    const WATCHED: Duration = Duration::from_secs(6);
    let schema = new_schema();
    let mut stores = Vec::new();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let store = Arc::new(open(options(&schema)).await);
        nodes.push(node(store.clone()).await);
        stores.push(store);
    }
    let client = Client::new(stores[0].clone());
    client.start_orchestration("parked", "Waits", "").await.expect("started");
    // They come to rest.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before: Vec<u64> = stores.iter().map(|store| store.statistics().statements).collect();
    tokio::time::sleep(WATCHED).await;
    for (store, before) in stores.iter().zip(before) {
        let statements = store.statistics().statements - before;
        assert!(statements <= 2 * WATCHED.as_secs(), "{statements} statements in {WATCHED:?}");
    }
}
