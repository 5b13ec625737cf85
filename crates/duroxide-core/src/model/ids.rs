//! The rules for ids: executions, events, and the instances of children.

use super::limits;

/// The first execution of an instance.
pub const INITIAL_EXECUTION_ID: u64 = 1;
/// The id of `OrchestrationStarted`, the first event of every execution.
pub const INITIAL_EVENT_ID: u64 = 1;
/// What an id made for a child without one begins with, before its parent's id is put in front.
pub const SUB_ORCH_AUTO_PREFIX: &str = "sub::";
/// What stands between a parent's id and the rest of a generated child's id.
const SUB_ORCH_MARKER: &str = "::sub::";

/// Whether the id was made for a child that was scheduled without an id.
pub fn is_auto_generated_sub_orch_id(instance: &str) -> bool {
    instance.starts_with(SUB_ORCH_AUTO_PREFIX) || instance.contains(SUB_ORCH_MARKER)
}

/// The full id of a child: a generated one gets its parent's id in front, an explicit one stays as it is.
pub fn build_child_instance_id(parent: &str, child: &str) -> String {
    if child.starts_with(SUB_ORCH_AUTO_PREFIX) { format!("{parent}::{child}") } else { child.to_string() }
}

/// The generated id of the child that event `event_id` of `execution_id` schedules, without its parent's id.
pub fn auto_child_id(execution_id: u64, event_id: u64) -> String {
    if execution_id == INITIAL_EXECUTION_ID {
        format!("{SUB_ORCH_AUTO_PREFIX}{event_id}")
    } else {
        format!("{SUB_ORCH_AUTO_PREFIX}{execution_id}_{event_id}")
    }
}

/// Checks the id of a root or detached instance; the error says what would be right.
pub fn check_root_instance_id(instance: &str) -> Result<(), String> {
    check_id("instance id", instance, limits::MAX_INSTANCE_ID_BYTES)?;
    if is_auto_generated_sub_orch_id(instance) {
        return Err(format!(
            "instance id '{instance}' uses the reserved sub-orchestration marker: \
             it may not start with 'sub::' nor contain '::sub::'"
        ));
    }
    Ok(())
}

/// Checks the id of an instance that something is sent to: any that an instance can have, generated ones included.
pub fn check_instance_id(instance: &str) -> Result<(), String> {
    check_id("instance id", instance, limits::MAX_INSTANCE_ID_BYTES)
}

/// Checks the id that a program chose for a child.
pub fn check_child_instance_id(instance: &str) -> Result<(), String> {
    check_id("sub-orchestration instance id", instance, limits::MAX_INSTANCE_ID_BYTES)?;
    if is_auto_generated_sub_orch_id(instance) {
        return Err(format!(
            "sub-orchestration instance id '{instance}' contains the reserved marker: \
             it may not start with 'sub::' nor contain '::sub::'"
        ));
    }
    Ok(())
}

/// Checks a name: of an orchestration, an activity, an event or a queue.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    check_id(what, name, limits::MAX_NAME_BYTES)
}

/// Checks the size of an input, an output or an event's data.
pub fn check_payload(what: &str, payload: &str) -> Result<(), String> {
    if payload.len() > limits::MAX_PAYLOAD_BYTES {
        return Err(format!(
            "{what} ({} bytes) exceeds limit ({} bytes): store large data elsewhere and pass a reference",
            payload.len(),
            limits::MAX_PAYLOAD_BYTES
        ));
    }
    Ok(())
}

/// Checks a key of the KV store. It may be empty: it is the program's own.
pub fn check_kv_key(key: &str) -> Result<(), String> {
    if key.len() > limits::MAX_KV_KEY_BYTES {
        return Err(format!(
            "KV key size ({} bytes) exceeds limit ({} bytes)",
            key.len(),
            limits::MAX_KV_KEY_BYTES
        ));
    }
    if key.contains('\0') {
        return Err("KV key contains a NUL character: remove it".to_string());
    }
    Ok(())
}

/// Checks the session that an activity is to belong to.
pub(crate) fn check_session_id(activity: &str, session_id: &str) -> Result<(), String> {
    if session_id.len() > limits::MAX_SESSION_ID_BYTES {
        return Err(format!(
            "Activity '{activity}' session id size ({} bytes) exceeds limit ({} bytes)",
            session_id.len(),
            limits::MAX_SESSION_ID_BYTES
        ));
    }
    if session_id.contains('\0') {
        return Err(format!("the session id of activity '{activity}' contains a NUL character: remove it"));
    }
    Ok(())
}

/// Checks a version that a caller asks for.
pub fn check_version(version: &str) -> Result<semver::Version, String> {
    semver::Version::parse(version)
        .map_err(|cause| format!("version '{version}' is not valid semver ({cause}): write it like 1.2.3"))
}

fn check_id(what: &str, id: &str, max_bytes: usize) -> Result<(), String> {
    if id.trim().is_empty() {
        return Err(format!("{what} is empty: give at least one visible character"));
    }
    if id.len() > max_bytes {
        return Err(format!("{what} ({} bytes) exceeds limit ({max_bytes} bytes)", id.len()));
    }
    if id.contains('\0') {
        return Err(format!("{what} contains a NUL character: remove it"));
    }
    Ok(())
}
