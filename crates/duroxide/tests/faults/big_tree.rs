//! Fault 21: a root with thousands of children is deleted in one call of the client.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::{
    Client, ClientError, OrchestrationContext, OrchestrationRegistryBuilder, OrchestrationStatus,
};

use crate::common::{activities, orchestrations};

const CHILDREN: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// A root with 1,000 children that have a child each.
fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Root", |ctx: OrchestrationContext, _input: String| async move {
            let middle = (0..CHILDREN / 2).map(|n| ctx.schedule_sub_orchestration("Middle", n.to_string()));
            let results = ctx.join(middle.collect::<Vec<_>>()).await;
            let sum: Result<Vec<String>, String> = results.into_iter().collect();
            ctx.schedule_wait("end").await;
            Ok(sum?.len().to_string())
        })
        .register("Middle", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration("Leaf", input).await
        })
        .register("Leaf", |ctx: OrchestrationContext, input: String| async move {
            ctx.set_kv_value("seen", input.clone());
            Ok(input)
        })
}

async fn delete_on(store: Arc<dyn Provider>) {
    let runtime = Runtime::start_with_store(store.clone(), activities().build(), programs().build()).await;
    let client = Client::new(store);
    client.start_orchestration("bystander", "Leaf", "x").await.expect("start");
    client.wait_for_orchestration("bystander", PATIENCE).await.expect("it ends");
    client.start_orchestration("root", "Root", "").await.expect("start");
    client.raise_event("root", "end", "").await.expect("raise");
    let ended = client.wait_for_orchestration("root", PATIENCE).await.expect("it ends");
    assert!(matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "1000"), "{ended:?}");
    let tree = client.get_instance_tree("root").await.expect("tree");
    assert_eq!(tree.size() as u64, CHILDREN + 1);
    let child = tree.all_ids.iter().find(|id| *id != "root").expect("it has children");
    let refused = client.delete_instance(child, true).await;
    assert!(matches!(refused, Err(ClientError::CannotDeleteSubOrchestration { .. })), "{refused:?}");

    let deleted = client.delete_instance("root", false).await.expect("delete");
    assert_eq!((deleted.instances_deleted, deleted.executions_deleted), (CHILDREN + 1, CHILDREN + 1));
    assert_eq!(client.list_all_instances().await.expect("list"), ["bystander"]);
    for id in [child.as_str(), "root"] {
        let status = client.get_orchestration_status(id).await.expect("status");
        assert_eq!(status, OrchestrationStatus::NotFound);
        assert_eq!(client.get_kv_value(id, "seen").await.expect("read"), None);
    }
    let depths = client.get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue, depths.timer_queue), (0, 0, 0));

    // The ids are free again, with all of their children.
    client.start_orchestration("root", "Root", "").await.expect("start");
    let waits = async {
        loop {
            let metrics = client.get_system_metrics().await.expect("metrics");
            // All but the root itself have ended.
            if metrics.completed_instances == CHILDREN + 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("the children end");
    let running = client.delete_instance("root", false).await;
    assert!(matches!(running, Err(ClientError::InstanceStillRunning { .. })), "{running:?}");
    assert_eq!(client.get_instance_tree("root").await.expect("tree").size() as u64, CHILDREN + 1);
    let forced = client.delete_instance("root", true).await.expect("delete");
    assert_eq!(forced.instances_deleted, CHILDREN + 1);
    assert_eq!(client.list_all_instances().await.expect("list"), ["bystander"]);
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn a_root_is_deleted_with_two_thousand_children_in_one_call() {
    delete_on(Arc::new(MemoryProvider::new())).await;
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    delete_on(Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"))).await;
}
