//! The state that an instance shows: custom status, KV store, size. Waiting is woken by the store.

use std::collections::HashMap;
use std::time::Duration;

use duroxide_core::{OrchestrationStatus, SystemStats, check_kv_key, kv_from_json};
use serde::de::DeserializeOwned;

use super::wait::Patience;
use super::{Client, ClientError};
use crate::providers::WaitUntil;

impl Client {
    /// Waits until the custom status has a later version than `last_seen_version`, and gives the status with it.
    ///
    /// Also returns when the instance has ended, since nothing changes then; [`ClientError::Timeout`] when neither
    /// happened in time. The store wakes the wait. `poll_interval` is how often to look all the same.
    pub async fn wait_for_status_change(
        &self,
        instance: &str,
        last_seen_version: u64,
        poll_interval: Duration,
        timeout: Duration,
    ) -> Result<OrchestrationStatus, ClientError> {
        let mut patience = Patience::new(timeout);
        loop {
            let left = patience.left();
            let slice = left.min(poll_interval.max(SHORTEST_SLICE));
            let changed = WaitUntil::CustomStatusAfter(last_seen_version);
            let seen = tokio::select! {
                biased;
                seen = self.provider.wait_for_instance(instance, changed, slice) => seen,
                seen = self.provider.wait_for_instance(instance, WaitUntil::Terminal, slice) => seen,
            };
            match seen {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if left.is_zero() => return Err(ClientError::Timeout),
                Ok(None) => {}
                Err(error) => patience.wait_out(error).await?,
            }
        }
    }

    /// One value of an instance's KV store; also of one that has ended.
    pub async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ClientError> {
        check_kv_key(key).map_err(ClientError::invalid)?;
        Ok(self.provider.get_kv_value(instance, key).await?)
    }

    /// [`Self::get_kv_value`] with a typed value. One of another type is [`ClientError::InvalidInput`] with a text
    /// that begins `KV deserialization error`.
    pub async fn get_kv_value_typed<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<T>, ClientError> {
        let found = self.get_kv_value(instance, key).await?;
        found.map(|json| kv_from_json(&json).map_err(ClientError::invalid)).transpose()
    }

    /// All values of an instance's KV store; empty for an unknown instance.
    pub async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ClientError> {
        Ok(self.provider.get_kv_all_values(instance).await?)
    }

    /// Waits until an instance's KV store has a value for the key, also before the instance is started.
    pub async fn wait_for_kv_value(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<String, ClientError> {
        // No instance can ever have such a value.
        check_kv_key(key).map_err(ClientError::invalid)?;
        let mut patience = Patience::new(timeout);
        loop {
            let until = WaitUntil::KvValue(key);
            let waited = match self.provider.wait_for_instance(instance, until, patience.left()).await {
                // It may have been cleared again since; then the wait goes on.
                Ok(Some(_)) => self.provider.get_kv_value(instance, key).await,
                Ok(None) => return Err(ClientError::Timeout),
                Err(error) => Err(error),
            };
            match waited {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(error) => patience.wait_out(error).await?,
            }
        }
    }

    /// [`Self::wait_for_kv_value`] with a typed value, like [`Self::get_kv_value_typed`].
    pub async fn wait_for_kv_value_typed<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let json = self.wait_for_kv_value(instance, key, timeout).await?;
        kv_from_json(&json).map_err(ClientError::invalid)
    }

    /// The size of an instance; `None` for an unknown one.
    pub async fn get_orchestration_stats(&self, instance: &str) -> Result<Option<SystemStats>, ClientError> {
        Ok(self.provider.get_instance_stats(instance).await?)
    }
}

/// A poll interval of zero must not become a loop without a pause.
const SHORTEST_SLICE: Duration = Duration::from_millis(10);
