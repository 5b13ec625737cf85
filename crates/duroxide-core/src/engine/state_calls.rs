//! The context's calls about the state of the instance: custom status, KV store, size.

use serde::{Serialize, de::DeserializeOwned};

use super::commands::{Command, Schedule};
use super::{DurableFuture, OrchestrationContext};
use crate::model::{KvEntry, SystemStats, kv_from_json, kv_to_json};

impl OrchestrationContext {
    // ---- Custom status ----

    /// Sets the custom status, which clients see with a version that grows by one each time.
    #[track_caller]
    pub fn set_custom_status(&self, status: impl Into<String>) {
        self.change_custom_status(Some(status.into()));
    }

    /// Takes the custom status back. That is a change too and has a version of its own.
    #[track_caller]
    pub fn reset_custom_status(&self) {
        self.change_custom_status(None);
    }

    /// The custom status; the one of the previous execution until this one sets it.
    pub fn get_custom_status(&self) -> Option<String> {
        self.desk.view(|view| view.custom_status.clone())
    }

    #[track_caller]
    fn change_custom_status(&self, status: Option<String>) {
        self.desk.change(|view, commands| {
            view.custom_status.clone_from(&status);
            commands.push(Command::SetCustomStatus { status });
        });
    }

    // ---- KV store ----

    /// Sets a value of the instance's KV store. It survives continue-as-new and the end of the instance.
    #[track_caller]
    pub fn set_kv_value(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        self.desk.change(|view, commands| {
            let entry = KvEntry { value, last_updated_at_ms: view.now_ms };
            view.set(key.clone(), entry.clone());
            commands.push(Command::SetKv { key, entry, key_count: view.kv.len() });
        });
    }

    /// A value of the instance's KV store, with all that was set before.
    pub fn get_kv_value(&self, key: &str) -> Option<String> {
        self.desk.view(|view| view.kv.get(key).map(|entry| entry.value.clone()))
    }

    /// [`Self::set_kv_value`] with a typed value, stored as JSON. A value without a JSON form fails the
    /// orchestration.
    #[track_caller]
    pub fn set_kv_value_typed<T: Serialize + ?Sized>(&self, key: impl Into<String>, value: &T) {
        match kv_to_json(value) {
            Ok(json) => self.set_kv_value(key, json),
            Err(message) => self.desk.push(Command::Violate { message }),
        }
    }

    /// [`Self::get_kv_value`] with a typed value. An error begins `KV deserialization error`.
    pub fn get_kv_value_typed<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        self.get_kv_value(key).map(|json| self.behaviour().decode_kv(&json)).transpose()
    }

    /// All values of the instance's KV store. For a loop whose order matters use [`Self::get_kv_all_keys`].
    #[expect(clippy::disallowed_types, reason = "the signature is fixed; the engine itself keeps a BTreeMap")]
    pub fn get_kv_all_values(&self) -> std::collections::HashMap<String, String> {
        self.desk.view(|view| view.kv.iter().map(|(key, entry)| (key.clone(), entry.value.clone())).collect())
    }

    /// All keys of the instance's KV store, in their order.
    pub fn get_kv_all_keys(&self) -> Vec<String> {
        self.desk.view(|view| view.kv.keys().cloned().collect())
    }

    /// The number of keys in the instance's KV store.
    pub fn get_kv_length(&self) -> usize {
        self.desk.view(|view| view.kv.len())
    }

    /// Removes a value of the instance's KV store.
    #[track_caller]
    pub fn clear_kv_value(&self, key: impl Into<String>) {
        let key = key.into();
        self.desk.change(|view, commands| {
            let was_set = view.kv.contains_key(&key);
            view.clear(&key);
            commands.push(Command::ClearKv { key, was_set });
        });
    }

    /// Empties the instance's KV store.
    #[track_caller]
    pub fn clear_all_kv_values(&self) {
        self.desk.change(|view, commands| {
            view.clear_all();
            commands.push(Command::ClearAllKv);
        });
    }

    /// Removes the values that were last set before `updated_before_ms`, and says how many. A value's time is that
    /// of the turn that set it, as it is recorded; a replay finds the same.
    #[track_caller]
    pub fn prune_kv_values_updated_before(&self, updated_before_ms: u64) -> usize {
        self.desk.change(|view, commands| {
            let is_old = |entry: &KvEntry| entry.last_updated_at_ms < updated_before_ms;
            let old: Vec<String> =
                view.kv.iter().filter(|(_, entry)| is_old(entry)).map(|(key, _)| key.clone()).collect();
            for key in &old {
                view.clear(key);
                commands.push(Command::ClearKv { key: key.clone(), was_set: true });
            }
            old.len()
        })
    }

    /// A committed value in the KV store of any instance, as of the turn that asks; the same at every replay.
    /// `None` where the instance or the key does not exist.
    #[track_caller]
    pub fn get_kv_value_from_instance(
        &self,
        instance: impl Into<String>,
        key: impl Into<String>,
    ) -> DurableFuture<Result<Option<String>, String>> {
        self.schedule(Schedule::KvOf { instance: instance.into(), key: key.into() }, |result| {
            kv_from_json(&result?)
        })
    }

    /// [`Self::get_kv_value_from_instance`] with a typed value. An error begins `KV deserialization error` if
    /// the value is of another type.
    #[track_caller]
    pub fn get_kv_value_from_instance_typed<T: DeserializeOwned + 'static>(
        &self,
        instance: impl Into<String>,
        key: impl Into<String>,
    ) -> DurableFuture<Result<Option<T>, String>> {
        let behaviour = self.behaviour();
        self.get_kv_value_from_instance(instance, key)
            .map(move |found| found?.map(|json| behaviour.decode_kv(&json)).transpose())
    }

    // ---- Size ----

    /// How large the instance is, the same at every replay: the history up to where the program was last resumed,
    /// what has arrived and not been read, and the KV store as it is now. Always `Some`.
    #[track_caller]
    pub fn get_system_stats(&self) -> Option<SystemStats> {
        Some(self.desk.view(|view| view.stats()))
    }
}
