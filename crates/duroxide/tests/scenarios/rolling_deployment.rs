//! The two programs of the design documents: imports added, return types written out, `..` in the status patterns.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{self, UnregisteredBackoffConfig};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};

type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// E2E: Simulates rolling deployment with version upgrade via CAN
///
/// Scenario:
/// - Orchestration v1.0.0 is running, does continue_as_new to v2.0.0
/// - 2 nodes have only v1.0.0, 1 node has both v1.0.0 and v2.0.0
/// - CAN message for v2.0.0 bounces on old nodes with backoff
/// - After upgrade, v2.0.0 executes successfully
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the program stands as the design documents have it")]
async fn e2e_rolling_deployment_version_upgrade() {
    let provider = Arc::new(SqliteProvider::new_in_memory().await.expect("Failed to create provider"));

    // v1.0.0 handler - does CAN to v2.0.0
    fn v1_handler() -> impl Fn(OrchestrationContext, String) -> Running {
        |ctx: OrchestrationContext, _input: String| {
            Box::pin(async move {
                // Continue as new to v2.0.0
                ctx.continue_as_new_versioned("2.0.0", "upgraded").await
            })
        }
    }

    // v2.0.0 handler - just completes
    fn v2_handler() -> impl Fn(OrchestrationContext, String) -> Running {
        |_ctx: OrchestrationContext, input: String| {
            Box::pin(async move { Ok::<_, String>(format!("v2-completed:{}", input)) })
        }
    }

    // Old nodes: only have v1.0.0
    let orchestrations_old =
        OrchestrationRegistry::builder().register_versioned("VersionedOrch", "1.0.0", v1_handler()).build();

    // New node: has both v1.0.0 and v2.0.0
    let orchestrations_new = OrchestrationRegistry::builder()
        .register_versioned("VersionedOrch", "1.0.0", v1_handler())
        .register_versioned("VersionedOrch", "2.0.0", v2_handler())
        .build();

    let activities = Arc::new(ActivityRegistry::builder().build());

    let options = RuntimeOptions {
        max_attempts: 10,
        dispatcher_min_poll_interval: Duration::from_millis(10),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_millis(500),
        },
        ..Default::default()
    };

    // Start nodes: 2 old (v1 only), 1 new (v1+v2)
    let rt1 = runtime::Runtime::start_with_options(
        provider.clone(),
        activities.clone(),
        orchestrations_old.clone(),
        options.clone(),
    )
    .await;
    let rt2 = runtime::Runtime::start_with_options(
        provider.clone(),
        activities.clone(),
        orchestrations_old.clone(),
        options.clone(),
    )
    .await;
    let rt3 = runtime::Runtime::start_with_options(
        provider.clone(),
        activities.clone(),
        orchestrations_new.clone(),
        options.clone(),
    )
    .await;

    let client = Client::new(provider.clone());

    // Start orchestration at v1.0.0 - it will CAN to v2.0.0
    client
        .start_orchestration_versioned("version-upgrade-test", "VersionedOrch", "1.0.0", "{}")
        .await
        .expect("start should succeed");

    // Simulate rolling upgrade: after 2 seconds, upgrade old nodes
    tokio::spawn({
        let rt1 = rt1.clone();
        let rt2 = rt2.clone();
        let provider = provider.clone();
        let activities = activities.clone();
        let orchestrations_new = orchestrations_new.clone();
        let options = options.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            rt1.shutdown(None).await;
            let _rt1_new = runtime::Runtime::start_with_options(
                provider.clone(),
                activities.clone(),
                orchestrations_new.clone(),
                options.clone(),
            )
            .await;

            tokio::time::sleep(Duration::from_secs(1)).await;
            rt2.shutdown(None).await;
            let _rt2_new = runtime::Runtime::start_with_options(
                provider.clone(),
                activities.clone(),
                orchestrations_new.clone(),
                options.clone(),
            )
            .await;
        }
    });

    // Wait for orchestration to complete
    let status = client
        .wait_for_orchestration("version-upgrade-test", Duration::from_secs(10))
        .await
        .expect("wait should succeed");

    // Should complete successfully with v2 output
    match status {
        OrchestrationStatus::Completed { output, .. } => {
            assert!(output.contains("v2-completed"), "Should have v2 output, got: {}", output);
        }
        OrchestrationStatus::Failed { details, .. } => {
            panic!(
                "Orchestration should NOT fail during rolling deployment. \
                 CAN to v2.0.0 should have bounced until upgraded node picked it up. \
                 Error: {details:?}"
            );
        }
        other @ (OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {
            panic!("Unexpected status: {other:?}")
        }
    }

    rt3.shutdown(None).await;
}

