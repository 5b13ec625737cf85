//! What is computed now and then: how much waits, and for how long the oldest of it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::Node;
use crate::metric;
use crate::providers::{ProviderAdmin, ProviderError};

/// Computes the gauges at each interval, until the node stops.
pub(super) async fn run(node: Arc<Node>) {
    let Some(admin) = node.provider.as_management_capability() else { return };
    let interval = node.options.observability.gauge_poll_interval;
    let mut filtered_out = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            () = node.stopping.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        if let Err(error) = compute(admin).await {
            node.store_failed("computing gauges", &error);
        }
        // A node that fetches no turns is kept from none by their versions.
        if node.options.runs_orchestrations()
            && let Err(error) = compute_filtered_out(&node, admin, &mut filtered_out).await
        {
            node.store_failed("computing gauges", &error);
        }
    }
}

async fn compute(admin: &dyn ProviderAdmin) -> Result<(), ProviderError> {
    let depths = admin.get_queue_depths().await?;
    let depth = |queue: &'static str, items: usize| {
        metric::queue_depth(queue).set(items as f64);
    };
    depth("orchestrator", depths.orchestrator_queue);
    depth("worker", depths.worker_queue);
    depth("timer", depths.timer_queue);
    let oldest = admin.oldest_ready().await?;
    let now = admin.now_ms().await?;
    let age = |queue: &'static str, ready_at: Option<u64>| {
        // What becomes ready later has no age: a gauge never goes below zero.
        let waited_ms = ready_at.map_or(0, |ready_at| now.saturating_sub(ready_at));
        metric::oldest_ready_age(queue).set(waited_ms as f64 / 1000.0);
    };
    age("orchestrator", oldest.turn_ms);
    age("worker", oldest.work_ms);
    Ok(())
}

/// Ready instances that this node does not get because of the version they are pinned to. A version of which
/// nothing waits any more goes to zero.
async fn compute_filtered_out(
    node: &Node,
    admin: &dyn ProviderAdmin,
    last: &mut BTreeMap<String, usize>,
) -> Result<(), ProviderError> {
    let counted = admin.filtered_out(&node.filter).await?;
    last.values_mut().for_each(|instances| *instances = 0);
    for left_out in counted {
        let version =
            left_out.pinned_version.map_or_else(|| "none".to_string(), |version| version.to_string());
        last.insert(version, left_out.instances);
    }
    for (version, instances) in last.iter() {
        metric::filtered_out_instances(version.clone()).set(*instances as f64);
    }
    last.retain(|_, instances| *instances > 0);
    Ok(())
}
