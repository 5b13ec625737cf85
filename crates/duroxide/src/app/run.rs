//! One instance of an orchestration, to wait for and to send to.

use std::marker::PhantomData;
use std::time::Duration;

use duroxide_core::{
    AppError, CallError, Event, EventName, OrchestrationStatus, QueueName, RecordedFailure, decode_as,
};
use serde::{Serialize, de::DeserializeOwned};

use super::RunError;
use crate::client::{Client, ClientError};
use crate::providers::SendOutcome;

/// One instance of an orchestration with its types. Cheap to clone.
pub struct Run<T, E> {
    client: Client,
    instance: String,
    started: bool,
    types: PhantomData<fn() -> (T, E)>,
}

impl<T, E> Run<T, E> {
    pub(super) fn new(client: Client, instance: String, started: bool) -> Self {
        Self { client, instance, started, types: PhantomData }
    }

    /// The id of the instance.
    pub fn id(&self) -> &str {
        &self.instance
    }

    /// Whether this handle started it; false if the instance was there before.
    pub fn started(&self) -> bool {
        self.started
    }

    /// What it is doing.
    pub async fn status(&self) -> Result<OrchestrationStatus, ClientError> {
        self.client.get_orchestration_status(&self.instance).await
    }

    /// Cancels it: it ends as cancelled, with the reason, and so do its children.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<SendOutcome, ClientError> {
        self.client.cancel_instance_checked(&self.instance, reason).await
    }

    /// Raises an event for it; tells whether it can receive it.
    pub async fn raise<D: Serialize>(
        &self,
        event: EventName<D>,
        data: &D,
    ) -> Result<SendOutcome, ClientError> {
        self.client.raise_event_typed_checked(&self.instance, event.name(), data).await
    }

    /// Puts a message into one of its queues; tells whether it can receive it.
    pub async fn enqueue<D: Serialize>(
        &self,
        queue: QueueName<D>,
        data: &D,
    ) -> Result<SendOutcome, ClientError> {
        self.client.enqueue_event_typed_checked(&self.instance, queue.name(), data).await
    }

    /// The history of its current execution.
    pub async fn history(&self) -> Result<Vec<Event>, ClientError> {
        let info = self.client.get_instance_info(&self.instance).await?;
        self.client.read_execution_history(&self.instance, info.current_execution_id).await
    }
}

impl<T: DeserializeOwned, E: AppError> Run<T, E> {
    /// Waits until it has ended, for as long as that takes.
    pub async fn result(&self) -> Result<T, RunError<E>> {
        self.result_within(Duration::MAX).await
    }

    /// Waits until it has ended, for so long at most.
    pub async fn result_within(&self, limit: Duration) -> Result<T, RunError<E>> {
        let status = match self.client.wait_for_orchestration(&self.instance, limit).await {
            Ok(status) => status,
            Err(ClientError::Timeout) => return Err(self.not_ended(limit).await?),
            Err(error) => return Err(error.into()),
        };
        match status {
            OrchestrationStatus::Completed { output, .. } => {
                decode_as(format_args!("output of instance '{}'", self.instance), &output)
                    .map_err(|message| CallError::Other { message }.into())
            }
            OrchestrationStatus::Failed { details, .. } => {
                let failure = self.client.get_failure(&self.instance).await?;
                let failure = failure.unwrap_or(RecordedFailure { details, error: None });
                Err(CallError::from_details(&failure.details, failure.error.as_deref()).into())
            }
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
                Err(self.not_ended(limit).await?)
            }
        }
    }

    async fn not_ended(&self, waited: Duration) -> Result<RunError<E>, ClientError> {
        let instance = self.instance.clone();
        Ok(match self.status().await? {
            OrchestrationStatus::NotFound => RunError::NotFound { instance },
            OrchestrationStatus::Running { .. }
            | OrchestrationStatus::Completed { .. }
            | OrchestrationStatus::Failed { .. } => RunError::NotEnded { instance, waited },
        })
    }
}

impl<T, E> Clone for Run<T, E> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone(), self.instance.clone(), self.started)
    }
}

impl<T, E> std::fmt::Debug for Run<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.instance)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}
