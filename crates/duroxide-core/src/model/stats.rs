//! The size of an instance.

/// The size of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemStats {
    /// Events of the current execution.
    pub history_event_count: u64,
    /// Their stored bytes.
    pub history_size_bytes: u64,
    /// Messages that wait for the program: those in its inbox, and those that have arrived or were carried by
    /// continue-as-new and that it has not read. The instance itself sees only the latter.
    pub queue_pending_count: u64,
    /// Keys in its KV store.
    pub kv_user_key_count: u64,
    /// Bytes of the values in its KV store.
    pub kv_total_value_bytes: u64,
}
