//! Starting and sending by calls that tell what became of it.
//!
//! Each is its plain sibling with another answer. With a store of this project the answer is the one of the
//! transaction that did it; see [`Provider::enqueue_checked`](crate::providers::Provider::enqueue_checked) for others.

use duroxide_core::{WorkItem, encode};
use serde::Serialize;

use super::send::{cancel_item, enqueue_item, raise_item, start_item};
use super::{Client, ClientError};
use crate::providers::{CallerTransaction, SendOutcome, StartOutcome};

impl Client {
    /// [`Self::start_orchestration`], and tells whether the instance was started.
    ///
    /// To repeat a start is safe: the second one is told that the instance exists with the same input, whatever
    /// became of it since.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let store = std::sync::Arc::new(duroxide::providers::memory::MemoryProvider::new());
    /// use duroxide::{Client, StartOutcome};
    ///
    /// let client = Client::new(store);
    /// let first = client.start_orchestration_checked("order-1", "Order", "3 apples").await.unwrap();
    /// assert_eq!(first, StartOutcome::Started);
    /// let other = client.start_orchestration_checked("order-1", "Order", "4 pears").await.unwrap();
    /// assert_eq!(
    ///     other,
    ///     StartOutcome::AlreadyExists { orchestration: "Order".to_string(), same_input: false }
    /// );
    /// # });
    /// ```
    pub async fn start_orchestration_checked(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<StartOutcome, ClientError> {
        self.start_checked(start_item(instance.into(), name.into(), None, input.into())?).await
    }

    /// [`Self::start_orchestration_checked`] with typed input.
    pub async fn start_orchestration_typed_checked<In: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: In,
    ) -> Result<StartOutcome, ClientError> {
        let input = encode(&input).map_err(ClientError::invalid)?;
        self.start_checked(start_item(instance.into(), name.into(), None, input)?).await
    }

    /// [`Self::start_orchestration_checked`] of a given version. The outcome does not tell versions apart: a start that
    /// is repeated by a program that was upgraded meanwhile finds its own instance.
    pub async fn start_orchestration_versioned_checked(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<StartOutcome, ClientError> {
        let version = Some(version.into());
        self.start_checked(start_item(instance.into(), name.into(), version, input.into())?).await
    }

    /// [`Self::start_orchestration_versioned_checked`] with typed input.
    pub async fn start_orchestration_versioned_typed_checked<In: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: In,
    ) -> Result<StartOutcome, ClientError> {
        let input = encode(&input).map_err(ClientError::invalid)?;
        self.start_checked(start_item(instance.into(), name.into(), Some(version.into()), input)?).await
    }

    /// [`Self::raise_event`], and tells whether an instance can receive it.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let store = std::sync::Arc::new(duroxide::providers::memory::MemoryProvider::new());
    /// use duroxide::{Client, SendOutcome};
    ///
    /// let client = Client::new(store);
    /// let early = client.raise_event_checked("order-1", "paid", "").await.unwrap();
    /// assert_eq!(early, SendOutcome::Kept);
    /// let cancelled = client.cancel_instance_checked("order-2", "out of stock").await.unwrap();
    /// assert_eq!(cancelled, SendOutcome::NotFound);
    /// # });
    /// ```
    pub async fn raise_event_checked(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<SendOutcome, ClientError> {
        self.send_checked(raise_item(instance.into(), name.into(), data.into())?).await
    }

    /// [`Self::raise_event_checked`] with typed data.
    pub async fn raise_event_typed_checked<T: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: &T,
    ) -> Result<SendOutcome, ClientError> {
        self.raise_event_checked(instance, name, encode(data).map_err(ClientError::invalid)?).await
    }

    /// [`Self::enqueue_event`], and tells whether an instance can receive it.
    pub async fn enqueue_event_checked(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<SendOutcome, ClientError> {
        self.send_checked(enqueue_item(instance.into(), queue.into(), data.into())?).await
    }

    /// [`Self::enqueue_event_checked`] with typed data.
    pub async fn enqueue_event_typed_checked<T: Serialize>(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: &T,
    ) -> Result<SendOutcome, ClientError> {
        self.enqueue_event_checked(instance, queue, encode(data).map_err(ClientError::invalid)?).await
    }

    /// [`Self::cancel_instance`], and tells whether there was something to cancel. A cancel is never
    /// [`SendOutcome::Kept`].
    pub async fn cancel_instance_checked(
        &self,
        instance: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<SendOutcome, ClientError> {
        self.send_checked(cancel_item(instance.into(), reason.into())?).await
    }

    async fn start_checked(&self, start: WorkItem) -> Result<StartOutcome, ClientError> {
        Ok(self.provider.enqueue_checked(start, None).await.map_err(ClientError::of_call)?.start()?)
    }

    async fn send_checked(&self, message: WorkItem) -> Result<SendOutcome, ClientError> {
        Ok(self.provider.enqueue_checked(message, None).await.map_err(ClientError::of_call)?.message()?)
    }

    /// [`Self::start_orchestration_in`], and tells whether the instance is started. The outcome holds once the caller
    /// commits.
    pub async fn start_orchestration_in_checked(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<StartOutcome, ClientError> {
        let start = start_item(instance.into(), name.into(), None, input.into())?;
        Ok(transaction.enqueue_checked(start).await.map_err(ClientError::of_call)?.start()?)
    }

    /// [`Self::start_orchestration_in_checked`] of a given version.
    pub async fn start_orchestration_versioned_in_checked(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<StartOutcome, ClientError> {
        let start = start_item(instance.into(), name.into(), Some(version.into()), input.into())?;
        Ok(transaction.enqueue_checked(start).await.map_err(ClientError::of_call)?.start()?)
    }

    /// [`Self::raise_event_in`], and tells whether an instance can receive it once the caller commits.
    pub async fn raise_event_in_checked(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<SendOutcome, ClientError> {
        let message = raise_item(instance.into(), name.into(), data.into())?;
        Ok(transaction.enqueue_checked(message).await.map_err(ClientError::of_call)?.message()?)
    }

    /// [`Self::enqueue_event_in`], and tells whether an instance can receive it once the caller commits.
    pub async fn enqueue_event_in_checked(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<SendOutcome, ClientError> {
        let message = enqueue_item(instance.into(), queue.into(), data.into())?;
        Ok(transaction.enqueue_checked(message).await.map_err(ClientError::of_call)?.message()?)
    }
}
