//! The process is ended before and after every single commit of a small workload, one run for each, and started again:
//! nothing acknowledged is missing, and nothing runs again whose result was stored.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use duroxide::Client;
use duroxide_postgres::{PostgresOptions, PostgresProvider};

use crate::crash_workload::{check_all, live};

const JOB: &str = "crash_points::worker_process";
const SCHEMA: &str = "DUROXIDE_TEST_CRASH_SCHEMA";
const DIRECTORY: &str = "DUROXIDE_TEST_CRASH_DIRECTORY";
/// Runs at the same time.
const LANES: u64 = 4;

async fn open(schema: &str) -> Arc<PostgresProvider> {
    let url = private_postgres::shared().expect("there is a PostgreSQL server");
    let options = PostgresOptions { schema: schema.to_string(), pool_size: 2, ..PostgresOptions::default() };
    Arc::new(PostgresProvider::new(&url, Some(options)).await.expect("the store opens"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let (Ok(schema), Some(directory)) = (std::env::var(SCHEMA), std::env::var_os(DIRECTORY)) else { return };
    live(open(&schema).await, &PathBuf::from(directory)).await;
}

/// Ends a child at the nth commit; whether it came that far.
async fn crash(site: &str, nth: u64) -> bool {
    let directory = tempfile::tempdir().expect("a directory for the logs");
    let schema = format!("crash_{}_{}_{nth}", std::process::id(), site.replace(['.', ':'], "_"));
    let plan = format!("{site}:{nth}");
    let crashed = !run(&schema, directory.path(), Some(&plan)).await;
    assert!(run(&schema, directory.path(), None).await, "{plan}: the second life finishes everything");
    let client = Client::new(open(&schema).await);
    check_all(&client, directory.path(), &plan).await;
    crashed
}

/// One life; whether it ended well.
async fn run(schema: &str, directory: &Path, failpoint: Option<&str>) -> bool {
    let url = private_postgres::shared().expect("there is a PostgreSQL server");
    let mut child = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", JOB, "--nocapture", "--test-threads=1"])
        .env(SCHEMA, schema)
        .env(DIRECTORY, directory)
        .env(private_postgres::URL_VARIABLE, url)
        .envs(failpoint.map(|plan| (duroxide::failpoint::VARIABLE, plan)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary can be started again");
    let ended = tokio::task::spawn_blocking(move || child.wait()).await.expect("the wait does not panic");
    ended.expect("the child ends").success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_or_after_any_commit_loses_nothing() {
    for site in ["postgres.before_commit", "postgres.after_commit"] {
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
