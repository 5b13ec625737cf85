//! What to do with a fetched instance, before any of its code runs.
//!
//! Order of checks: cancel, poison, version, handler.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    BounceCause, Event, EventKind, ItemKind, OrchestrationHandler, Route, WorkItem, cancel_ends_at_once,
    columns_of, pinned_version_of,
};
use semver::Version;

use super::node::Node;
use crate::metric;
use crate::providers::OrchestrationItem;

/// How long an execution that this node does not replay is left to others.
const INCOMPATIBLE_DELAY: Duration = Duration::from_secs(1);

/// What to do with a fetched instance.
pub(super) enum Verdict {
    /// Run its code.
    Run { handler: Arc<dyn OrchestrationHandler>, version: String },
    /// End it without its code. Something may stand in the way of running it.
    End(Option<Obstacle>),
    /// Cancel it without its code.
    Cancel { reason: String },
    /// Give it back for a while.
    GiveBack { delay: Duration, cause: BounceCause },
}

/// What stands in the way of running the code.
pub(super) enum Obstacle {
    Undecodable(String),
    Incompatible { pinned: Version },
    Unregistered { name: String, version: Option<String> },
    NoStart,
}

/// Decides about an instance that is not held in memory, or is worn out.
pub(super) fn decide(node: &Node, item: &OrchestrationItem, attempts: u32) -> Verdict {
    let found = find_handler(node, item);
    let worn_out = attempts > node.options.max_attempts;
    // Only the code of an execution can undo what it did.
    let needs_code = !item.history.is_empty() && !cancel_ends_at_once(&item.history);
    if (worn_out || (found.is_err() && !needs_code))
        && let Some(reason) = cancel_reason(&item.messages)
    {
        return Verdict::Cancel { reason };
    }
    match found {
        Ok((handler, version)) if !worn_out => Verdict::Run { handler, version },
        Ok(_) => Verdict::End(None),
        Err(obstacle) if worn_out => Verdict::End(Some(obstacle)),
        Err(obstacle) => {
            Verdict::GiveBack { delay: obstacle.report(node, item, attempts), cause: obstacle.cause(node) }
        }
    }
}

/// What keeps this node from running the next turn of an instance.
pub(super) fn obstacle(node: &Node, item: &OrchestrationItem) -> Option<Obstacle> {
    find_handler(node, item).err()
}

type Found = (Arc<dyn OrchestrationHandler>, String);

fn find_handler(node: &Node, item: &OrchestrationItem) -> Result<Found, Obstacle> {
    if let Some(error) = &item.history_error {
        return Err(Obstacle::Undecodable(error.clone()));
    }
    let (name, version) = match item.history.first() {
        Some(started) => {
            check_version(node, &item.history)?;
            started_as(started)?
        }
        None => asked_for(item).ok_or(Obstacle::NoStart)?,
    };
    let registry = &node.orchestrations;
    let found = match &version {
        None => registry.resolve_handler(&name).map(|(version, handler)| (handler, version.to_string())),
        Some(text) => Version::parse(text)
            .ok()
            .and_then(|version| registry.resolve_handler_exact(&name, &version))
            .map(|handler| (handler, text.clone())),
    };
    found.ok_or(Obstacle::Unregistered { name, version })
}

fn check_version(node: &Node, history: &[Event]) -> Result<(), Obstacle> {
    match pinned_version_of(history) {
        Some(pinned) if !node.filter.is_compatible(&pinned) => Err(Obstacle::Incompatible { pinned }),
        Some(_) | None => Ok(()),
    }
}

fn started_as(started: &Event) -> Result<(String, Option<String>), Obstacle> {
    if let EventKind::OrchestrationStarted { name, version, .. } = &started.kind {
        Ok((name.clone(), Some(version.clone())))
    } else {
        Err(Obstacle::Undecodable("event at position 1: not a start".to_string()))
    }
}

fn asked_for(item: &OrchestrationItem) -> Option<(String, Option<String>)> {
    let start = item
        .messages
        .iter()
        .find(|message| matches!(columns_of(message).kind, ItemKind::Start | ItemKind::ContinueAsNew))?;
    let columns = columns_of(start);
    Some((columns.name?.to_string(), columns.version.map(str::to_string)))
}

pub(super) fn cancel_reason(messages: &[WorkItem]) -> Option<String> {
    messages.iter().find_map(|message| {
        if let WorkItem::CancelInstance { reason, .. } = message { Some(reason.clone()) } else { None }
    })
}

impl Obstacle {
    /// Logs and counts it; how long to leave the instance to other nodes.
    fn report(&self, node: &Node, item: &OrchestrationItem, attempts: u32) -> Duration {
        let max_attempts = node.options.max_attempts;
        let remaining = max_attempts.saturating_sub(attempts);
        let backoff = node.options.unregistered_backoff.delay(attempts);
        match self {
            Self::Incompatible { pinned } => {
                metric::incompatible_version_abandoned().increment(1);
                tracing::warn!(
                    target: "duroxide::runtime",
                    instance = %item.instance,
                    instance_id = %item.instance,
                    execution_id = item.execution_id,
                    orchestration_name = %item.orchestration_name,
                    pinned_version = %pinned,
                    supported_range = %node.replayed_versions(),
                    "execution is pinned to a version that this node does not replay; giving it back"
                );
                INCOMPATIBLE_DELAY
            }
            Self::Unregistered { name, version } => {
                node.counters.unregistered_orch_backoff.increment();
                metric::unregistered_orch_backoff(node.orchestration_label(name)).increment(1);
                tracing::warn!(
                    target: "duroxide::runtime",
                    instance = %item.instance,
                    orchestration_name = %name,
                    version = %version.as_deref().unwrap_or("latest"),
                    instance_id = %item.instance,
                    execution_id = item.execution_id,
                    attempt_count = attempts,
                    max_attempts,
                    remaining_attempts = remaining,
                    backoff_secs = backoff.as_secs_f32(),
                    "Orchestration not registered, abandoning with {:.1}s backoff (will poison in {remaining} more attempts)",
                    backoff.as_secs_f32()
                );
                backoff
            }
            Self::Undecodable(error) => {
                tracing::warn!(
                    target: "duroxide::runtime",
                    instance_id = %item.instance,
                    execution_id = item.execution_id,
                    orchestration_name = %item.orchestration_name,
                    %error,
                    attempt_count = attempts,
                    remaining_attempts = remaining,
                    "stored rows of the instance cannot be decoded; giving it back"
                );
                backoff
            }
            Self::NoStart => {
                tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, "no start among the messages");
                backoff
            }
        }
    }

    /// What is kept with an instance that is given back for it.
    pub(super) fn cause(&self, node: &Node) -> BounceCause {
        match self {
            Self::Undecodable(error) => BounceCause::Undecodable { error: error.clone() },
            Self::Incompatible { pinned } => BounceCause::VersionNotReplayed {
                pinned: pinned.to_string(),
                supported: node.replayed_versions(),
            },
            Self::Unregistered { name, version } => {
                BounceCause::OrchestrationNotRegistered { name: name.clone(), version: version.clone() }
            }
            Self::NoStart => BounceCause::NoStart,
        }
    }

    /// The handler that is needed, as far as it is known.
    pub(super) fn route(&self) -> Route {
        match self {
            Self::Unregistered { name, version } => Route::new(name, version.as_deref()),
            Self::Undecodable(_) | Self::Incompatible { .. } | Self::NoStart => Route::AnyNode,
        }
    }
}
