//! A worker that is stopped for longer than its locks last, and continued: its late commit changes nothing.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use private_postgres::{Durability, Server};

use crate::audit::audit;
use crate::child::{self, Worker};

const JOB: &str = "stopped::worker_process";

/// The child: its activity says who runs it, takes a while, and returns that.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(url) = child::url_of(JOB) else { return };
    let activities = ActivityRegistry::builder()
        .register("WhoRuns", |ctx: ActivityContext, _input: String| async move {
            let own = std::process::id().to_string();
            let client = ctx.get_client();
            client
                .enqueue_event(ctx.instance_id(), "runners", &own)
                .await
                .map_err(|error| error.to_string())?;
            tokio::time::sleep(Duration::from_millis(1500)).await;
            Ok(own)
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Ask", |ctx: OrchestrationContext, _input: String| async move {
            let activity = ctx.schedule_activity("WhoRuns", "");
            let first = ctx.dequeue_event("runners").await;
            ctx.set_custom_status(first);
            activity.await
        })
        .build();
    let (store, _client) = child::open(&url).await;
    let _runtime = Runtime::start_with_options(store, activities, orchestrations, child::options()).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_of_a_stopped_worker_changes_nothing() {
    let server = Server::start(Durability::Full).expect("a server of its own");
    let (_store, client) = child::open(server.url()).await;
    let stopped = Worker::start(JOB, server.url());
    client.start_orchestration("a", "Ask", "").await.expect("started");
    let begun =
        client.wait_for_status_change("a", 0, Duration::from_millis(20), Duration::from_secs(60)).await;
    let begun = begun.expect("the activity began");
    let OrchestrationStatus::Running { custom_status, .. } = &begun else { panic!("{begun:?}") };
    assert_eq!(custom_status.as_deref(), Some(stopped.id().to_string().as_str()));
    stopped.signal("-STOP");
    let second = Worker::start(JOB, server.url());
    let status = client.wait_for_orchestration("a", Duration::from_secs(60)).await.expect("taken over");
    let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{status:?}") };
    assert_eq!(*output, second.id().to_string(), "the second worker did it");
    let before = client.read_execution_history("a", 1).await.expect("history");
    stopped.signal("-CONT");
    // Long enough for the activity's end and its commit, which are all that the first worker has left to do.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = client.read_execution_history("a", 1).await.expect("history");
    assert_eq!(before, after);
    audit("a", &after);
    let depths = client.get_queue_depths().await.expect("read");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
}
