//! The version that an execution is pinned to, in its three columns.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    Client, DispatcherCapabilityFilter, OrchestrationContext, OrchestrationRegistry, SemverRange,
    current_build_version,
};
use semver::Version;

use crate::fixture::{Ack, LONG, NOW, Place, enqueue, fetch, raised, start};

/// The columns of every execution, in their order.
fn columns(place: &Place) -> Vec<[Option<u32>; 3]> {
    let raw = place.raw();
    let sql =
        "SELECT pinned_major, pinned_minor, pinned_patch FROM executions ORDER BY instance_key, execution_id";
    let mut statement = raw.prepare(sql).expect("the statement is right");
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])).expect("it runs");
    rows.map(|row| row.expect("three numbers")).collect()
}

#[tokio::test]
async fn execution_metadata_includes_pinned_version_on_new_orchestration() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let orchestrations = OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            if input == "again" {
                return ctx.schedule_sub_orchestration_with_id("Child", "child", "").await;
            }
            ctx.continue_as_new("again").await
        })
        .register("Child", |_ctx: OrchestrationContext, _input: String| async move { Ok("done".to_string()) })
        .build();
    let activities = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("parent", "Parent", "").await.unwrap();
    client.wait_for_orchestration("parent", Duration::from_secs(20)).await.unwrap();
    runtime.shutdown(None).await;
    let Version { major, minor, patch, .. } = current_build_version();
    let current = [major, minor, patch].map(|part| Some(u32::try_from(part).unwrap()));
    assert_eq!(columns(&place), [current; 3], "two executions and a child, each with its own");
}

#[tokio::test]
async fn existing_executions_without_pinned_version_remain_fetchable() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, start("old")).await;
    let (_, token, _) = fetch(&store).await;
    let metadata =
        ExecutionMetadata { pinned_duroxide_version: Some(Version::new(1, 2, 3)), ..Default::default() };
    Ack { metadata, ..Ack::default() }.commit(&store, &token).await.unwrap();
    assert_eq!(columns(&place), [[Some(1), Some(2), Some(3)]]);
    enqueue(&store, raised("old", "go")).await;
    drop(store);

    // As a build that knew of no versions has left it.
    let forget = "UPDATE executions SET pinned_major = NULL, pinned_minor = NULL, pinned_patch = NULL; \
                  UPDATE instances SET pinned_key = -1;";
    place.raw().execute_batch(forget).unwrap();
    let store = place.open().await;
    assert_eq!(columns(&place), [[None; 3]]);
    let narrow = SemverRange::new(Version::new(7, 0, 0), Version::new(7, 0, 1));
    let narrow = DispatcherCapabilityFilter { supported_duroxide_versions: vec![narrow] };
    let fetched = store.fetch_orchestration_item(LONG, NOW, Some(&narrow)).await.unwrap();
    assert_eq!(fetched.expect("compatible with every node").0.instance, "old");
}
