//! Recorded histories in files, and their check against the registered code.

use std::path::{Path, PathBuf};

use duroxide_core::{Event, EventKind, current_build_version};
use serde::{Deserialize, Serialize};

use super::TestEnv;
use super::replay::replay_all;
use crate::providers::memory::{MemoryProvider, Stored};

/// The variable that lets files be written.
const BLESS_VARIABLE: &str = "DUROXIDE_BLESS";

/// Why a recorded history is not replayed by the registered code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The instance does not exist, or has not begun.
    #[error("instance '{instance}' has no history")]
    NoHistory {
        /// The instance.
        instance: String,
    },
    /// The file cannot be read.
    #[error("cannot read '{path}': {cause}; {BLESS_VARIABLE}=1 writes the history of this run")]
    Missing {
        /// The file.
        path: String,
        /// What the system says.
        cause: String,
    },
    /// The file cannot be written.
    #[error("cannot write '{path}': {cause}")]
    NotWritten {
        /// The file.
        path: String,
        /// What the system says.
        cause: String,
    },
    /// It is not a recorded history.
    #[error("it is not a recorded history: {cause}")]
    Damaged {
        /// What is wrong with it.
        cause: String,
    },
    /// It is the history of another orchestration.
    #[error("it is a history of orchestration '{recorded}', and not of '{expected}'")]
    OtherOrchestration {
        /// The orchestration of the history.
        recorded: String,
        /// The orchestration of the test.
        expected: String,
    },
    /// The program does not have its orchestration.
    #[error("orchestration '{orchestration}' version {version} is not registered in this program")]
    NotRegistered {
        /// The name.
        orchestration: String,
        /// The version.
        version: String,
    },
    /// The code does something other than what the history says.
    #[error("the code does not replay the history after event {after_event}: {diff}")]
    Mismatch {
        /// The last event of the prefix that was replayed.
        after_event: u64,
        /// The event, what was recorded, what the code does now, and the fields that differ.
        diff: String,
    },
    /// Files of a directory are not replayed.
    #[error("{}", failures.join("\n"))]
    Files {
        /// Each file, and why.
        failures: Vec<String>,
    },
}

impl ReplayError {
    pub(super) fn damaged(cause: impl Into<String>) -> Self {
        Self::Damaged { cause: cause.into() }
    }

    /// The same, as the problem of a file.
    fn in_file(self, path: &Path) -> Self {
        match self {
            named @ (Self::Missing { .. } | Self::NotWritten { .. } | Self::Files { .. }) => named,
            other @ (Self::NoHistory { .. }
            | Self::Damaged { .. }
            | Self::OtherOrchestration { .. }
            | Self::NotRegistered { .. }
            | Self::Mismatch { .. }) => {
                Self::Files { failures: vec![format!("'{}': {other}", path.display())] }
            }
        }
    }
}

/// A history as it stands in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) orchestration: String,
    pub(super) version: String,
    /// The build of duroxide that recorded it.
    duroxide_version: String,
    /// The events of each execution, the first one first.
    pub(super) executions: Vec<Vec<Event>>,
}

impl History {
    /// What a store holds of an instance.
    pub(super) fn of(store: &MemoryProvider, instance: &str) -> Result<Self, ReplayError> {
        let no_history = || ReplayError::NoHistory { instance: instance.to_string() };
        let mut snapshot = store.snapshot();
        let found = snapshot.instances.remove(instance).ok_or_else(no_history)?;
        let mut executions = Vec::new();
        for execution in found.executions.into_values() {
            let mut events = Vec::new();
            for event in execution.events {
                match event {
                    Stored::Value(event) => events.push(event),
                    Stored::Undecodable { cause } => return Err(ReplayError::damaged(cause)),
                }
            }
            // The next execution may not have begun.
            if !events.is_empty() {
                executions.push(events);
            }
        }
        if executions.is_empty() {
            return Err(no_history());
        }
        let duroxide_version = current_build_version().to_string();
        Ok(Self { orchestration: found.name, version: found.version, duroxide_version, executions })
    }

    fn parse(json: &str) -> Result<Self, ReplayError> {
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

/// What a test does with a golden file.
pub(super) enum GoldenMode {
    Check,
    Bless,
}

impl GoldenMode {
    pub(super) fn of_environment() -> Self {
        match std::env::var(BLESS_VARIABLE).as_deref() {
            Ok("" | "0") | Err(_) => Self::Check,
            Ok(_) => Self::Bless,
        }
    }
}

/// A relative path begins at the package that is tested, wherever the test was started.
fn absolute(path: &Path) -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => Path::new(&package).join(path),
        None => path.to_path_buf(),
    }
}

fn read(path: &Path) -> Result<String, ReplayError> {
    let absolute = absolute(path);
    std::fs::read_to_string(&absolute).map_err(|error| ReplayError::Missing {
        path: absolute.display().to_string(),
        cause: error.to_string(),
    })
}

pub(super) fn write_file(path: &Path, history: &History) -> Result<(), ReplayError> {
    let absolute = absolute(path);
    let not_written = |cause: String| ReplayError::NotWritten { path: absolute.display().to_string(), cause };
    let json = serde_json::to_string_pretty(history).map_err(|error| not_written(error.to_string()))?;
    if let Some(directory) = absolute.parent() {
        std::fs::create_dir_all(directory).map_err(|error| not_written(error.to_string()))?;
    }
    std::fs::write(&absolute, json + "\n").map_err(|error| not_written(error.to_string()))
}

/// Checks that the code of an environment replays the history of a file, which is one of this orchestration.
pub(super) fn check_file(env: &TestEnv, path: &Path, orchestration: &str) -> Result<(), ReplayError> {
    let checked = History::parse(&read(path)?).and_then(|history| {
        if history.orchestration != orchestration {
            return Err(ReplayError::OtherOrchestration {
                recorded: history.orchestration,
                expected: orchestration.to_string(),
            });
        }
        replay_all(env, &history)
    });
    checked.map_err(|error| error.in_file(path))
}

/// Checks that the code that attributes have registered replays a recorded history, given as JSON.
pub fn replay(history_json: &str) -> Result<(), ReplayError> {
    TestEnv::new(TestEnv::builder()).replay(history_json)
}

/// Checks that the code that attributes have registered replays every history (`*.json`) of a directory.
pub fn replay_dir(directory: impl AsRef<Path>) -> Result<(), ReplayError> {
    TestEnv::new(TestEnv::builder()).replay_dir(directory)
}

impl TestEnv {
    /// Checks that the code of this environment replays a recorded history, given as JSON.
    pub fn replay(&self, history_json: &str) -> Result<(), ReplayError> {
        replay_all(self, &History::parse(history_json)?)
    }

    /// Checks that the code of this environment replays every history (`*.json`) of a directory. All that are not replayed are
    /// in the error. A directory without histories is an error.
    pub fn replay_dir(&self, directory: impl AsRef<Path>) -> Result<(), ReplayError> {
        let directory = absolute(directory.as_ref());
        let missing = |cause: String| ReplayError::Missing { path: directory.display().to_string(), cause };
        let entries = std::fs::read_dir(&directory).map_err(|error| missing(error.to_string()))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| missing(error.to_string()))?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        if paths.is_empty() {
            return Err(missing("it has no *.json".to_string()));
        }
        let mut failures = Vec::new();
        for path in paths {
            if let Err(error) = read(&path).and_then(|json| self.replay(&json)) {
                failures.push(format!("'{}': {error}", path.display()));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(ReplayError::Files { failures }) }
    }
}
