//! Starting this binary again as a process that runs what a store holds, until it is killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::{CapabilityRouting, Client, RuntimeOptions, TagFilter};

use super::activities::activities;
use super::phase::Phase;
use super::programs::orchestrations;
use super::upgraded::{with_activities, with_orchestrations, workload};

/// The test that does its work only in a child.
const JOB: &str = "worker_process";
const PHASE: &str = "DUROXIDE_TEST_PHASE";
const STORE: &str = "DUROXIDE_TEST_STORE";
const DIRECTORY: &str = "DUROXIDE_TEST_DIRECTORY";

/// A process that does not outlive the test that started it.
pub(crate) struct Worker {
    child: Child,
    said: tempfile::NamedTempFile,
}

impl Worker {
    /// Starts this binary as a worker on a store; the directory is for what its activities write down.
    pub(crate) fn start(phase: Phase, store: &str, directory: &Path) -> Self {
        let binary = std::env::current_exe().expect("a test has a path");
        Self::start_of(&binary, phase, store, directory)
    }

    /// The same with the binary of another build.
    pub(crate) fn start_of(binary: &Path, phase: Phase, store: &str, directory: &Path) -> Self {
        let said = tempfile::NamedTempFile::new().expect("a file for what it says");
        let child = Command::new(binary)
            .args(["--exact", JOB, "--nocapture", "--test-threads=1"])
            .env(PHASE, phase.word())
            .env(STORE, store)
            .env(DIRECTORY, directory)
            .envs(crate::store::environment())
            .stdout(Stdio::null())
            .stderr(said.reopen().expect("it opens"))
            .spawn();
        Self { child: child.expect("the binary can be started"), said }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_some()
    }

    /// What it has written to its error stream.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.said.path()).expect("it is text")
    }

    /// Ends it, as a crash does.
    pub(crate) fn kill(&mut self) {
        // It may be gone already, and the test may be failing: nothing to do about either.
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Works in this process until it is killed, if it is a worker.
pub(crate) async fn work() {
    let Some(job) = job() else { return };
    let store = crate::store::open(&job.store, None).await;
    let node = node(store.clone(), job.phase, &job.directory).await;
    if job.phase == Phase::Together {
        let client = Client::new(store);
        let started = workload::start_some(&client).await;
        workload::cancel_and_wait(&client, &started).await;
    }
    std::future::pending::<()>().await;
    drop(node);
}

/// What a process was started for.
struct Job {
    phase: Phase,
    store: String,
    directory: PathBuf,
}

/// The job of this process, if it is a worker.
fn job() -> Option<Job> {
    let phase = std::env::var(PHASE).ok()?;
    let store = std::env::var(STORE).expect("set with the phase");
    let directory = std::env::var_os(DIRECTORY).expect("set with the phase").into();
    Some(Job { phase: Phase::of_word(&phase), store, directory })
}

/// A node in a phase.
pub(crate) async fn node(store: Arc<dyn Provider>, phase: Phase, directory: &Path) -> Arc<Runtime> {
    let activities = with_activities(activities(phase, directory));
    let orchestrations = with_orchestrations(&orchestrations(phase));
    Runtime::start_with_options(store, activities, orchestrations, options(phase)).await
}

fn options(phase: Phase) -> RuntimeOptions {
    // Locks of a process that was killed end soon. Where processes die all the time they end sooner.
    let lock = Duration::from_millis(match phase {
        Phase::Broken => 400,
        Phase::Together => 1_000,
        Phase::Interrupted | Phase::Queueing | Phase::Finishing => 3_000,
    });
    let tags = match phase {
        Phase::Interrupted | Phase::Broken | Phase::Queueing => TagFilter::default_only(),
        Phase::Finishing | Phase::Together => TagFilter::default_and(["later"]),
    };
    RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: lock / 2,
        worker_lock_timeout: lock,
        worker_lock_renewal_buffer: lock / 2,
        session_lock_timeout: lock,
        session_lock_renewal_buffer: lock / 2,
        max_attempts: if phase == Phase::Broken { 2 } else { 10 },
        max_sessions_per_runtime: 100,
        worker_tag_filter: tags,
        capability_routing: CapabilityRouting::Handlers,
        ..RuntimeOptions::default()
    }
}
