//! One value of an instance's KV store.

use serde::{Deserialize, Serialize};

/// One value of a KV store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvEntry {
    /// The value.
    pub value: String,
    /// The recorded time of the turn that set it.
    pub last_updated_at_ms: u64,
}
