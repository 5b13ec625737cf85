//! The log lines of programs: what an orchestration or an activity writes with `trace_*`, with where it comes from.

use duroxide_core::{Event, EventKind, TraceLine};
use tracing::Level;

use super::activity_context::ActivityFacts;
use crate::providers::OrchestrationItem;

/// Which execution a turn belongs to, as logs name it.
#[derive(Debug, Clone)]
pub(super) struct TurnOf {
    pub(super) instance_id: String,
    pub(super) execution_id: u64,
    pub(super) orchestration_name: String,
    pub(super) orchestration_version: String,
    pub(super) fetched_at: tokio::time::Instant,
}

impl TurnOf {
    /// What is known before the turn runs. The version of a first turn is the one asked for, if any.
    pub(super) fn new(item: &OrchestrationItem) -> Self {
        let mut of = Self {
            instance_id: item.instance.clone(),
            execution_id: item.execution_id,
            orchestration_name: item.orchestration_name.clone(),
            orchestration_version: item.version.clone(),
            fetched_at: tokio::time::Instant::now(),
        };
        of.begun(&item.history);
        of
    }

    /// The orchestration's name and version as the execution began, if it begins with these events.
    pub(super) fn begun(&mut self, events: &[Event]) {
        if let Some(EventKind::OrchestrationStarted { name, version, .. }) =
            events.first().map(|event| &event.kind)
        {
            self.orchestration_name.clone_from(name);
            self.orchestration_version.clone_from(version);
        }
    }
}

/// Writes a line at a level that is only known now.
macro_rules! at_level {
    ($level:expr, $($line:tt)+) => {
        match $level {
            Level::ERROR => tracing::error!($($line)+),
            Level::WARN => tracing::warn!($($line)+),
            Level::DEBUG => tracing::debug!($($line)+),
            Level::TRACE => tracing::trace!($($line)+),
            _ => tracing::info!($($line)+),
        }
    };
}

/// Writes a line of an orchestration.
pub(super) fn of_orchestration(of: &TurnOf, worker_id: &str, line: &TraceLine) {
    at_level!(
        level(&line.level),
        target: "duroxide::orchestration",
        instance_id = %of.instance_id,
        execution_id = of.execution_id,
        orchestration_name = %of.orchestration_name,
        orchestration_version = %of.orchestration_version,
        worker_id = %worker_id,
        "{}",
        line.message
    );
}

/// Writes a line of an activity.
pub(super) fn of_activity(facts: &ActivityFacts, level: Level, message: &str) {
    at_level!(
        level,
        target: "duroxide::activity",
        instance_id = %facts.instance,
        execution_id = facts.execution_id,
        orchestration_name = %facts.orchestration_name,
        orchestration_version = %facts.orchestration_version,
        activity_name = %facts.name,
        activity_id = facts.activity_id,
        attempt = facts.attempt(),
        worker_id = %facts.worker_id,
        "{message}"
    );
}

/// The level that a program named; INFO for a word that is none.
pub(super) fn level(word: &str) -> Level {
    match word.to_ascii_lowercase().as_str() {
        "error" => Level::ERROR,
        "warn" | "warning" => Level::WARN,
        "debug" => Level::DEBUG,
        "trace" => Level::TRACE,
        _ => Level::INFO,
    }
}
