//! The worker processes: this binary again, told by its environment what to work on.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::runtime::Runtime;

use super::orders::{activities, orchestrations};

/// The test that does its work only in a child.
const JOB: &str = "worker_process";
const STORE: &str = "DUROXIDE_TEST_STORE";
const SERVICE: &str = "DUROXIDE_TEST_SERVICE";

/// A process that does not outlive the test that started it.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(store: &str, service: SocketAddr) -> Self {
        let child = Command::new(std::env::current_exe().expect("a test has a path"))
            .args(["--exact", JOB, "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .env(SERVICE, service.to_string())
            .envs(crate::store::environment())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("this binary can be started again"))
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("SIGKILL reaches the worker");
        let status = self.0.wait().expect("the worker ends");
        assert!(!status.success(), "the worker was killed, not finished");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already, and the test may be failing: nothing to do about either.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Works until it is killed, if this process is a worker.
pub(crate) async fn work() {
    let (Ok(store), Ok(service)) = (std::env::var(STORE), std::env::var(SERVICE)) else { return };
    let service = service.parse().expect("an address was set");
    let store = crate::store::open(&store).await;
    let node = Runtime::start_with_options(store, activities(service), orchestrations(), options());
    let _node = node.await;
    std::future::pending::<()>().await;
}

/// Locks that expire soon, so that what a dead process held is free again soon.
fn options() -> RuntimeOptions {
    let lock = Duration::from_millis(600);
    RuntimeOptions {
        orchestrator_lock_timeout: lock,
        orchestrator_lock_renewal_buffer: lock / 2,
        worker_lock_timeout: lock,
        worker_lock_renewal_buffer: lock / 2,
        ..RuntimeOptions::default()
    }
}
