//! A store in virtual time with nodes on it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::Clock;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::process::ProcessScope;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistryBuilder};
use duroxide::runtime::{Runtime, UnregisteredBackoffConfig};
use duroxide::{Client, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions};

use super::Faulty;

/// The time of a tokio runtime whose time is paused: the store and the runtime agree on it.
pub(crate) struct VirtualClock {
    epoch: tokio::time::Instant,
}

impl VirtualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { epoch: tokio::time::Instant::now() })
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        // Any fixed date will do; a small one would hide mistakes with zero.
        1_700_000_000_000 + u64::try_from(self.epoch.elapsed().as_millis()).expect("a test ends some day")
    }
}

/// A store in virtual time, the node on it, and a client.
pub(crate) struct World {
    pub(crate) memory: Arc<MemoryProvider>,
    pub(crate) store: Arc<Faulty>,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|faulty| faulty)
    }

    pub(crate) fn with(shape: impl FnOnce(Faulty) -> Faulty) -> Self {
        let memory = Arc::new(MemoryProvider::with_clock(VirtualClock::new()));
        let store = Arc::new(shape(Faulty::new(memory.clone())));
        let client = Client::new(store.clone());
        Self { memory, store, client }
    }

    pub(crate) async fn start(
        &self,
        activities: ActivityRegistryBuilder,
        orchestrations: OrchestrationRegistryBuilder,
        options: RuntimeOptions,
    ) -> Arc<Runtime> {
        Runtime::start_with_options(self.store.clone(), activities.build(), orchestrations.build(), options)
            .await
    }

    /// A node with a way to the store of its own, which may freeze without the client noticing.
    pub(crate) async fn start_apart(
        &self,
        activities: ActivityRegistryBuilder,
        orchestrations: OrchestrationRegistryBuilder,
        options: RuntimeOptions,
    ) -> (Arc<Runtime>, Arc<Faulty>) {
        let store = Arc::new(Faulty::new(self.memory.clone()));
        let runtime =
            Runtime::start_with_options(store.clone(), activities.build(), orchestrations.build(), options);
        (runtime.await, store)
    }

    /// The status of an instance once it has ended.
    pub(crate) async fn ended(&self, instance: &str) -> OrchestrationStatus {
        let waited = self.client.wait_for_orchestration(instance, Duration::from_secs(24 * 60 * 60)).await;
        waited.expect("the instance ends within a day")
    }

    pub(crate) async fn output(&self, instance: &str) -> String {
        let status = self.ended(instance).await;
        let OrchestrationStatus::Completed { output, .. } = status else {
            panic!("expected a completion, got {status:?}")
        };
        output
    }

    pub(crate) async fn failure(&self, instance: &str) -> duroxide::ErrorDetails {
        let status = self.ended(instance).await;
        let OrchestrationStatus::Failed { details, .. } = status else {
            panic!("expected a failure, got {status:?}")
        };
        details
    }
}

/// Options of a process of its own, with short backoffs.
pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions {
        process: ProcessScope::simulated(1),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(2),
        },
        ..RuntimeOptions::default()
    }
}

pub(crate) fn activities() -> ActivityRegistryBuilder {
    ActivityRegistry::builder()
}

pub(crate) fn orchestrations() -> OrchestrationRegistryBuilder {
    OrchestrationRegistry::builder()
}
