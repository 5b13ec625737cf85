//! Starting instances and sending to them. Once a call returned `Ok`, it is kept.

use duroxide_core::{
    INITIAL_EXECUTION_ID, WorkItem, check_instance_id, check_name, check_payload, check_root_instance_id,
    check_version, encode,
};
use serde::Serialize;

use super::without_effect::{PlainCall, Sent};
use super::{Client, ClientError};

impl Client {
    /// Starts an instance. If the id exists, nothing changes.
    pub async fn start_orchestration(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.start(instance.into(), name.into(), None, input.into()).await
    }

    /// [`Self::start_orchestration`] with typed input.
    pub async fn start_orchestration_typed<In: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: In,
    ) -> Result<(), ClientError> {
        let input = encode(&input).map_err(ClientError::invalid)?;
        self.start(instance.into(), name.into(), None, input).await
    }

    /// Starts an instance of a given version.
    pub async fn start_orchestration_versioned(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.start(instance.into(), name.into(), Some(version.into()), input.into()).await
    }

    /// [`Self::start_orchestration_versioned`] with typed input.
    pub async fn start_orchestration_versioned_typed<In: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: In,
    ) -> Result<(), ClientError> {
        let input = encode(&input).map_err(ClientError::invalid)?;
        self.start(instance.into(), name.into(), Some(version.into()), input).await
    }

    async fn start(
        &self,
        instance: String,
        name: String,
        version: Option<String>,
        input: String,
    ) -> Result<(), ClientError> {
        self.send(PlainCall::StartOrchestration, start_item(instance, name, version, input)?).await
    }

    /// Raises an event for the Nth wait of its name. It is kept if it comes before the wait or the start.
    pub async fn raise_event(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.send(PlainCall::RaiseEvent, raise_item(instance.into(), name.into(), data.into())?).await
    }

    /// [`Self::raise_event`] with typed data.
    pub async fn raise_event_typed<T: Serialize>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: &T,
    ) -> Result<(), ClientError> {
        self.raise_event(instance, name, encode(data).map_err(ClientError::invalid)?).await
    }

    /// Puts a message into a queue of an instance. It is kept if it comes before the start.
    pub async fn enqueue_event(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.send(PlainCall::EnqueueEvent, enqueue_item(instance.into(), queue.into(), data.into())?).await
    }

    /// [`Self::enqueue_event`] with typed data.
    pub async fn enqueue_event_typed<T: Serialize>(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: &T,
    ) -> Result<(), ClientError> {
        self.enqueue_event(instance, queue, encode(data).map_err(ClientError::invalid)?).await
    }

    /// The older name of [`Self::enqueue_event`].
    #[deprecated(note = "use enqueue_event")]
    pub async fn raise_event_persistent(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.enqueue_event(instance, queue, data).await
    }

    /// Cancels an instance: it ends as failed, with the reason, and so do its children.
    pub async fn cancel_instance(
        &self,
        instance: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.send(PlainCall::CancelInstance, cancel_item(instance.into(), reason.into())?).await
    }

    /// Sends, and reports if that changed nothing. A store that would have to read for the answer is not asked for it.
    async fn send(&self, call: PlainCall, item: WorkItem) -> Result<(), ClientError> {
        if !self.provider.tells_outcomes() {
            return self.provider.enqueue_for_orchestrator(item, None).await.map_err(ClientError::of_call);
        }
        let sent = Sent::of(call, &item);
        sent.report(&self.provider.enqueue_checked(item, None).await.map_err(ClientError::of_call)?);
        Ok(())
    }
}

fn check_event(instance: &str, what: &str, name: &str, data: &str) -> Result<(), ClientError> {
    check_instance_id(instance)
        .and_then(|()| check_name(what, name))
        .and_then(|()| check_payload("event data", data))
        .map_err(ClientError::invalid)
}

/// The message of an event, checked.
pub(super) fn raise_item(instance: String, name: String, data: String) -> Result<WorkItem, ClientError> {
    check_event(&instance, "event name", &name, &data)?;
    Ok(WorkItem::ExternalRaised { instance, name, data })
}

/// The message for a queue, checked.
pub(super) fn enqueue_item(instance: String, queue: String, data: String) -> Result<WorkItem, ClientError> {
    check_event(&instance, "queue name", &queue, &data)?;
    Ok(WorkItem::QueueMessage { instance, name: queue, data })
}

/// The message of a cancel, checked.
pub(super) fn cancel_item(instance: String, reason: String) -> Result<WorkItem, ClientError> {
    check_instance_id(&instance)
        .and_then(|()| check_payload("cancel reason", &reason))
        .map_err(ClientError::invalid)?;
    Ok(WorkItem::CancelInstance { instance, reason })
}

/// The message of a start, checked.
pub(super) fn start_item(
    instance: String,
    name: String,
    version: Option<String>,
    input: String,
) -> Result<WorkItem, ClientError> {
    check_root_instance_id(&instance)
        .and_then(|()| check_name("orchestration name", &name))
        .and_then(|()| check_payload("orchestration input", &input))
        .and_then(|()| version.as_deref().map_or(Ok(()), |version| check_version(version).map(drop)))
        .map_err(ClientError::invalid)?;
    Ok(WorkItem::StartOrchestration {
        instance,
        orchestration: name,
        input,
        version,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    })
}
