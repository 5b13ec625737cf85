//! What a killed process ran is run again as wide as before.

use duroxide::runtime::Runtime;

use crate::child::{self, Guarded};
use crate::recovery_workload as workload;

const JOB: &str = "recovery::worker_process";

/// The child: runs what the file holds until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(path) = child::store_of(JOB) else { return };
    let (provider, _client) = child::open(&path).await;
    let (activities, orchestrations) = (workload::activities(), workload::orchestrations());
    let _runtime = Runtime::start_with_options(provider, activities, orchestrations, child::options()).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_ran_is_run_again_together() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let (_provider, client) = child::open(&path).await;
    let first = Guarded(child::start(JOB, &path));
    workload::begin(&client).await;
    drop(first);
    let _second = Guarded(child::start(JOB, &path));
    workload::end(&client).await;
}
