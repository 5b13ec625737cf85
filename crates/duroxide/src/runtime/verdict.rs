//! What to do with a fetched instance, before any of its code runs.
//!
//! Order of checks: cancel, poison, version, handler.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::limits::MAX_POISON_MESSAGE_BYTES;
use duroxide_core::{
    ConfigErrorKind, ErrorDetails, Event, EventKind, ItemKind, OrchestrationHandler, PoisonMessageType,
    WorkItem, columns_of, pinned_version_of,
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
    /// End it without its code.
    End(ErrorDetails),
    /// Cancel it without its code.
    Cancel { reason: String },
    /// Give it back for a while.
    GiveBack { delay: Duration },
}

/// What stands in the way of running the code.
enum Obstacle {
    Undecodable(String),
    Incompatible { pinned: Version },
    Unregistered { name: String, version: Option<String> },
    NoStart,
}

/// Decides about an instance that is not held in memory, or is worn out.
pub(super) fn decide(node: &Node, item: &OrchestrationItem, attempts: u32) -> Verdict {
    let found = find_handler(node, item);
    let worn_out = attempts > node.options.max_attempts;
    if (worn_out || found.is_err())
        && let Some(reason) = cancel_reason(&item.messages)
    {
        return Verdict::Cancel { reason };
    }
    match found {
        Ok((handler, version)) if !worn_out => Verdict::Run { handler, version },
        Ok(_) => Verdict::End(poison(item, attempts, node.options.max_attempts)),
        Err(obstacle) if worn_out => Verdict::End(obstacle.into_error(node, item, attempts)),
        Err(obstacle) => Verdict::GiveBack { delay: obstacle.report(node, item, attempts) },
    }
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
                    supported_range = %supported(node),
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

    fn into_error(self, node: &Node, item: &OrchestrationItem, attempts: u32) -> ErrorDetails {
        match self {
            Self::Incompatible { pinned } => ErrorDetails::Configuration {
                kind: ConfigErrorKind::UnsupportedReplayVersion,
                resource: item.orchestration_name.clone(),
                message: Some(format!(
                    "the execution is pinned to {pinned}, this node replays {}",
                    supported(node)
                )),
            },
            Self::Undecodable(error) => ErrorDetails::Poison {
                attempt_count: attempts,
                max_attempts: node.options.max_attempts,
                message_type: PoisonMessageType::FailedDeserialization {
                    instance: item.instance.clone(),
                    execution_id: item.execution_id,
                    error,
                },
                message: poison_message(&item.messages),
            },
            Self::Unregistered { .. } | Self::NoStart => poison(item, attempts, node.options.max_attempts),
        }
    }
}

fn supported(node: &Node) -> String {
    let ranges = &node.filter.supported_duroxide_versions;
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

pub(super) fn poison(item: &OrchestrationItem, attempts: u32, max_attempts: u32) -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count: attempts,
        max_attempts,
        message_type: PoisonMessageType::Orchestration {
            instance: item.instance.clone(),
            execution_id: item.execution_id,
        },
        message: poison_message(&item.messages),
    }
}

/// The whole messages as a JSON array, oldest first, up to a limit, then a count of the rest.
fn poison_message(messages: &[WorkItem]) -> String {
    let mut text = String::from("[");
    for (index, message) in messages.iter().enumerate() {
        let json = serde_json::to_string(message).expect("work items hold only strings and numbers");
        if text.len() + json.len() > MAX_POISON_MESSAGE_BYTES {
            let comma = if index > 0 { "," } else { "" };
            text.push_str(&format!("{comma}{{\"more\":{}}}", messages.len() - index));
            break;
        }
        if index > 0 {
            text.push(',');
        }
        text.push_str(&json);
    }
    text + "]"
}
