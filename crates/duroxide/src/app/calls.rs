//! Starting, raising and enqueuing by function and typed name.

use std::future::Future;

use duroxide_core::{
    AppError, EventName, FunctionName, OrchestrationParameter, QueueName, unnamed_orchestration,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{Duroxide, Run, RunError, StartError};
use crate::client::ClientError;
use crate::providers::{SendOutcome, StartOutcome};

impl Duroxide {
    /// Starts an orchestration, in the version of the function.
    ///
    /// If the id exists with the same orchestration and input, this attaches to it: [`Run::started`] tells. With another
    /// orchestration or input it is an error, and nothing changes.
    pub async fn start<F, C, In, Out, E, Fut>(
        &self,
        orchestration: F,
        instance: impl Into<String>,
        input: In,
    ) -> Result<Run<Out, E>, StartError>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
        In: Serialize,
    {
        drop(orchestration);
        let FunctionName { name, version } = self.name_of::<F>()?;
        let instance = instance.into();
        let version = version.as_deref().unwrap_or_default();
        let outcome = self
            .client
            .start_orchestration_versioned_typed_checked(&instance, &*name, version, input)
            .await?;
        let started = match outcome {
            StartOutcome::Started => true,
            StartOutcome::AlreadyExists { orchestration, same_input: true } if *orchestration == *name => {
                false
            }
            StartOutcome::AlreadyExists { orchestration, same_input } => {
                let existing = match (*orchestration == *name, same_input) {
                    (true, _) => format!("'{orchestration}' with another input"),
                    (false, _) => format!("'{orchestration}'"),
                };
                return Err(StartError::Exists {
                    instance,
                    existing,
                    asked: format!("'{name}' with this input"),
                });
            }
        };
        Ok(Run::new(self.client.clone(), instance, started))
    }

    /// Starts an orchestration and waits for its result.
    pub async fn run<F, C, In, Out, E, Fut>(
        &self,
        orchestration: F,
        instance: impl Into<String>,
        input: In,
    ) -> Result<Out, RunError<E>>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
        In: Serialize,
        Out: DeserializeOwned,
        E: AppError,
    {
        self.start(orchestration, instance, input).await?.result().await
    }

    /// An instance that exists, or will.
    pub fn handle<F, C, In, Out, E, Fut>(&self, orchestration: F, instance: impl Into<String>) -> Run<Out, E>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
    {
        drop(orchestration);
        Run::new(self.client.clone(), instance.into(), false)
    }

    /// Raises an event for an instance; tells whether it can receive it.
    pub async fn raise<T: Serialize>(
        &self,
        instance: impl Into<String>,
        event: EventName<T>,
        data: &T,
    ) -> Result<SendOutcome, ClientError> {
        self.client.raise_event_typed_checked(instance, event.name(), data).await
    }

    /// Puts a message into a queue of an instance; tells whether it can receive it.
    pub async fn enqueue<T: Serialize>(
        &self,
        instance: impl Into<String>,
        queue: QueueName<T>,
        data: &T,
    ) -> Result<SendOutcome, ClientError> {
        self.client.enqueue_event_typed_checked(instance, queue.name(), data).await
    }

    fn name_of<F: 'static>(&self) -> Result<FunctionName, StartError> {
        let named = self.names.orchestration::<F>().cloned();
        named.ok_or_else(|| StartError::NotNamed { message: unnamed_orchestration::<F>() })
    }
}
