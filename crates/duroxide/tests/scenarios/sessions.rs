//! Two nodes with a store of their own each, on one SQLite file: a session has one owner, and moves when it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationRegistry, RuntimeOptions};
use tokio::sync::Semaphore;

/// Who ran what, and a permit for each run that has ended.
struct Log {
    runs: Mutex<Vec<String>>,
    ended: Semaphore,
}

impl Log {
    async fn after(&self, runs: u32) -> Vec<String> {
        let ended = self.ended.acquire_many(runs);
        let permits = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("within a minute");
        permits.expect("never closed").forget();
        self.runs.lock().expect("nobody panics under it").clone()
    }
}

async fn node(url: &str, name: &str, log: &Arc<Log>) -> (Arc<dyn Provider>, Arc<Runtime>) {
    let store: Arc<dyn Provider> = Arc::new(SqliteProvider::new(url, None).await.expect("opened"));
    let log = log.clone();
    let activities = ActivityRegistry::builder()
        .register("Work", move |ctx: ActivityContext, _input: String| {
            let log = log.clone();
            async move {
                log.runs.lock().expect("nobody panics under it").push(ctx.worker_id().to_string());
                log.ended.add_permits(1);
                Ok(String::new())
            }
        })
        .build();
    let options = RuntimeOptions {
        worker_node_id: Some(name.to_string()),
        // Short enough for a test, long enough for a machine that is busy with others.
        session_lock_timeout: Duration::from_secs(2),
        session_lock_renewal_buffer: Duration::from_millis(1500),
        worker_lock_timeout: Duration::from_secs(2),
        worker_lock_renewal_buffer: Duration::from_millis(1500),
        ..RuntimeOptions::default()
    };
    let orchestrations = OrchestrationRegistry::builder().build();
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    (store, runtime)
}

async fn queue(store: &Arc<dyn Provider>, id: u64) {
    let item = WorkItem::ActivityExecute {
        instance: "instance".to_string(),
        execution_id: 1,
        id,
        name: "Work".to_string(),
        input: String::new(),
        session_id: Some("session".to_string()),
        tag: None,
    };
    store.enqueue_for_worker(item).await.expect("queued");
}

#[tokio::test]
async fn a_session_stays_on_one_of_two_nodes_and_outlives_its_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("sessions.db").display());
    let log = Arc::new(Log { runs: Mutex::default(), ended: Semaphore::new(0) });
    let (first_store, first) = node(&url, "first", &log).await;
    queue(&first_store, 0).await;
    assert_eq!(log.after(1).await, ["first"]);
    let (second_store, second) = node(&url, "second", &log).await;
    for id in 1..20 {
        queue(&second_store, id).await;
    }
    assert!(log.after(19).await.iter().all(|node| node == "first"), "claimed by the first");
    first.kill();
    first.wait_until_ended().await;
    for id in 20..30 {
        queue(&second_store, id).await;
    }
    let runs = log.after(10).await;
    assert_eq!(runs.get(20..), Some(&["second"; 10].map(str::to_string)[..]), "taken over after its end");
    second.shutdown(None).await;
}