/// E2E: Simulates rolling deployment across 3 nodes
///
/// Scenario:
/// - 3 "nodes" (runtimes) sharing same provider
/// - Initially: 2 nodes have old code (no NewActivity), 1 node has new code
/// - Work item for NewActivity is enqueued
/// - Old nodes repeatedly abandon with backoff
/// - After 2 seconds: old nodes "upgrade" (get new code)
/// - Work item eventually succeeds on upgraded node
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the program stands as the design documents have it")]
async fn e2e_rolling_deployment_three_nodes() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let provider = Arc::new(SqliteProvider::new_in_memory().await.expect("Failed to create provider"));

    // Track which "nodes" have been upgraded
    let node1_upgraded = Arc::new(AtomicBool::new(false));
    let node2_upgraded = Arc::new(AtomicBool::new(false));
    let activity_executed = Arc::new(AtomicBool::new(false));

    // All nodes share the same orchestration (calls NewActivity)
    let orchestrations = OrchestrationRegistry::builder()
        .register("RollingDeployOrch", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("NewActivity", "{}").into_activity().await
        })
        .build();

    // Node 3 starts with new code (has NewActivity)
    let activity_executed_clone = activity_executed.clone();
    let activities_new = Arc::new(
        ActivityRegistry::builder()
            .register("NewActivity", move |_ctx: ActivityContext, _input: String| {
                let executed = activity_executed_clone.clone();
                async move {
                    executed.store(true, Ordering::SeqCst);
                    Ok::<_, String>("new-activity-result".to_string())
                }
            })
            .build(),
    );

    // Nodes 1 & 2 start with old code (NO NewActivity registered)
    let activities_old = Arc::new(ActivityRegistry::builder().build());

    // Fast options with short backoff for testing
    let options = RuntimeOptions {
        max_attempts: 10,
        dispatcher_min_poll_interval: Duration::from_millis(10),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(100), // 100ms base for fast test
            max_delay: Duration::from_millis(500),  // 500ms cap
        },
        ..Default::default()
    };

    // Start all 3 nodes
    let start = |activities: Arc<ActivityRegistry>| {
        runtime::Runtime::start_with_options(
            provider.clone(),
            activities,
            orchestrations.clone(),
            options.clone(),
        )
    };
    let rt1 = start(activities_old.clone()).await;
    let rt2 = start(activities_old.clone()).await;
    let rt3 = start(activities_new.clone()).await;

    let client = Client::new(provider.clone());

    // Start orchestration - will schedule NewActivity
    let instance = "rolling-deployment-test";
    client.start_orchestration(instance, "RollingDeployOrch", "{}").await.expect("start should succeed");

    // Simulate rolling upgrade: after 2 seconds, upgrade nodes 1 & 2
    let node1_upgraded_clone = node1_upgraded.clone();
    let node2_upgraded_clone = node2_upgraded.clone();
    let rt1_handle = rt1.clone();
    let rt2_handle = rt2.clone();
    let provider_clone = provider.clone();
    let activities_new_clone = activities_new.clone();
    let orchestrations_clone = orchestrations.clone();
    let options_clone = options.clone();

    tokio::spawn(async move {
        // Wait 2 seconds (simulating rolling deployment window)
        tokio::time::sleep(Duration::from_secs(2)).await;

        // "Upgrade" node 1: shutdown old, start new
        rt1_handle.shutdown(None).await;
        node1_upgraded_clone.store(true, Ordering::SeqCst);
        let _rt1_new = runtime::Runtime::start_with_options(
            provider_clone.clone(),
            activities_new_clone.clone(),
            orchestrations_clone.clone(),
            options_clone.clone(),
        )
        .await;

        // Wait 1 more second, then upgrade node 2
        tokio::time::sleep(Duration::from_secs(1)).await;
        rt2_handle.shutdown(None).await;
        node2_upgraded_clone.store(true, Ordering::SeqCst);
        let _rt2_new = runtime::Runtime::start_with_options(
            provider_clone.clone(),
            activities_new_clone.clone(),
            orchestrations_clone.clone(),
            options_clone.clone(),
        )
        .await;
    });

    // Wait for orchestration to complete (should succeed after nodes upgrade)
    let status =
        client.wait_for_orchestration(instance, Duration::from_secs(10)).await.expect("wait should succeed");

    // Orchestration should complete successfully
    match status {
        OrchestrationStatus::Completed { output, .. } => {
            assert!(output.contains("new-activity-result"), "Should have result from NewActivity");
            assert!(activity_executed.load(Ordering::SeqCst), "NewActivity should have executed");
        }
        OrchestrationStatus::Failed { details, .. } => {
            panic!(
                "Orchestration should NOT fail during rolling deployment. \
                 Backoff should have kept retrying until upgraded node picked it up. \
                 Error: {details:?}"
            );
        }
        other @ (OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {
            panic!("Unexpected status: {other:?}")
        }
    }

    // Cleanup
    rt3.shutdown(None).await;
}
