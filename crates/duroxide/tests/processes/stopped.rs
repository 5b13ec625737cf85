//! Processes that are killed from outside, or hang, while they run one activity: each counts as an attempt.

use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};

use crate::child::{self, Guarded};

const JOB: &str = "stopped::worker_process";
const MAX_ATTEMPTS: u32 = 3;

/// The activity says that it runs, and then neither ends nor lets anything else happen on its thread.
fn activities(runs: std::path::PathBuf) -> ActivityRegistry {
    let hang = move |_ctx: ActivityContext, _input: String| {
        let runs = runs.clone();
        async move {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(runs);
            file.as_mut().expect("the file opens").write_all(b".").expect("it is written");
            loop {
                std::thread::park();
            }
        }
    };
    ActivityRegistry::builder().register("Hang", hang).build()
}

/// The child: one thread, so that the activity stops the renewal of its lock as well.
#[tokio::test]
async fn worker_process() {
    let Some(path) = child::store_of(JOB) else { return };
    let (provider, _client) = child::open(&path).await;
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hangs", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Hang", "").await
        })
        .build();
    // One slot: a fetch that waits beside a hung activity would still be served, and count as an attempt.
    let options = RuntimeOptions { max_attempts: MAX_ATTEMPTS, worker_concurrency: 1, ..child::options() };
    let activities = activities(runs_beside(&path));
    let _runtime = Runtime::start_with_options(provider, activities, orchestrations, options).await;
    std::future::pending::<()>().await;
}

/// Where the activity leaves one byte for each run.
fn runs_beside(store: &Path) -> std::path::PathBuf {
    store.with_extension("runs")
}

fn runs(store: &Path) -> u64 {
    std::fs::metadata(runs_beside(store)).map_or(0, |file| file.len())
}

/// Starts a process after the other and treats each as told once it runs the activity.
async fn stop_until_poisoned(stop: impl Fn(&mut Child)) {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let (_provider, client) = child::open(&path).await;
    client.start_orchestration("bad", "Hangs", "").await.expect("start");
    let mut children = Vec::new();
    for run in 1..=u64::from(MAX_ATTEMPTS) {
        let mut child = Guarded(child::start(JOB, &path));
        tokio::time::timeout(Duration::from_secs(60), async {
            while runs(&path) < run {
                let ended = child.0.try_wait().expect("the child can be asked");
                assert_eq!(ended, None, "it runs the activity first");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("each process gets the activity once the lock of the one before it has expired");
        stop(&mut child.0);
        children.push(child);
    }
    children.push(Guarded(child::start(JOB, &path)));
    let status = client.wait_for_orchestration("bad", Duration::from_secs(60)).await.expect("it ends");
    let OrchestrationStatus::Failed { details, .. } = status else { panic!("{status:?}") };
    let ErrorDetails::Poison { attempt_count, max_attempts, .. } = details else { panic!("{details:?}") };
    assert_eq!((attempt_count, max_attempts), (MAX_ATTEMPTS + 1, MAX_ATTEMPTS));
    assert_eq!(runs(&path), u64::from(MAX_ATTEMPTS), "run this often and not once more");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_whose_process_is_killed_each_time_is_poisoned() {
    stop_until_poisoned(|child| {
        child.kill().expect("SIGKILL reaches the child");
        child.wait().expect("the child ends");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_whose_process_hangs_each_time_is_poisoned() {
    stop_until_poisoned(|_child| {}).await;
}
