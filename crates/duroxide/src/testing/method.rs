//! The calls of a store, by what they do.

/// A call of a store. A call and its extended form are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `fetch_orchestration_item`, `fetch_turns`
    FetchTurns,
    /// `ack_orchestration_item`
    AckTurn,
    /// `abandon_orchestration_item`
    AbandonTurn,
    /// `renew_orchestration_item_lock`
    RenewTurn,
    /// `fetch_work_item`, `fetch_work`
    FetchWork,
    /// `ack_work_item`
    AckWork,
    /// `abandon_work_item`
    AbandonWork,
    /// `renew_work_item_lock`
    RenewWork,
    /// `record_progress`
    RecordProgress,
    /// `forgive_attempt`
    ForgiveAttempt,
    /// `lost_work_items`
    LostWork,
    /// `renew_session_lock`
    RenewSessions,
    /// `cleanup_orphaned_sessions`
    CleanUpSessions,
    /// `enqueue_for_orchestrator`, `enqueue_checked`
    Enqueue,
    /// `enqueue_for_worker`
    EnqueueWork,
    /// `read`, `read_with_execution`
    Read,
    /// `append_with_execution`
    Append,
    /// `get_custom_status`
    CustomStatus,
    /// `get_kv_value`
    KvValue,
    /// `get_kv_all_values`
    KvValues,
    /// `get_instance_stats`
    Stats,
    /// `orchestration_status`
    Status,
    /// `wait_for_instance`
    Wait,
    /// `kept_messages`
    KeptMessages,
    /// `redrive`
    Redrive,
    /// `heartbeat_node`
    Heartbeat,
    /// `node_left`
    NodeLeft,
    /// `list_nodes`
    ListNodes,
    /// `find_unprocessable_work`
    FindUnprocessable,
    /// `fetch_unprocessable_turns`, `fetch_unprocessable_work`
    FetchUnprocessable,
    /// Every call of the management side.
    Admin,
}

/// The name of each method in the trait; the first of a method is the one it is shown by.
const NAMES: [(&str, Method); 36] = [
    ("fetch_turns", Method::FetchTurns),
    ("fetch_orchestration_item", Method::FetchTurns),
    ("ack_orchestration_item", Method::AckTurn),
    ("abandon_orchestration_item", Method::AbandonTurn),
    ("renew_orchestration_item_lock", Method::RenewTurn),
    ("fetch_work", Method::FetchWork),
    ("fetch_work_item", Method::FetchWork),
    ("ack_work_item", Method::AckWork),
    ("abandon_work_item", Method::AbandonWork),
    ("renew_work_item_lock", Method::RenewWork),
    ("record_progress", Method::RecordProgress),
    ("forgive_attempt", Method::ForgiveAttempt),
    ("lost_work_items", Method::LostWork),
    ("renew_session_lock", Method::RenewSessions),
    ("cleanup_orphaned_sessions", Method::CleanUpSessions),
    ("enqueue_for_orchestrator", Method::Enqueue),
    ("enqueue_checked", Method::Enqueue),
    ("enqueue_for_worker", Method::EnqueueWork),
    ("read", Method::Read),
    ("read_with_execution", Method::Read),
    ("append_with_execution", Method::Append),
    ("get_custom_status", Method::CustomStatus),
    ("get_kv_value", Method::KvValue),
    ("get_kv_all_values", Method::KvValues),
    ("get_instance_stats", Method::Stats),
    ("orchestration_status", Method::Status),
    ("wait_for_instance", Method::Wait),
    ("kept_messages", Method::KeptMessages),
    ("redrive", Method::Redrive),
    ("heartbeat_node", Method::Heartbeat),
    ("node_left", Method::NodeLeft),
    ("list_nodes", Method::ListNodes),
    ("find_unprocessable_work", Method::FindUnprocessable),
    ("fetch_unprocessable_turns", Method::FetchUnprocessable),
    ("fetch_unprocessable_work", Method::FetchUnprocessable),
    ("admin", Method::Admin),
];

impl Method {
    /// The method's name in the trait, for logs and errors.
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, method)| *method == self);
        named.map_or("unnamed", |(name, _)| name)
    }

    /// Whether the call commits, renews or gives back what a fetch locked.
    pub fn is_of_holder(self) -> bool {
        match self {
            Self::AckTurn
            | Self::AbandonTurn
            | Self::RenewTurn
            | Self::AckWork
            | Self::AbandonWork
            | Self::RenewWork
            | Self::RenewSessions => true,
            Self::FetchTurns
            | Self::FetchWork
            | Self::RecordProgress
            | Self::ForgiveAttempt
            | Self::LostWork
            | Self::CleanUpSessions
            | Self::Enqueue
            | Self::EnqueueWork
            | Self::Read
            | Self::Append
            | Self::CustomStatus
            | Self::KvValue
            | Self::KvValues
            | Self::Stats
            | Self::Status
            | Self::Wait
            | Self::KeptMessages
            | Self::Redrive
            | Self::Heartbeat
            | Self::NodeLeft
            | Self::ListNodes
            | Self::FindUnprocessable
            | Self::FetchUnprocessable
            | Self::Admin => false,
        }
    }
}

impl From<&str> for Method {
    /// The method of this name in the trait.
    ///
    /// # Panics
    /// When no method has this name: a script that is never carried out would prove nothing.
    fn from(name: &str) -> Self {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, method)| *method).unwrap_or_else(|| panic!("no method of a store is called '{name}'"))
    }
}
