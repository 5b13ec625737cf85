//! What became of a start or a message, as the transaction that carried it out knows it.

use std::time::Duration;

use duroxide_core::{
    FirstInput, INITIAL_EXECUTION_ID, ItemKind, OrchestrationStatus, WithoutInstance, WorkItem, columns_of,
    state_changes,
};

use super::{Provider, ProviderError, ProviderErrorKind};

/// What a start did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a start of an id that exists changes nothing"]
pub enum StartOutcome {
    /// It created the instance.
    Started,
    /// An instance has the id, running or ended. Nothing was changed.
    AlreadyExists {
        /// The orchestration of that instance.
        orchestration: String,
        /// Whether that instance was started with the same input. Later inputs, which it continued as new with, do
        /// not count. `false` also if the store no longer knows: the first execution was pruned, and the instance was
        /// started by a build that kept no fingerprint of its input.
        same_input: bool,
    },
}

/// What became of a message to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message may have reached no instance"]
pub enum SendOutcome {
    /// It is in the inbox of an instance that runs.
    Delivered,
    /// It is kept: for the start of an instance that does not exist yet, or for the redrive of one that failed of
    /// something that a fix can mend.
    Kept,
    /// No instance has the id. The message is gone.
    NotFound,
    /// The instance has ended. The message is gone.
    Ended,
}

/// What [`Provider::enqueue_checked`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an item may have changed nothing"]
pub enum Enqueued {
    /// The item was a start.
    Start(StartOutcome),
    /// The item was anything else.
    Message(SendOutcome),
}

impl Enqueued {
    /// What a start did.
    pub fn start(self) -> Result<StartOutcome, ProviderError> {
        match self {
            Self::Start(outcome) => Ok(outcome),
            Self::Message(outcome) => {
                Err(wrong_answer(&format!("a message ({outcome:?}) where a start was sent")))
            }
        }
    }

    /// What became of a message.
    pub fn message(self) -> Result<SendOutcome, ProviderError> {
        match self {
            Self::Message(outcome) => Ok(outcome),
            Self::Start(_) => Err(wrong_answer("a start where a message was sent")),
        }
    }
}

fn wrong_answer(what: &str) -> ProviderError {
    ProviderError::permanent("enqueue_checked", format!("the store answered about {what}"))
}

/// Where a store put an item, before it is asked about the instance that a start found.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// A start created its instance.
    Started,
    /// A start found an instance with its id.
    IdTaken,
    /// Anything else.
    Message(SendOutcome),
}

/// Enqueues by the plain call, and answers by what can be read before it.
///
/// Other clients may change the instance between the read and the call, so this answer may be outdated. The input of
/// an instance that has not begun cannot be read; it counts as another one.
pub async fn enqueue_and_read<P: Provider + ?Sized>(
    provider: &P,
    item: WorkItem,
    delay: Option<Duration>,
) -> Result<Enqueued, ProviderError> {
    let seen = provider.orchestration_status(item.instance()).await?;
    let kind = columns_of(&item).kind;
    let answer = match (seen, kind) {
        (OrchestrationStatus::NotFound, kind) => match kind.without_instance() {
            WithoutInstance::Create => Enqueued::Start(StartOutcome::Started),
            WithoutInstance::Keep => Enqueued::Message(SendOutcome::Kept),
            WithoutInstance::Drop => Enqueued::Message(SendOutcome::NotFound),
        },
        (_, ItemKind::Start) => Enqueued::Start(read_existing(provider, &item).await?),
        (OrchestrationStatus::Running { .. }, _) => Enqueued::Message(SendOutcome::Delivered),
        (OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }, _) => {
            Enqueued::Message(SendOutcome::Ended)
        }
    };
    provider.enqueue_for_orchestrator(item, delay).await?;
    Ok(answer)
}

/// The instance that has the id of a start, as far as it can be read.
async fn read_existing<P: Provider + ?Sized>(
    provider: &P,
    start: &WorkItem,
) -> Result<StartOutcome, ProviderError> {
    let instance = start.instance();
    let mut history = provider.read_with_execution(instance, INITIAL_EXECUTION_ID).await?;
    let same_input = FirstInput { started: history.first(), ..FirstInput::default() }.is_of(start);
    if history.is_empty() {
        // The first execution was pruned.
        history = provider.read(instance).await?;
    }
    let orchestration = match (state_changes(&history).began, provider.as_management_capability()) {
        (Some(began), _) => began.name.to_string(),
        (None, Some(admin)) => match admin.get_instance_info(instance).await {
            Ok(info) => info.orchestration_name,
            // It was deleted since the status was read.
            Err(error) if error.kind() == ProviderErrorKind::NotFound => return Ok(StartOutcome::Started),
            Err(error) => return Err(error),
        },
        (None, None) => String::new(),
    };
    Ok(StartOutcome::AlreadyExists { orchestration, same_input })
}
