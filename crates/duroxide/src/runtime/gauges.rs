//! What is computed now and then: how much waits, and for how long the oldest of it has.

use std::sync::Arc;

use super::node::Node;
use crate::providers::{ProviderAdmin, ProviderError};

/// Computes the gauges at each interval, until the node stops.
pub(super) async fn run(node: Arc<Node>) {
    let Some(admin) = node.provider.as_management_capability() else { return };
    let interval = node.options.observability.gauge_poll_interval;
    loop {
        tokio::select! {
            biased;
            () = node.stopping.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        if let Err(error) = compute(admin).await {
            node.store_failed("computing gauges", &error);
        }
    }
}

async fn compute(admin: &dyn ProviderAdmin) -> Result<(), ProviderError> {
    let depths = admin.get_queue_depths().await?;
    let depth = |queue: &'static str, items: usize| {
        metrics::gauge!("duroxide_queue_depth", "queue" => queue).set(items as f64);
    };
    depth("orchestrator", depths.orchestrator_queue);
    depth("worker", depths.worker_queue);
    depth("timer", depths.timer_queue);
    let oldest = admin.oldest_ready().await?;
    let now = admin.now_ms().await?;
    let age = |queue: &'static str, ready_at: Option<u64>| {
        // What becomes ready later has no age: a gauge never goes below zero.
        let waited_ms = ready_at.map_or(0, |ready_at| now.saturating_sub(ready_at));
        metrics::gauge!("duroxide_oldest_ready_age_seconds", "queue" => queue).set(waited_ms as f64 / 1000.0);
    };
    age("orchestrator", oldest.turn_ms);
    age("worker", oldest.work_ms);
    Ok(())
}
