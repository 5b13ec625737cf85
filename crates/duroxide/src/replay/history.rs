//! A recorded history.

use duroxide_core::{Event, EventKind, current_build_version};
use serde::{Deserialize, Serialize};

use super::ReplayError;

/// What an instance has recorded, apart from any store: all of it in a file, or its current execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedHistory {
    pub(crate) orchestration: String,
    pub(crate) version: String,
    /// The build of duroxide that recorded it.
    pub(crate) duroxide_version: String,
    /// The events of each execution, the first one first.
    pub(crate) executions: Vec<Vec<Event>>,
}

impl RecordedHistory {
    /// The history of one execution, as
    /// [`Client::read_execution_history`](crate::Client::read_execution_history) gives it.
    pub fn of_execution(events: Vec<Event>) -> Result<Self, ReplayError> {
        let Some(EventKind::OrchestrationStarted { name, version, .. }) =
            events.first().map(|event| &event.kind)
        else {
            return Err(ReplayError::damaged("its first event is not a start"));
        };
        let (orchestration, version) = (name.clone(), version.clone());
        let duroxide_version = current_build_version().to_string();
        Ok(Self { orchestration, version, duroxide_version, executions: vec![events] })
    }

    /// The history that a file of the test kit holds.
    pub fn parse(json: &str) -> Result<Self, ReplayError> {
        let history: Self =
            serde_json::from_str(json).map_err(|error| ReplayError::damaged(error.to_string()))?;
        let Some(started) = history.executions.first().and_then(|events| events.first()) else {
            return Err(ReplayError::damaged("it has no events"));
        };
        let EventKind::OrchestrationStarted { name, .. } = &started.kind else {
            return Err(ReplayError::damaged("its first event is not a start"));
        };
        if *name != history.orchestration {
            return Err(ReplayError::damaged(format!(
                "its header says '{}', its first event '{name}'",
                history.orchestration
            )));
        }
        Ok(history)
    }
}
