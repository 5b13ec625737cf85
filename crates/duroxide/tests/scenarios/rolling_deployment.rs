//! Three nodes on one store get new code one after the other, while instances that need it are started all the time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{self, UnregisteredBackoffConfig};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// The code of a node.
#[derive(Clone)]
struct Code {
    activities: Arc<ActivityRegistry>,
    orchestrations: OrchestrationRegistry,
}

/// Three nodes that share nothing but the store.
struct Cluster {
    provider: Arc<SqliteProvider>,
    client: Client,
    nodes: Vec<Arc<runtime::Runtime>>,
    /// Every node that there ever was.
    ever: Vec<Arc<runtime::Runtime>>,
}

impl Cluster {
    async fn start(old: &Code) -> Self {
        let provider = Arc::new(SqliteProvider::new_in_memory().await.expect("Failed to create provider"));
        let client = Client::new(provider.clone());
        let mut cluster = Self { provider, client, nodes: Vec::new(), ever: Vec::new() };
        for _ in 0..3 {
            let node = cluster.node(old).await;
            cluster.nodes.push(node);
        }
        cluster
    }

    async fn node(&mut self, code: &Code) -> Arc<runtime::Runtime> {
        let options = RuntimeOptions {
            max_attempts: 10,
            dispatcher_min_poll_interval: Duration::from_millis(10),
            unregistered_backoff: UnregisteredBackoffConfig {
                base_delay: Duration::from_millis(100), // 100ms base for fast test
                max_delay: Duration::from_millis(500),  // 500ms cap
            },
            ..Default::default()
        };
        let Code { activities, orchestrations } = code.clone();
        let node =
            runtime::Runtime::start_with_options(self.provider.clone(), activities, orchestrations, options)
                .await;
        self.ever.push(node.clone());
        node
    }

    /// The node stops, and comes back with the new code.
    async fn upgrade(&mut self, index: usize, new: &Code) {
        self.nodes[index].clone().shutdown(None).await;
        self.nodes[index] = self.node(new).await;
    }

    fn bounces(&self) -> u64 {
        let counts = self.ever.iter().map(|node| node.metrics_snapshot().expect("always there"));
        counts.map(|counted| counted.unregistered_orch_backoff + counted.unregistered_activity_backoff).sum()
    }

    /// Waits until old nodes have given something back this often.
    async fn bounced(&self, times: u64) {
        tokio::time::timeout(PATIENCE, async {
            while self.bounces() < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("old nodes give back what they do not know");
    }

    async fn output(&self, instance: &str) -> String {
        let status = self.client.wait_for_orchestration(instance, PATIENCE).await;
        match status.expect("wait should succeed") {
            OrchestrationStatus::Completed { output, .. } => output,
            OrchestrationStatus::Failed { details, .. } => {
                panic!("{instance} should NOT fail during rolling deployment: {details:?}")
            }
            other @ (OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {
                panic!("Unexpected status: {other:?}")
            }
        }
    }

    /// Ends the cluster; nothing may have been poisoned on the way.
    async fn end(self) {
        for node in &self.ever {
            let counted = node.metrics_snapshot().expect("always there");
            assert_eq!((counted.orch_failures, counted.orch_poison, counted.activity_poison), (0, 0, 0));
        }
        for node in self.nodes {
            node.shutdown(None).await;
        }
    }
}

/// E2E: Simulates rolling deployment across 3 nodes
///
/// The new code has an activity that an orchestration of the old code calls already, and an orchestration that
/// clients start already. Old nodes give both back with backoff; new nodes do them.
#[tokio::test]
async fn e2e_rolling_deployment_three_nodes() {
    let executed = Arc::new(AtomicU32::new(0));
    let calls_new_activity = |ctx: OrchestrationContext, _input: String| async move {
        ctx.schedule_activity("NewActivity", "{}").into_activity().await
    };
    let old = Code {
        activities: Arc::new(ActivityRegistry::builder().build()),
        orchestrations: OrchestrationRegistry::builder()
            .register("RollingDeployOrch", calls_new_activity)
            .build(),
    };
    let counter = executed.clone();
    let new_activity = move |_ctx: ActivityContext, _input: String| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, String>("new-activity-result".to_string()) }
    };
    let new = Code {
        activities: Arc::new(ActivityRegistry::builder().register("NewActivity", new_activity).build()),
        orchestrations: OrchestrationRegistry::builder()
            .register("RollingDeployOrch", calls_new_activity)
            .register("NewOrch", calls_new_activity)
            .build(),
    };
    let mut cluster = Cluster::start(&old).await;
    let mut started = Vec::new();
    // Nobody has the new code at first, then node 3, then 3 and 1, then all.
    for stage in [None, Some(2), Some(0), Some(1)] {
        if let Some(index) = stage {
            cluster.upgrade(index, &new).await;
        }
        for name in ["RollingDeployOrch", "NewOrch"] {
            let instance = format!("{name} at stage {stage:?}");
            cluster.client.start_orchestration(instance.as_str(), name, "{}").await.expect("start");
            started.push(instance);
        }
        if stage.is_none() {
            cluster.bounced(2).await;
        }
    }
    for instance in &started {
        assert_eq!(cluster.output(instance).await, "new-activity-result", "{instance}");
    }
    assert_eq!(executed.load(Ordering::SeqCst), 8, "NewActivity ran once for each");
    cluster.end().await;
}

type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// v1.0.0 handler - does CAN to v2.0.0
fn v1_handler() -> impl Fn(OrchestrationContext, String) -> Running {
    |ctx: OrchestrationContext, _input: String| {
        Box::pin(async move { ctx.continue_as_new_versioned("2.0.0", "upgraded").await })
    }
}

/// v2.0.0 handler - just completes
fn v2_handler() -> impl Fn(OrchestrationContext, String) -> Running {
    |_ctx: OrchestrationContext, input: String| {
        Box::pin(async move { Ok::<_, String>(format!("v2-completed:{input}")) })
    }
}

/// E2E: Simulates rolling deployment with version upgrade via CAN
///
/// Instances of version 1.0.0, which every node has, continue as 2.0.0, which only new nodes have. The next
/// execution bounces on old nodes with backoff until a new one gets it.
#[tokio::test]
async fn e2e_rolling_deployment_version_upgrade() {
    let activities = Arc::new(ActivityRegistry::builder().build());
    let v1 = || OrchestrationRegistry::builder().register_versioned("VersionedOrch", "1.0.0", v1_handler());
    let old = Code { activities: activities.clone(), orchestrations: v1().build() };
    let both = v1().register_versioned("VersionedOrch", "2.0.0", v2_handler()).build();
    let new = Code { activities, orchestrations: both };
    let mut cluster = Cluster::start(&old).await;
    let mut started = Vec::new();
    for stage in [None, Some(2), Some(0), Some(1)] {
        if let Some(index) = stage {
            cluster.upgrade(index, &new).await;
        }
        let instance = format!("version-upgrade at stage {stage:?}");
        let start =
            cluster.client.start_orchestration_versioned(instance.as_str(), "VersionedOrch", "1.0.0", "{}");
        start.await.expect("start should succeed");
        started.push(instance);
        if stage.is_none() {
            cluster.bounced(1).await;
        }
    }
    for instance in &started {
        assert_eq!(cluster.output(instance).await, "v2-completed:upgraded", "{instance}");
        let info = cluster.client.get_instance_info(instance).await.expect("read");
        assert_eq!((info.current_execution_id, info.orchestration_version.as_str()), (2, "2.0.0"));
    }
    cluster.end().await;
}
