//! Durable execution inside your process.

pub mod clock;
pub mod providers;

pub use duroxide_core::{
    AppErrorKind, ConfigErrorKind, DispatcherCapabilityFilter, ErrorDetails, Event, EventKind,
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, OrchestrationStatus, PoisonMessageType, SUB_ORCH_AUTO_PREFIX,
    SemverRange, build_child_instance_id, current_build_version, is_auto_generated_sub_orch_id,
};
