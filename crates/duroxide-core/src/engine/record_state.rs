//! Recording what the program did to the state of its instance, and what it asks of others.

use std::sync::Arc;

use super::asking::KvQuestion;
use super::carry_out::{check_new, record};
use super::commands::KV_OF_INSTANCE;
use super::execution::{Execution, Pass, Stop};
use super::schedules::ScheduleKind;
use super::slot::Slot;
use crate::model::limits::{MAX_CUSTOM_STATUS_BYTES, MAX_INSTANCE_ID_BYTES, MAX_KV_KEYS, MAX_KV_VALUE_BYTES};
use crate::model::{EventKind, KvEntry, check_kv_key};

pub(super) fn set_custom_status(status: Option<String>, pass: &mut Pass<'_>) -> Result<(), Stop> {
    let bytes = status.as_ref().map_or(0, String::len);
    check_new(pass, || {
        if bytes > MAX_CUSTOM_STATUS_BYTES {
            return Err(format!(
                "Custom status size ({bytes} bytes) exceeds limit ({MAX_CUSTOM_STATUS_BYTES} bytes)"
            ));
        }
        Ok(())
    })?;
    record(pass, None, EventKind::CustomStatusUpdated { status })?;
    Ok(())
}

/// A key that was set can be removed, whatever the limits are today.
pub(super) fn clear_kv(key: String, was_set: bool, pass: &mut Pass<'_>) -> Result<(), Stop> {
    check_new(pass, || if was_set { Ok(()) } else { check_kv_key(&key) })?;
    record(pass, None, EventKind::KeyValueCleared { key })?;
    Ok(())
}

impl Execution {
    pub(super) fn set_kv(
        &mut self,
        key: String,
        entry: KvEntry,
        key_count: usize,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        check_new(pass, || check_kv(&key, &entry, key_count))?;
        let recorded_at = pass.tape.peek().and_then(|next| {
            if let EventKind::KeyValueSet { last_updated_at_ms, .. } = &next.kind {
                Some(*last_updated_at_ms)
            } else {
                None
            }
        });
        let KvEntry { value, last_updated_at_ms } = entry;
        if let Some(recorded_at) = recorded_at.filter(|at| *at != last_updated_at_ms) {
            // Only a history written by hand has another time than its turn.
            self.desk.view(|view| {
                if let Some(entry) = view.kv.get_mut(&key).filter(|entry| entry.value == value) {
                    entry.last_updated_at_ms = recorded_at;
                }
            });
        }
        record(pass, None, EventKind::KeyValueSet { key, value, last_updated_at_ms })?;
        Ok(())
    }

    /// A value of another instance: asked for and answered in the same turn, by whoever can read the store.
    pub(super) fn ask_for_kv(
        &mut self,
        slot: Arc<Slot>,
        instance: String,
        key: String,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        check_new(pass, || {
            if instance.len() > MAX_INSTANCE_ID_BYTES {
                return Err(format!(
                    "instance id ({} bytes) exceeds limit ({MAX_INSTANCE_ID_BYTES} bytes)",
                    instance.len()
                ));
            }
            check_kv_key(&key)
        })?;
        let kind = EventKind::ActivityScheduled {
            name: KV_OF_INSTANCE.to_string(),
            input: serde_json::json!({ "instance": instance, "key": key }).to_string(),
            session_id: None,
            tag: None,
        };
        let recorded = record(pass, None, kind)?;
        self.questions.insert(recorded.event_id, KvQuestion { instance, key });
        self.open(recorded, ScheduleKind::Activity, slot, String::new(), pass)
    }
}

fn check_kv(key: &str, entry: &KvEntry, key_count: usize) -> Result<(), String> {
    check_kv_key(key)?;
    let bytes = entry.value.len();
    if bytes > MAX_KV_VALUE_BYTES {
        return Err(format!(
            "KV value for key '{key}' ({bytes} bytes) exceeds limit ({MAX_KV_VALUE_BYTES} bytes)"
        ));
    }
    if key_count > MAX_KV_KEYS {
        return Err(format!("KV key count ({key_count}) exceeds limit ({MAX_KV_KEYS})"));
    }
    Ok(())
}
