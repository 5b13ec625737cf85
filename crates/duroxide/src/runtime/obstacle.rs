//! What stands in the way of running the next turn of an instance on this node.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    BounceCause, Event, EventKind, ItemKind, OrchestrationHandler, Route, columns_of, pinned_version_of,
};
use semver::Version;

use super::give_back::bounced;
use super::node::Node;
use super::verdict::AttemptCount;
use crate::metric;
use crate::providers::{GiveBack, OrchestrationItem};

/// How long an execution that this node does not replay is left to others.
const INCOMPATIBLE_DELAY: Duration = Duration::from_secs(1);

/// What stands in the way of running the code.
pub(super) enum Obstacle {
    Undecodable(String),
    Incompatible { pinned: Version },
    Unregistered { name: String, version: Option<String> },
    NoStart,
}

/// The handler of the next turn, and its version.
pub(super) type Found = (Arc<dyn OrchestrationHandler>, String);

/// The handler of the next turn of an instance, or what keeps this node from running it.
pub(super) fn find_handler(node: &Node, item: &OrchestrationItem) -> Result<Found, Obstacle> {
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

impl Obstacle {
    /// How the instance is left to other nodes.
    pub(super) fn bounce(&self, node: &Node, item: &OrchestrationItem, count: AttemptCount) -> GiveBack {
        let mut how = bounced(node, count, self.cause(node));
        if let Self::Incompatible { .. } = self {
            how.delay = Some(INCOMPATIBLE_DELAY);
        }
        self.report(node, item, count, how.delay.unwrap_or_default());
        how
    }

    /// Logs and counts it.
    fn report(&self, node: &Node, item: &OrchestrationItem, count: AttemptCount, backoff: Duration) {
        let AttemptCount { counted: attempts, max: max_attempts } = count;
        let remaining = count.remaining();
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
            }
            Self::NoStart => {
                tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, "no start among the messages");
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
