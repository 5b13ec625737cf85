//! What a program can read of its own state at once: the custom status, the KV store and its size.
//!
//! The program sees its own writes before the engine has recorded them. What is recorded is written at the same
//! time as the events, so a replay of them gives the same view.

use std::collections::BTreeMap;

use super::patches::Patches;
use crate::model::{KvEntry, SystemStats};

/// The program's view of its instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) custom_status: Option<String>,
    pub(super) kv: BTreeMap<String, KvEntry>,
    kv_value_bytes: u64,
    /// The execution as the program sees it: that of its start until it is redriven.
    pub(super) execution_id: u64,
    /// The time of the turn, as it is or will be recorded.
    pub(super) now_ms: u64,
    /// As they stood when the program was last resumed.
    pub(super) history_event_count: u64,
    pub(super) history_size_bytes: u64,
    pub(super) unread_count: u64,
    pub(super) patches: Patches,
}

impl State {
    pub(super) fn set(&mut self, key: String, entry: KvEntry) {
        self.kv_value_bytes += bytes(&entry);
        if let Some(before) = self.kv.insert(key, entry) {
            self.kv_value_bytes -= bytes(&before);
        }
    }

    pub(super) fn clear(&mut self, key: &str) {
        if let Some(before) = self.kv.remove(key) {
            self.kv_value_bytes -= bytes(&before);
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.kv.clear();
        self.kv_value_bytes = 0;
    }

    pub(super) fn stats(&self) -> SystemStats {
        SystemStats {
            history_event_count: self.history_event_count,
            history_size_bytes: self.history_size_bytes,
            queue_pending_count: self.unread_count,
            kv_user_key_count: u64::try_from(self.kv.len()).unwrap_or(u64::MAX),
            kv_total_value_bytes: self.kv_value_bytes,
        }
    }
}

fn bytes(entry: &KvEntry) -> u64 {
    u64::try_from(entry.value.len()).unwrap_or(u64::MAX)
}
