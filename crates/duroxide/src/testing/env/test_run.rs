//! One instance under test.

use std::ops::Deref;
use std::path::Path;

use duroxide_core::AppError;
use serde::de::DeserializeOwned;

use super::TestEnv;
use super::golden::{GoldenMode, check_file, replay_in, write_file};
use super::pace::{Goal, Reached};
use super::waits::waits_of;
use crate::app::{Run, RunError};
use crate::replay::RecordedHistory;

/// One instance under test. Derefs to [`Run`].
pub struct TestRun<T, E> {
    env: TestEnv,
    run: Run<T, E>,
}

impl<T, E> TestRun<T, E> {
    pub(super) fn new(env: TestEnv, run: Run<T, E>) -> Self {
        Self { env, run }
    }

    /// Replays the program from every prefix of its history with the registered code. Past 200 turns some are left out.
    ///
    /// # Panics
    /// When the code does something other than what the history says: with the event, the field that differs and what the code
    /// asks for now.
    #[track_caller]
    pub fn assert_replays(&self) {
        let checked = self.recorded().and_then(|history| replay_in(&self.env, &history));
        if let Err(error) = checked {
            panic!("instance '{}': {error}", self.id());
        }
    }

    /// Checks that the registered code still replays the history in this file. With `DUROXIDE_BLESS=1` in the environment, the
    /// history of this run is written to the file instead. A relative path begins at the package.
    pub fn golden(&self, path: impl AsRef<Path>) -> crate::Result<()> {
        match GoldenMode::of_environment() {
            GoldenMode::Bless => self.bless(path),
            GoldenMode::Check => {
                let recorded = self.recorded()?;
                Ok(check_file(&self.env, path.as_ref(), &recorded.orchestration)?)
            }
        }
    }

    /// Writes the history of this run to the file, as [`Self::golden`] does with `DUROXIDE_BLESS=1`.
    pub fn bless(&self, path: impl AsRef<Path>) -> crate::Result<()> {
        Ok(write_file(path.as_ref(), &self.recorded()?)?)
    }

    fn recorded(&self) -> Result<RecordedHistory, super::ReplayError> {
        RecordedHistory::of(self.env.store(), self.id())
    }
}

impl<T: DeserializeOwned, E: AppError> TestRun<T, E> {
    /// Waits until the instance has ended. Time jumps whenever the program waits for nothing else. If the program waits for an
    /// event that no one has raised, this is [`RunError::Stuck`] at once.
    ///
    /// # Panics
    /// When the program cannot go on: a function without a handler, a history that does not fit the code.
    pub async fn result(&self) -> Result<T, RunError<E>> {
        let instance = self.id().to_string();
        match self.env.reach(Goal::EndOf(&instance)).await {
            Reached::Yes => self.run.result().await,
            Reached::Stuck if self.env.store().inspect(&instance, |_| ()).is_none() => {
                Err(RunError::NotFound { instance })
            }
            Reached::Stuck => {
                let waits_for = waits_of(self.env.store(), &instance);
                Err(RunError::Stuck { instance, waits_for })
            }
        }
    }
}

impl<T, E> Deref for TestRun<T, E> {
    type Target = Run<T, E>;

    fn deref(&self) -> &Run<T, E> {
        &self.run
    }
}

impl<T, E> Clone for TestRun<T, E> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), run: self.run.clone() }
    }
}

impl<T, E> std::fmt::Debug for TestRun<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TestRun").field(&self.run).finish()
    }
}
