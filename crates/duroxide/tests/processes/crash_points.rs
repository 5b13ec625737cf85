//! The process is ended before and after every single commit of a small workload, one run for each, and started again:
//! nothing acknowledged is missing, and nothing runs again whose result was stored.

use std::path::Path;

use crate::child;
use crate::crash_workload::{check_all, live};

const JOB: &str = "crash_points::worker_process";
/// Runs at the same time.
const LANES: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Some(path) = child::store_of(JOB) else { return };
    let (provider, _client) = child::open(&path).await;
    live(provider, path.parent().expect("the file is in a directory")).await;
}

/// Ends a child at the nth commit; whether it came that far.
async fn crash(site: &str, nth: u64) -> bool {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let plan = format!("{site}:{nth}");
    let crashed = !run(&path, Some(&plan)).await;
    assert!(run(&path, None).await, "{plan}: the second life finishes everything");
    let (_provider, client) = child::open(&path).await;
    check_all(&client, directory.path(), &plan).await;
    crashed
}

/// One life; whether it ended well.
async fn run(path: &Path, failpoint: Option<&str>) -> bool {
    let mut child = child::start_with(JOB, path, failpoint);
    let ended = tokio::task::spawn_blocking(move || child.wait()).await.expect("the wait does not panic");
    ended.expect("the child ends").success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_or_after_any_commit_loses_nothing() {
    for site in ["sqlite.before_commit", "sqlite.after_commit"] {
        let mut crashes = 0;
        let mut first = 1;
        loop {
            let lanes = (first..first + LANES).map(|nth| crash(site, nth));
            let crashed = futures_util::future::join_all(lanes).await;
            crashes += crashed.iter().filter(|crashed| **crashed).count();
            // How many commits a run takes differs a little from run to run.
            if !crashed.contains(&true) {
                break;
            }
            first += LANES;
        }
        println!("{site}: {crashes} crashes");
        assert!(crashes > 15, "{site}: only {crashes} commits");
    }
}
