//! What nodes can do, and the calls about nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide::providers::{HandlerSet, HandlerVersions, NodeInfo, Provider, SweepRequest};
use duroxide::{AcceptedTags, CapabilityRouting};
use semver::Version;

use super::items::capability_filter;
use super::operations::NodeCall;
use super::pair::{Pair, ms};

/// The names of orchestrations that a set may hold, by a bit of its number each.
const NAMES: [&str; 7] = [
    "Orchestration 0",
    "Orchestration 1",
    "Orchestration 2",
    "Orchestration 3",
    "Orchestration 4",
    "Child",
    "Next",
];

/// A set of handlers; most fetches name none. The highest bit says whether a version is chosen.
pub(crate) fn handler_set(number: Option<u8>) -> Option<Arc<HandlerSet>> {
    let number = number?;
    let names = NAMES.iter().enumerate().filter(|(bit, _)| number & (1 << bit) != 0);
    let handlers = names.map(|(_, name)| {
        let versions = BTreeSet::from([Version::new(1, 2, 3)]);
        let unversioned = (number & 0x80 == 0).then(|| Version::new(1, 2, 3));
        ((*name).to_string(), HandlerVersions { versions, unversioned })
    });
    Some(Arc::new(HandlerSet { orchestrations: handlers.collect() }))
}

/// The name of an activity.
pub(crate) fn activity_name(id: u64) -> String {
    format!("Activity {}", id % 3)
}

/// A set of activities; most fetches name none.
pub(crate) fn activity_set(number: Option<u8>) -> Option<Arc<BTreeSet<String>>> {
    let number = number?;
    let known = (0..3).filter(|id| number & (1 << id) != 0);
    Some(Arc::new(known.map(activity_name).collect()))
}

impl Pair {
    pub(crate) async fn about_nodes(&mut self, call: &NodeCall) -> Result<(), String> {
        if !self.has_capabilities() {
            return Ok(());
        }
        self.count("has capabilities");
        match call {
            NodeCall::Beat { node, start, handlers, filter, heartbeat } => {
                let info = NodeInfo {
                    node_id: node_id(*node),
                    start_id: format!("start {start}"),
                    build_version: Version::new(1, 0, 0),
                    replays: capability_filter(*filter)
                        .map(|filter| filter.supported_duroxide_versions)
                        .unwrap_or_default(),
                    orchestrations: handler_set(Some(*handlers))
                        .map(|set| (*set).clone())
                        .unwrap_or_default(),
                    activities: activity_set(Some(*handlers)).map(|set| (*set).clone()).unwrap_or_default(),
                    tags: match handlers % 3 {
                        0 => AcceptedTags::Any,
                        1 => AcceptedTags::These { untagged: true, tags: BTreeSet::new() },
                        _ => AcceptedTags::These {
                            untagged: false,
                            tags: BTreeSet::from(["tag 0".to_string()]),
                        },
                    },
                    routing: CapabilityRouting::Handlers,
                    heartbeat_ms: u64::from(*heartbeat),
                };
                let memory = self.memory.heartbeat_node(&info).await;
                let other = self.other.heartbeat_node(&info).await;
                self.agree("heartbeat", &memory, &other).map(drop)
            }
            NodeCall::Leave { node } => {
                let memory = self.memory.node_left(&node_id(*node)).await;
                let other = self.other.node_left(&node_id(*node)).await;
                self.agree("leave", &memory, &other).map(drop)
            }
            NodeCall::SweepTurns { lock, end_after, max_items } => {
                let request = sweep(*lock, *end_after, *max_items);
                let memory = self.memory.fetch_unprocessable_turns(request).await;
                let other = self.other.fetch_unprocessable_turns(request).await;
                if memory.as_ref().is_ok_and(|turns| !turns.is_empty()) {
                    self.count("sweep turns");
                }
                self.agree_on_turns(memory, other)
            }
            NodeCall::SweepWork { lock, end_after, max_items } => {
                let request = sweep(*lock, *end_after, *max_items);
                let memory = self.memory.fetch_unprocessable_work(request).await;
                let other = self.other.fetch_unprocessable_work(request).await;
                let (Ok(memory), Ok(other)) = (memory, other) else {
                    return Err("a sweep failed".to_string());
                };
                if !memory.is_empty() {
                    self.count("sweep work");
                }
                self.agree_on_work(memory, other)
            }
        }
    }
}

fn sweep(lock: u16, end_after: u16, max_items: usize) -> SweepRequest {
    SweepRequest { end_after: ms(end_after), lock_timeout: ms(lock), max_items }
}

/// Node 3 has no name, and is refused.
fn node_id(node: u8) -> String {
    if node == 3 { String::new() } else { format!("node {node}") }
}
