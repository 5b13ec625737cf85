//! The contract on this store: with its extensions, and behind a wrapper that knows none.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::ItemKind;

use super::RowStore;
use crate::Provider;
use crate::clock::ManualClock;
use crate::provider_validation::{ForwardingProvider, ProviderFactory};

/// Stores on a clock that the tests move.
struct Factory {
    clock: Arc<ManualClock>,
    store: Mutex<Option<Arc<RowStore>>>,
    wrapped: Wrapped,
}

#[derive(PartialEq, Eq)]
enum Wrapped {
    No,
    /// Behind a wrapper that forwards the plain calls alone.
    Forwarded,
}

impl Factory {
    fn new(wrapped: Wrapped) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        Self { clock, store: Mutex::default(), wrapped }
    }

    fn store(&self) -> Arc<RowStore> {
        self.store.lock().expect("no panic while locked").clone().expect("a store was created")
    }
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let store = Arc::new(RowStore::with_clock_and_seed(self.clock.clone(), 1));
        *self.store.lock().expect("no panic while locked") = Some(store.clone());
        match self.wrapped {
            Wrapped::No => store,
            Wrapped::Forwarded => Arc::new(ForwardingProvider(store)),
        }
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        assert_eq!(self.store().corrupt_history(instance), 1, "'{instance}' has a history");
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

mod with_extensions {
    use super::{Factory, Wrapped};

    crate::provider_validation_tests!(Factory::new(Wrapped::No));
}

mod plain {
    use super::{Factory, Wrapped};

    crate::provider_validation_tests!(Factory::new(Wrapped::Forwarded));
}
