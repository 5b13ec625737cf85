//! What a client sees of an instance, for stores that have the plain calls only.

use std::time::Duration;

use duroxide_core::{EventKind, OrchestrationStatus, status};

use super::{Provider, ProviderError, ProviderErrorKind, WaitUntil};

/// The status, from the history and the custom status.
pub(super) async fn read<P: Provider + ?Sized>(
    provider: &P,
    instance: &str,
) -> Result<OrchestrationStatus, ProviderError> {
    let (custom_status, custom_status_version) =
        provider.get_custom_status(instance, 0).await?.unwrap_or((None, 0));
    let history = provider.read(instance).await?;
    let running =
        OrchestrationStatus::Running { custom_status: custom_status.clone(), custom_status_version };
    let Some(last) = history.last() else {
        let Some(admin) = provider.as_management_capability() else {
            return Ok(OrchestrationStatus::NotFound);
        };
        return match admin.get_instance_info(instance).await {
            Ok(info) if info.status == status::RUNNING => Ok(running),
            // The turn that ended it was committed between the two reads.
            Ok(_) => Err(ProviderError::retryable(
                "orchestration_status",
                "the instance changed while it was read",
            )),
            Err(error) if error.kind() == ProviderErrorKind::NotFound => Ok(OrchestrationStatus::NotFound),
            Err(error) => Err(error),
        };
    };
    Ok(if let EventKind::OrchestrationCompleted { output } = &last.kind {
        OrchestrationStatus::Completed { output: output.clone(), custom_status, custom_status_version }
    } else if let EventKind::OrchestrationFailed { details } = &last.kind {
        OrchestrationStatus::Failed { details: details.clone(), custom_status, custom_status_version }
    } else {
        running
    })
}

/// Polls until the instance is as asked.
pub(super) async fn poll<P: Provider + ?Sized>(
    provider: &P,
    instance: &str,
    until: WaitUntil<'_>,
    timeout: Duration,
) -> Result<Option<OrchestrationStatus>, ProviderError> {
    // Only for stores without wake-ups: slow enough for a store, fast enough for a person.
    const POLL: Duration = Duration::from_millis(25);
    // A deadline that cannot be expressed lies beyond all that will be waited for.
    let deadline = tokio::time::Instant::now().checked_add(timeout);
    loop {
        let seen = provider.orchestration_status(instance).await?;
        if is_reached(provider, instance, until, &seen).await? {
            return Ok(Some(seen));
        }
        let left =
            deadline.map_or(POLL, |deadline| deadline.saturating_duration_since(tokio::time::Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        tokio::time::sleep(POLL.min(left)).await;
    }
}

/// Whether what a client waits for has happened, given the status just read.
#[doc(hidden)]
pub async fn is_reached<P: Provider + ?Sized>(
    provider: &P,
    instance: &str,
    until: WaitUntil<'_>,
    seen: &OrchestrationStatus,
) -> Result<bool, ProviderError> {
    Ok(match until {
        WaitUntil::Terminal => seen.is_terminal(),
        WaitUntil::CustomStatusAfter(version) => match seen {
            OrchestrationStatus::NotFound => false,
            OrchestrationStatus::Running { custom_status_version, .. }
            | OrchestrationStatus::Completed { custom_status_version, .. }
            | OrchestrationStatus::Failed { custom_status_version, .. } => *custom_status_version > version,
        },
        WaitUntil::KvValue(key) => provider.get_kv_value(instance, key).await?.is_some(),
    })
}
