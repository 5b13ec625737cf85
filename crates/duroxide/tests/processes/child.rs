//! Starting this binary again as a child process that does one job.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, RuntimeOptions};

const JOB: &str = "DUROXIDE_TEST_JOB";
const STORE: &str = "DUROXIDE_TEST_STORE";

/// Starts a child that runs the test `job`, which does its work only in such a child.
pub(crate) fn start(job: &str, store: &Path) -> Child {
    start_with(job, store, None)
}

/// The same with a point at which the child ends itself.
pub(crate) fn start_with(job: &str, store: &Path, failpoint: Option<&str>) -> Child {
    Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", job, "--nocapture", "--test-threads=1"])
        .env(JOB, job)
        .env(STORE, store)
        .envs(failpoint.map(|plan| (duroxide::failpoint::VARIABLE, plan)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary can be started again")
}

/// A child that does not outlive the test that started it.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may be gone already, and the test may be failing: nothing to do about either.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// The store's file, if this process is the child for `job`.
pub(crate) fn store_of(job: &str) -> Option<std::path::PathBuf> {
    (std::env::var(JOB).ok()? == job).then(|| std::env::var(STORE).expect("set with the job").into())
}

pub(crate) async fn open(path: &Path) -> (Arc<SqliteProvider>, Client) {
    let provider = SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await;
    let provider = Arc::new(provider.expect("the file opens"));
    (provider.clone(), Client::new(provider))
}

/// Locks that expire soon, so that what a dead process held is free again soon.
pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(600),
        orchestrator_lock_renewal_buffer: Duration::from_millis(300),
        worker_lock_timeout: Duration::from_millis(600),
        worker_lock_renewal_buffer: Duration::from_millis(300),
        ..RuntimeOptions::default()
    }
}
