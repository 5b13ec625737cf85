//! Seeing what became of an instance. Waiting is woken by the store, not polling.

use std::time::Duration;

use duroxide_core::{OrchestrationStatus, RecordedFailure, decode_as};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Client, ClientError};
use crate::providers::{ProviderError, WaitUntil};

/// What stands for a wait without end.
const FAR_AHEAD: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// How long a wait pauses when the store cannot be reached, at first; it doubles with every failure.
const FIRST_OUTAGE_PAUSE: Duration = Duration::from_millis(50);
/// How often it doubles: to a second and a half.
const OUTAGE_PAUSE_DOUBLINGS: u32 = 5;

/// The failure, and the error before it.
const LAST_EVENTS_OF_A_FAILURE: u32 = 2;

/// How long a wait goes on.
pub(super) struct Patience {
    deadline: Instant,
    failures: u32,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Self {
        // A deadline that cannot be expressed lies beyond all that will be waited for.
        let far = || Instant::now() + FAR_AHEAD;
        Self { deadline: Instant::now().checked_add(timeout).unwrap_or_else(far), failures: 0 }
    }

    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Pauses after an error that may pass; gives it back if it will not, or if there is no time left.
    pub(super) async fn wait_out(&mut self, error: ProviderError) -> Result<(), ClientError> {
        if error.is_retryable() && self.left() > FIRST_OUTAGE_PAUSE {
            let pause = FIRST_OUTAGE_PAUSE * (1 << self.failures.min(OUTAGE_PAUSE_DOUBLINGS));
            self.failures = self.failures.saturating_add(1);
            tokio::time::sleep(pause.min(self.left())).await;
            return Ok(());
        }
        Err(error.into())
    }
}

impl Client {
    /// The status of an instance; `NotFound` for an unknown id.
    pub async fn get_orchestration_status(&self, instance: &str) -> Result<OrchestrationStatus, ClientError> {
        Ok(self.provider.orchestration_status(instance).await?)
    }

    /// How an instance failed, with the error that its program recorded; `None` for one that has not failed, or that
    /// does not exist. Reads the last events of its history, never all of it.
    pub async fn get_failure(&self, instance: &str) -> Result<Option<RecordedFailure>, ClientError> {
        let last = self.provider.last_events(instance, LAST_EVENTS_OF_A_FAILURE).await?;
        Ok(RecordedFailure::at_end_of(&last))
    }

    /// Waits until an instance has ended; gives a terminal status or [`ClientError::Timeout`].
    ///
    /// A store that cannot be reached for a while is waited out.
    pub async fn wait_for_orchestration(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<OrchestrationStatus, ClientError> {
        let mut patience = Patience::new(timeout);
        loop {
            match self.provider.wait_for_instance(instance, WaitUntil::Terminal, patience.left()).await {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => return Err(ClientError::Timeout),
                Err(error) => patience.wait_out(error).await?,
            }
        }
    }

    /// Waits until an instance has ended and decodes its output. The outer error is the client's, the inner
    /// one the orchestration's.
    pub async fn wait_for_orchestration_typed<Out: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Result<Out, String>, ClientError> {
        match self.wait_for_orchestration(instance, timeout).await? {
            OrchestrationStatus::Completed { output, .. } => {
                Ok(decode_as("output of the orchestration", &output))
            }
            OrchestrationStatus::Failed { details, .. } => Ok(Err(details.display_message())),
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => Err(ClientError::Timeout),
        }
    }
}
