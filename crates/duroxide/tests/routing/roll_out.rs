//! Three nodes are replaced one after the other, under load. Nothing bounces and nothing fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
use duroxide::runtime::{MetricsSnapshot, Runtime};
use duroxide::{
    CapabilityRouting, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};

use crate::common::{Faulty, options};

/// Orchestrations that are started while the nodes are replaced.
const ORCHESTRATIONS: usize = 300;

/// What every version does: two activities, with a pause that a replacement can fall into.
async fn two_steps(ctx: OrchestrationContext, second: &str) -> Result<String, String> {
    let first = ctx.schedule_activity("A", "").await?;
    ctx.schedule_timer(Duration::from_millis(400)).await;
    let second = ctx.schedule_activity(second, "").await?;
    Ok(format!("{first}{second}"))
}

fn old_code() -> (ActivityRegistry, OrchestrationRegistry) {
    let orchestrations =
        OrchestrationRegistry::builder()
            .register_versioned("Order", "1.0.0", |ctx, _| async move { two_steps(ctx, "A").await });
    (with_a().build(), orchestrations.build())
}

/// The new version calls an activity that old nodes do not have. What began as 1.0.0 is finished as that.
fn new_code() -> (ActivityRegistry, OrchestrationRegistry) {
    let orchestrations = OrchestrationRegistry::builder()
        .register_versioned("Order", "1.0.0", |ctx, _| async move { two_steps(ctx, "A").await })
        .register_versioned("Order", "2.0.0", |ctx, _| async move { two_steps(ctx, "B").await })
        .register("Child", |ctx: OrchestrationContext, _| async move { ctx.schedule_activity("B", "").await })
        .register("Parent", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_sub_orchestration("Child", "").await
        });
    let activities = with_a().register("B", |_, _| async { Ok("b".to_string()) });
    (activities.build(), orchestrations.build())
}

fn with_a() -> ActivityRegistryBuilder {
    ActivityRegistry::builder().register("A", |_, _| async { Ok("a".to_string()) })
}

/// Starts one of six nodes, the first three of which have the old code.
async fn start_node(store: Arc<Faulty>, number: usize) -> Arc<Runtime> {
    let (activities, orchestrations) = if number < 3 { old_code() } else { new_code() };
    let options = RuntimeOptions {
        capability_routing: CapabilityRouting::Handlers,
        process: ProcessScope::simulated(u64::try_from(number).expect("few nodes")),
        ..options()
    };
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

/// What of this cannot be had: given back, failed, or not registered.
fn check(snapshot: &MetricsSnapshot) {
    let bad = (
        snapshot.orch_failures,
        snapshot.activity_app_errors + snapshot.activity_infra_errors + snapshot.activity_poison,
        snapshot.unregistered_orch_backoff,
        snapshot.unregistered_activity_backoff,
        snapshot.provider_errors,
    );
    assert_eq!(bad, (0, 0, 0, 0, 0), "{snapshot:?}");
}

/// Replaces three nodes. Each opens the store for itself, or they share it if there is but one.
pub(crate) async fn roll_out(stores: Vec<Arc<dyn Provider>>) {
    let stores: Vec<Arc<Faulty>> = stores.into_iter().map(|store| Arc::new(Faulty::new(store))).collect();
    let store_of = |number: usize| stores.iter().cycle().nth(number).expect("there is a store").clone();
    let client = Client::new(store_of(0));
    let mut nodes = Vec::new();
    for number in 0..3 {
        nodes.push(start_node(store_of(number), number).await);
    }
    let begun = AtomicUsize::new(0);
    let load = async {
        for number in 0..ORCHESTRATIONS {
            // Some ask for a version, and some for what only the new code has, which waits for the first new node.
            let id = format!("order {number}");
            match number % 4 {
                0 => client.start_orchestration_versioned(&id, "Order", "1.0.0", "").await,
                1 => client.start_orchestration_versioned(&id, "Order", "2.0.0", "").await,
                2 => client.start_orchestration(&id, "Parent", "").await,
                _ => client.start_orchestration(&id, "Order", "").await,
            }
            .expect("started");
            begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let replace = async {
        let mut replaced = Vec::new();
        for ((place, number), node) in (1..).zip(3..).zip(nodes) {
            // The replacement falls into the load: a quarter of it has begun, then a half, then three quarters.
            while begun.load(Ordering::SeqCst) < place * ORCHESTRATIONS / 4 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let counted = node.observability_handle().expect("a runtime counts");
            // Long enough for every turn and activity in progress.
            node.shutdown(Some(10_000)).await;
            check(&counted.metrics_snapshot());
            replaced.push(start_node(store_of(number), number).await);
        }
        replaced
    };
    let ((), replaced) = tokio::join!(load, replace);
    for number in 0..ORCHESTRATIONS {
        let waited = client.wait_for_orchestration(&format!("order {number}"), Duration::from_secs(60)).await;
        let status = waited.expect("it ends");
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{number}: {status:?}") };
        let expected: &[&str] = match number % 4 {
            0 => &["aa"],
            1 => &["ab"],
            2 => &["b"],
            // Whichever node took the start decided.
            _ => &["aa", "ab"],
        };
        assert!(expected.contains(&output.as_str()), "{number}: {output}");
    }
    let mut completed = 0;
    for node in replaced {
        let counted = node.observability_handle().expect("a runtime counts");
        node.shutdown(Some(10_000)).await;
        check(&counted.metrics_snapshot());
        completed += counted.metrics_snapshot().orch_completions;
    }
    assert!(completed > 0);
    for method in ["abandon_orchestration_item", "abandon_work_item"] {
        let calls: u64 = stores.iter().map(|store| store.calls(method)).sum();
        assert_eq!(calls, 0, "{method}: nothing bounces");
    }
    let nodes = client.list_nodes().await.expect("listed");
    assert_eq!(nodes.len(), 6);
    assert!(nodes.iter().all(|node| node.left_at_ms.is_some()));
}
