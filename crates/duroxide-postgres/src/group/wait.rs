//! Waiting for an instance.

use std::time::Duration;

use duroxide_core::OrchestrationStatus;
use duroxide_provider::support::is_reached;
use duroxide_provider::{Provider as _, ProviderError, WaitUntil};

use crate::store::PostgresProvider;

impl PostgresProvider {
    /// Waits for an instance; `None` when the time is over.
    pub(crate) async fn wait(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        let registration = self.waiters.register(instance);
        let mut must_look = until != WaitUntil::Terminal;
        let wait = async {
            loop {
                // Before the read, so that no change falls between it and the wait.
                let change = registration.next_change();
                let mut ending = self.endings.expect(instance);
                // One whose turn is under way here has not ended. Who waits long looks all the same.
                if must_look || !self.memory.lock().holds(instance, self.manual()) {
                    let seen = self.orchestration_status(instance).await?;
                    if is_reached(self, instance, until, &seen).await? {
                        return Ok(seen);
                    }
                }
                // Woken by this process and by others; should that get lost, a look now and then.
                let change = tokio::time::timeout(self.patience(), change);
                tokio::select! {
                    biased;
                    Some(end) = ending.end(), if until == WaitUntil::Terminal => return Ok(end),
                    _ = change => must_look = true,
                }
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(reached) => reached.map(Some),
            Err(_) => Ok(None),
        }
    }
}
