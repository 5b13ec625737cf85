//! Starting this binary again as a child process that does one job.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::{Client, RuntimeOptions};
use duroxide_postgres::{PostgresOptions, PostgresProvider};

const JOB: &str = "DUROXIDE_TEST_JOB";
const STORE: &str = "DUROXIDE_TEST_STORE";
/// The schema of these tests; each has a server of its own.
const SCHEMA: &str = "processes";

/// A child that does not outlive the test that started it.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts a child that runs the test `job`, which does its work only in such a child.
    pub(crate) fn start(job: &str, url: &str) -> Self {
        let child = Command::new(std::env::current_exe().expect("a test has a path"))
            .args(["--exact", job, "--nocapture", "--test-threads=1"])
            .env(JOB, job)
            .env(STORE, url)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("this binary can be started again"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("SIGKILL reaches the child");
        let status = self.0.wait().expect("the child ends");
        assert!(!status.success(), "the child was killed, not finished");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal reaches the child");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already, and the test may be failing: nothing to do about either.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// The server's URL, if this process is the child for `job`.
pub(crate) fn url_of(job: &str) -> Option<String> {
    (std::env::var(JOB).ok()? == job).then(|| std::env::var(STORE).expect("set with the job"))
}

/// Opens the store; a server that is away is tried again.
pub(crate) async fn open(url: &str) -> (Arc<PostgresProvider>, Client) {
    let options = PostgresOptions { schema: SCHEMA.to_string(), ..PostgresOptions::default() };
    let store = loop {
        match PostgresProvider::new(url, Some(options.clone())).await {
            Ok(store) => break Arc::new(store),
            Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    };
    (store.clone(), Client::new(store))
}

/// Locks that expire soon, so that what a dead process held is free again soon.
pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: Duration::from_millis(1000),
        orchestrator_lock_renewal_buffer: Duration::from_millis(500),
        worker_lock_timeout: Duration::from_millis(1000),
        worker_lock_renewal_buffer: Duration::from_millis(500),
        ..RuntimeOptions::default()
    }
}
