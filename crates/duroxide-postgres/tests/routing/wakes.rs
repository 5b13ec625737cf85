//! What one node makes ready and only another can do wakes that other one, without a poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::TagFilter;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{CapabilityRouting, Client, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::support::{new_schema, open, options};

/// No look but for notifications.
async fn store(schema: &str) -> Arc<PostgresProvider> {
    Arc::new(open(PostgresOptions { poll_interval: Duration::from_secs(300), ..options(schema) }).await)
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Flow", |ctx: OrchestrationContext, _: String| async move {
            let mut made = String::new();
            for _ in 0..5 {
                made += &ctx.schedule_activity("Make", "").with_tag("gpu").await?;
            }
            Ok(made)
        })
        .register("InSession", |ctx: OrchestrationContext, _: String| async move {
            let mut made = String::new();
            for _ in 0..5 {
                made += &ctx.schedule_activity_on_session("Make", "", "session").await?;
            }
            Ok(made)
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder().register("Make", |_, _| async { Ok("m".to_string()) }).build()
}

/// What a node is made of.
struct Node {
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    options: RuntimeOptions,
}

impl Node {
    async fn start(self, store: Arc<PostgresProvider>) -> Arc<Runtime> {
        Runtime::start_with_options(store, self.activities, self.orchestrations, self.options).await
    }
}

async fn check(orchestration: &str, one: Node, two: Node) {
    let schema = new_schema();
    let first = store(&schema).await;
    let nodes = [one.start(first.clone()).await, two.start(store(&schema).await).await];
    let client = Client::new(first);
    let begun = Instant::now();
    for n in 0..5 {
        let id = format!("flow {n}");
        client.start_orchestration(&id, orchestration, "").await.expect("started");
        let output = client.wait_for_orchestration_typed::<String>(&id, Duration::from_secs(60)).await;
        assert_eq!(output.expect("it ends").expect("completed"), "mmmmm");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waited for a poll: {:?}", begun.elapsed());
    for node in nodes {
        node.shutdown(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_only_another_node_accepts_wakes_it() {
    let accepting = |tags| Node {
        activities: activities(),
        orchestrations: orchestrations(),
        options: RuntimeOptions { worker_tag_filter: tags, ..RuntimeOptions::default() },
    };
    Box::pin(check("Flow", accepting(TagFilter::default_only()), accepting(TagFilter::tags(["gpu"])))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_only_another_node_has_wakes_it() {
    let routed = |activities, orchestrations| Node {
        activities,
        orchestrations,
        options: RuntimeOptions {
            capability_routing: CapabilityRouting::Handlers,
            worker_tag_filter: TagFilter::any(),
            ..RuntimeOptions::default()
        },
    };
    let (nothing, none) = (ActivityRegistry::builder().build(), OrchestrationRegistry::builder().build());
    Box::pin(check("Flow", routed(nothing, orchestrations()), routed(activities(), none))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_only_another_node_serves_wakes_it() {
    let serving = |max_sessions_per_runtime| Node {
        activities: activities(),
        orchestrations: orchestrations(),
        options: RuntimeOptions { max_sessions_per_runtime, ..RuntimeOptions::default() },
    };
    Box::pin(check("InSession", serving(0), serving(10))).await;
}
