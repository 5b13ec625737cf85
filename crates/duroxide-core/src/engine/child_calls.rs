//! Starting other orchestrations by name, as children and detached, and the next execution.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::{Serialize, de::DeserializeOwned};

use super::behaviour::OutputOf;
use super::commands::{Command, Schedule};
use super::context::{Text, decode_result};
use super::{DurableFuture, OrchestrationContext};
use crate::model::{check_child_instance_id, check_version, encode};

impl OrchestrationContext {
    // ---- Children ----

    /// Runs another orchestration as a child and waits for its result.
    #[track_caller]
    pub fn schedule_sub_orchestration(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), None, None, input.into())
    }

    /// A child with an id of its own.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), None, Some(instance.into()), input.into())
    }

    /// A child of a given version; `None` leaves it to the version policy.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), version, None, input.into())
    }

    /// A child of a given version with an id of its own.
    #[track_caller]
    pub fn schedule_sub_orchestration_versioned_with_id(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Text> {
        self.child_by_name(name.into(), version, Some(instance.into()), input.into())
    }

    /// A child with typed input and output.
    #[track_caller]
    pub fn schedule_sub_orchestration_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), OutputOf::child(name.clone()));
        match self.encode(input) {
            Ok(input) => self.schedule_sub_orchestration(name, input).map(output),
            Err(cause) => DurableFuture::refused(cause, false, output),
        }
    }

    /// A child with an id of its own and typed input and output.
    #[track_caller]
    pub fn schedule_sub_orchestration_with_id_typed<In: Serialize, Out: DeserializeOwned + 'static>(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        let name = name.into();
        let output = decode_result(self.behaviour(), OutputOf::child(name.clone()));
        match self.encode(input) {
            Ok(input) => self.schedule_sub_orchestration_with_id(name, instance, input).map(output),
            Err(cause) => DurableFuture::refused(cause, false, output),
        }
    }

    #[track_caller]
    pub(super) fn child_by_name(
        &self,
        name: String,
        version: Option<String>,
        instance: Option<String>,
        input: String,
    ) -> DurableFuture<Text> {
        // Both checks depend on the arguments alone, so a replay finds the same without a record.
        let checked = instance
            .as_deref()
            .map_or(Ok(()), check_child_instance_id)
            .and_then(|()| version.as_deref().map_or(Ok(()), |version| check_version(version).map(drop)));
        match checked {
            Ok(()) => self.schedule(Schedule::Child { name, version, instance, input }, |result| result),
            Err(cause) => DurableFuture::refused(cause, false, |result| result),
        }
    }

    // ---- Detached starts ----

    /// Starts an instance and does not wait for it. If the id exists, nothing happens.
    #[track_caller]
    pub fn schedule_orchestration(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.schedule_orchestration_versioned(name, None, instance, input);
    }

    /// [`Self::schedule_orchestration`] with typed input.
    #[track_caller]
    pub fn schedule_orchestration_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        self.schedule_orchestration_versioned_typed(name, None, instance, input);
    }

    /// Starts an instance of a given version and does not wait for it.
    #[track_caller]
    pub fn schedule_orchestration_versioned(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: impl Into<String>,
    ) {
        self.desk.push(Command::Detach {
            name: name.into(),
            version,
            instance: instance.into(),
            input: input.into(),
        });
    }

    /// [`Self::schedule_orchestration_versioned`] with typed input.
    #[track_caller]
    pub fn schedule_orchestration_versioned_typed<In: Serialize>(
        &self,
        name: impl Into<String>,
        version: Option<String>,
        instance: impl Into<String>,
        input: &In,
    ) {
        match self.encode(input) {
            Ok(input) => self.schedule_orchestration_versioned(name, version, instance, input),
            Err(message) => self.desk.push(Command::Violate { message }),
        }
    }

    // ---- The next execution ----

    /// Ends this execution and starts the next one of the same instance with a fresh history.
    ///
    /// Takes effect when called, also without `.await`; the future never resolves.
    #[track_caller]
    pub fn continue_as_new(&self, input: impl Into<String>) -> ContinuedAsNew {
        self.next_execution(input.into(), None)
    }

    /// [`Self::continue_as_new`] with typed input.
    #[track_caller]
    pub fn continue_as_new_typed<In: Serialize>(&self, input: &In) -> ContinuedAsNew {
        match encode(input) {
            Ok(input) => self.next_execution(input, None),
            Err(message) => {
                self.desk.push(Command::Violate { message });
                ContinuedAsNew
            }
        }
    }

    /// [`Self::continue_as_new`] as another version.
    #[track_caller]
    pub fn continue_as_new_versioned(
        &self,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> ContinuedAsNew {
        self.next_execution(input.into(), Some(version.into()))
    }

    #[track_caller]
    pub(super) fn next_execution(&self, input: String, version: Option<String>) -> ContinuedAsNew {
        self.desk.change(|view, commands| {
            let custom_status = view.custom_status.clone();
            commands.push(Command::ContinueAsNew { input, version, custom_status });
        });
        ContinuedAsNew
    }
}

/// What `continue_as_new` returns: never resolves, because the execution ends where it was called.
///
/// It may be dropped without being awaited.
#[derive(Debug)]
pub struct ContinuedAsNew;

impl Future for ContinuedAsNew {
    type Output = Text;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Text> {
        Poll::Pending
    }
}
