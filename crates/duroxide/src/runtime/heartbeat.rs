//! The node says that it lives and what it can do, now and then, until it stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{AcceptedTags, HandlerSet, NodeInfo, current_build_version};

use super::node::Node;
use super::store_call::answer_in_time;
use crate::clock::millis;
use crate::providers::TagFilter;

/// Beats until the node stops, and says that it leaves.
///
/// A heartbeat that fails is an outage like any other: it is counted, and the next one comes at its time.
pub(super) async fn run(node: Arc<Node>) {
    if !node.provider.keeps_nodes() {
        tracing::info!(
            target: "duroxide::runtime",
            node = %node.node_id,
            store = node.provider.name(),
            "the store keeps no rows of nodes: this node is not listed, and no sweeper knows of it"
        );
        return;
    }
    loop {
        if let Err(error) = answer_in_time(node.provider.heartbeat_node(&info(&node))).await {
            node.store_failed("saying that the node lives", &error);
        }
        if !pause(&node, node.options.node_heartbeat_interval).await {
            break;
        }
    }
    if let Err(error) = answer_in_time(node.provider.node_left(&node.node_id)).await {
        node.store_failed("saying that the node leaves", &error);
    }
}

async fn pause(node: &Node, interval: Duration) -> bool {
    tokio::select! {
        biased;
        () = node.stopping.cancelled() => false,
        () = tokio::time::sleep(interval) => true,
    }
}

/// What the node can do by the version policy of this moment. A kind of work that it does not run it cannot do, even if
/// handlers are registered: then another node is missing, and the store can tell.
fn info(node: &Node) -> NodeInfo {
    let (orchestrations, replays) = if node.options.runs_orchestrations() {
        ((*node.handlers.orchestrations()).clone(), node.filter.supported_duroxide_versions.clone())
    } else {
        // Without a version to replay it cannot even end an instance that was cancelled.
        (HandlerSet::default(), Vec::new())
    };
    let (activities, tags) = if node.options.runs_activities() {
        ((*node.handlers.activities()).clone(), &node.options.worker_tag_filter)
    } else {
        (BTreeSet::new(), &TagFilter::None)
    };
    NodeInfo {
        node_id: node.node_id.clone(),
        start_id: node.start_id.clone(),
        build_version: current_build_version(),
        replays,
        orchestrations,
        activities,
        tags: AcceptedTags::from(tags),
        routing: node.options.capability_routing,
        heartbeat_ms: millis(node.options.node_heartbeat_interval),
    }
}
