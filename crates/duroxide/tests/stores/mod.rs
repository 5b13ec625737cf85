//! The stores that are validated, each with a clock that the tests move.

#[cfg(feature = "sqlite")]
#[allow(dead_code, reason = "not every test file validates SQLite")]
pub(crate) mod sqlite;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::provider_validation::{ForwardingProvider, ProviderFactory};
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide_core::ItemKind;

/// A time after the epoch, so that differences to it are not mistaken for times.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// Stores in memory.
#[allow(dead_code, reason = "not every test file validates this store")]
pub(crate) struct MemoryFactory {
    clock: Arc<ManualClock>,
    store: Mutex<Option<Arc<MemoryProvider>>>,
}

impl Default for MemoryFactory {
    fn default() -> Self {
        Self { clock: Arc::new(ManualClock::new(BEGIN_MS)), store: Mutex::default() }
    }
}

#[allow(dead_code, reason = "not every test file validates this store")]
impl MemoryFactory {
    fn store(&self) -> Arc<MemoryProvider> {
        self.store.lock().expect("no panic while locked").clone().expect("a store was created")
    }
}

#[async_trait]
impl ProviderFactory for MemoryFactory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let store = Arc::new(MemoryProvider::with_clock(self.clock.clone()));
        *self.store.lock().expect("no panic while locked") = Some(store.clone());
        store
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        assert!(self.store().corrupt_history(instance), "'{instance}' has a history");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.store().max_attempt_count(instance)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn has_manual_clock(&self) -> bool {
        true
    }

    async fn corrupt_message(&self, instance: &str, kind: ItemKind) -> Option<()> {
        (self.store().corrupt_messages(instance, kind) > 0).then_some(())
    }

    async fn corrupt_work_item(&self, instance: &str) -> Option<()> {
        (self.store().corrupt_work(instance) > 0).then_some(())
    }
}

/// Another factory's stores, behind a wrapper that knows no extension.
#[allow(dead_code, reason = "not every test file forwards")]
pub(crate) struct Forwarded<F>(pub(crate) F);

#[async_trait]
impl<F: ProviderFactory> ProviderFactory for Forwarded<F> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(ForwardingProvider(self.0.create_provider().await))
    }

    fn lock_timeout(&self) -> Duration {
        self.0.lock_timeout()
    }

    fn short_poll_threshold(&self) -> Duration {
        self.0.short_poll_threshold()
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.0.corrupt_instance_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.0.get_max_attempt_count(instance).await
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    fn has_manual_clock(&self) -> bool {
        self.0.has_manual_clock()
    }

    async fn corrupt_message(&self, instance: &str, kind: ItemKind) -> Option<()> {
        self.0.corrupt_message(instance, kind).await
    }

    async fn corrupt_work_item(&self, instance: &str) -> Option<()> {
        self.0.corrupt_work_item(instance).await
    }
}
