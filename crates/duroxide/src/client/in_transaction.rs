//! Starting and sending inside a transaction of the caller.

use duroxide_core::WorkItem;

use super::send::{enqueue_item, raise_item, start_item};
use super::without_effect::{PlainCall, Sent};
use super::{Client, ClientError};
use crate::providers::CallerTransaction;

impl Client {
    /// Starts an instance when the caller's transaction commits, and not at all if it does not: a row of the
    /// caller's own tables and the start stand or fall together. If the id exists, nothing changes.
    ///
    /// The transaction comes from the store: see `within` of the SQLite and of the PostgreSQL store. If the call
    /// fails, the transaction should be rolled back.
    pub async fn start_orchestration_in(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        let start = start_item(instance.into(), name.into(), None, input.into())?;
        send(transaction, PlainCall::StartOrchestration, start).await
    }

    /// [`Self::start_orchestration_in`] of a given version.
    pub async fn start_orchestration_versioned_in(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        let start = start_item(instance.into(), name.into(), Some(version.into()), input.into())?;
        send(transaction, PlainCall::StartOrchestration, start).await
    }

    /// [`Self::raise_event`] when the caller's transaction commits.
    pub async fn raise_event_in(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        let message = raise_item(instance.into(), name.into(), data.into())?;
        send(transaction, PlainCall::RaiseEvent, message).await
    }

    /// [`Self::enqueue_event`] when the caller's transaction commits.
    pub async fn enqueue_event_in(
        &self,
        transaction: &impl CallerTransaction,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        let message = enqueue_item(instance.into(), queue.into(), data.into())?;
        send(transaction, PlainCall::EnqueueEvent, message).await
    }
}

/// Sends, and reports if that changed nothing.
async fn send(
    transaction: &impl CallerTransaction,
    call: PlainCall,
    item: WorkItem,
) -> Result<(), ClientError> {
    if !transaction.tells_outcomes() {
        return transaction.enqueue(item).await.map_err(ClientError::of_call);
    }
    let sent = Sent::of(call, &item);
    sent.report(&transaction.enqueue_checked(item).await.map_err(ClientError::of_call)?);
    Ok(())
}
