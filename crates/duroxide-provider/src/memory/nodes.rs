//! The nodes that work on the store.

use duroxide_core::{NodeInfo, NodeRecord, check_node_id};

use super::rows::Ms;
use super::state::{State, invalid};
use crate::ProviderError;

/// A time as records have it.
pub(super) fn from_ms(now: Ms) -> u64 {
    u64::try_from(now).unwrap_or(0)
}

impl State {
    pub(super) fn heartbeat_node(&mut self, now: Ms, node: &NodeInfo) -> Result<(), ProviderError> {
        node.check().map_err(|cause| invalid("heartbeat_node", cause))?;
        let now = from_ms(now);
        self.nodes.retain(|_, record| !record.is_forgotten(now));
        let record = NodeRecord::after_heartbeat(self.nodes.get(&node.node_id), node, now);
        self.nodes.insert(node.node_id.clone(), record);
        Ok(())
    }

    pub(super) fn node_left(&mut self, now: Ms, node_id: &str) -> Result<(), ProviderError> {
        check_node_id(node_id).map_err(|cause| invalid("node_left", cause))?;
        if let Some(record) = self.nodes.get_mut(node_id) {
            record.left_at_ms.get_or_insert(from_ms(now));
        }
        Ok(())
    }

    pub(super) fn list_nodes(&self, now: Ms) -> Vec<NodeRecord> {
        self.nodes.values().filter(|record| !record.is_forgotten(from_ms(now))).cloned().collect()
    }
}
