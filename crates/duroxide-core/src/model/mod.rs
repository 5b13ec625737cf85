//! The stored model: events, messages, errors, and the pure rules about them.

mod bounce;
mod cancel_policy;
mod capability;
mod codec;
mod columns;
mod deadlines;
mod error;
mod error_text;
mod event;
mod execution;
mod failure;
mod first_input;
pub mod health;
mod ids;
mod kv_entry;
pub mod limits;
mod node;
mod open_work;
mod orchestration_status;
pub mod redrive;
mod retry;
mod stats;
mod sweep;
mod unread;
mod version;
mod work_item;
mod work_item_form;

pub use bounce::BounceCause;
pub use cancel_policy::{CancelPolicy, cancel_ends_at_once, cancel_policy_of};
pub use capability::{
    HandlerSet, HandlerVersions, Route, RoutingKey, can_replay, may_fetch, route_after_turn,
};
pub use codec::{decode, decode_as, encode, kv_from_json, kv_to_json};
pub(crate) use codec::{decode_before_1_1, encode_before_1_1, kv_from_json_before_1_1};
pub use columns::{
    BeganAs, Columns, CustomStatusChange, ItemKind, KvChange, StateChanges, WhenUndecodable, WithoutInstance,
    cancel_reaches, columns_of, reply_to_colliding_start, state_changes,
};
pub(crate) use deadlines::deadline_ms;
pub use deadlines::{ActivityDeadlines, not_closed_in_time, not_started_in_time};
pub use error::{AppErrorKind, ConfigErrorKind, ErrorDetails, PoisonMessageType};
pub use error_text::error_within_limit;
pub use event::{Event, EventKind};
pub use execution::{ExecutionMetadata, ParentLink, ScheduledActivityIdentifier, status};
pub use failure::{FailureKind, RecordedFailure};
pub use first_input::{FirstInput, start_fingerprint};
pub(crate) use ids::check_session_id;
pub use ids::{
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, SUB_ORCH_AUTO_PREFIX, auto_child_id, build_child_instance_id,
    check_child_instance_id, check_instance_id, check_kv_key, check_name, check_payload,
    check_root_instance_id, check_version, is_auto_generated_sub_orch_id,
};
pub use kv_entry::KvEntry;
pub use node::{
    AcceptedTags, CapabilityRouting, HEARTBEATS_UNTIL_GONE, NodeInfo, NodeRecord, check_node_id,
    lock_holder_bits,
};
pub use open_work::{OpenWork, open_work};
pub use orchestration_status::OrchestrationStatus;
pub(crate) use retry::RecordedPolicy;
pub use retry::{BackoffStrategy, RetryPolicy};
pub use stats::SystemStats;
pub use sweep::{EndingRule, MissingCapability, Need, UnprocessableWork, missing_capability, sort_findings};
pub use unread::{carried_messages, unread_messages};
pub use version::{
    DispatcherCapabilityFilter, SemverRange, current_build_version, introduced_in, pack_version,
    pinned_version_of, raised_pin, unpack_version,
};
pub use work_item::{RetriedCall, WorkItem};
