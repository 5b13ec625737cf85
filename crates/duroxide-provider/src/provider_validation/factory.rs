//! What a store must bring along to be validated.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::ItemKind;

use crate::Provider;

/// Makes stores for the validations, and does to them what no provider method can do.
///
/// Each validation gets a factory of its own. The other methods are about the store that was created last.
#[async_trait]
pub trait ProviderFactory: Send + Sync {
    /// An empty store.
    async fn create_provider(&self) -> Arc<dyn Provider>;

    /// The lock timeout that the validations use. With a real clock they wait for it to pass.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How long a fetch that shall not wait may take at most.
    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// Makes an event of the instance's current history undecodable.
    async fn corrupt_instance_history(&self, instance: &str);

    /// The highest attempt count among the messages in the instance's inbox, 0 when it is empty.
    async fn get_max_attempt_count(&self, instance: &str) -> u32;

    /// Lets time pass for the store. A store with a clock of its own moves that clock; others really wait.
    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    /// Whether time passes by [`ProviderFactory::advance`] alone. Validations that need days, or the exact
    /// millisecond, are only made then.
    fn has_manual_clock(&self) -> bool {
        false
    }

    /// Makes the messages of this kind in the instance's inbox undecodable. `None` when the factory cannot.
    async fn corrupt_message(&self, _instance: &str, _kind: ItemKind) -> Option<()> {
        None
    }

    /// Makes the queued work items of the instance undecodable. `None` when the factory cannot.
    async fn corrupt_work_item(&self, _instance: &str) -> Option<()> {
        None
    }
}
