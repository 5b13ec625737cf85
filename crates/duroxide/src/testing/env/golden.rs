//! Recorded histories in files, and their check against the registered code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide_core::{OrchestrationHandler, current_build_version};

use super::watched_handlers::{Recording, watched_orchestration};
use super::{TestEnv, mocks::AnyMock, watched::HandlerId};
use crate::providers::memory::{MemoryProvider, Stored};
use crate::replay::{BLESS_VARIABLE, RecordedHistory, ReplayError, replay_all};

impl RecordedHistory {
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
}

pub(super) fn replay_in(env: &TestEnv, history: &RecordedHistory) -> Result<(), ReplayError> {
    replay_all(history, |name, version| handler_of(env, name, version))
}

fn handler_of(env: &TestEnv, name: &str, version: &str) -> Option<Arc<dyn OrchestrationHandler>> {
    let handlers = env.handlers();
    let parsed = version.parse().ok()?;
    let is_mocked = matches!(
        env.watched().mock(&HandlerId::orchestration(name, version)),
        Some(AnyMock::Orchestration(_))
    );
    if !is_mocked {
        handlers.orchestrations.resolve_handler_exact(name, &parsed)?;
    }
    Some(Arc::new(watched_orchestration(&handlers, env.watched(), name, &parsed, Recording::Off)))
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

pub(super) fn write_file(path: &Path, history: &RecordedHistory) -> Result<(), ReplayError> {
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
    let checked = RecordedHistory::parse(&read(path)?).and_then(|history| {
        if history.orchestration != orchestration {
            return Err(ReplayError::OtherOrchestration {
                recorded: history.orchestration,
                expected: orchestration.to_string(),
            });
        }
        replay_in(env, &history)
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
        replay_in(self, &RecordedHistory::parse(history_json)?)
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
