//! Nodes of this build and of an earlier one on one store, killed and started again: a rolling upgrade that takes long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use duroxide::{Client, Event, OrchestrationStatus};

use super::child::Worker;
use super::finish::{read_all, replay_all};
use super::phase::Phase;
use super::programs::mixed_output;
use crate::store;

/// The test binary of another build, made of the same files.
const OTHER_BUILD_VARIABLE: &str = "DUROXIDE_OTHER_BUILD";
/// Processes of each build.
const WORKERS: usize = 2;
/// Instances that each process starts.
const STARTED_EACH: usize = 10;
/// How long processes are killed.
const KILLING: Duration = Duration::from_secs(20);
const BETWEEN_KILLS: Duration = Duration::from_millis(900);
/// How long an instance may take to end once no process is killed any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts some instances, with their messages in the queue.
pub(crate) async fn start_some(client: &Client) {
    for number in 0..STARTED_EACH {
        let instance = format!("mixed-{}-{number}", std::process::id());
        for message in 1..=5 {
            client.enqueue_event(&instance, "queue", format!("m{message}")).await.expect("enqueue");
        }
        client.start_orchestration(&instance, "Mixed", "").await.expect("start");
    }
}

/// Lets two builds work on one store, if the environment names the binary of the other. Tells what happened.
pub(crate) async fn work_together() -> Option<String> {
    let other = PathBuf::from(std::env::var_os(OTHER_BUILD_VARIABLE)?);
    let own = std::env::current_exe().expect("a test has a path");
    let scratch = tempfile::tempdir().expect("a directory for the store");
    let location = store::create(scratch.path()).await;
    // The earlier build makes the store, as it does where there is something to upgrade.
    let builds: Vec<&PathBuf> = [&other, &own].into_iter().cycle().take(2 * WORKERS).collect();
    let start = |build: &PathBuf| Worker::start_of(build, Phase::Together, &location, scratch.path());
    let mut workers = vec![start(&other)];
    store::wait_until_made(&location).await;
    workers = builds.iter().map(|build| start(build)).chain(workers.drain(..)).collect();
    let client = Client::new(store::open(&location, None).await);
    let begun = Instant::now();
    let mut kills = 0;
    while begun.elapsed() < KILLING {
        tokio::time::sleep(BETWEEN_KILLS).await;
        let place = kills % builds.len();
        // Ended first: the lock of what it held runs out beside the new one.
        workers.remove(place);
        workers.insert(place, start(builds[place]));
        kills += 1;
    }
    Some(check(&client, kills).await)
}

async fn check(client: &Client, kills: usize) -> String {
    let is_root = |instance: &String| instance.starts_with("mixed-") && !instance.contains("::");
    let instances = client.list_all_instances().await.expect("listed");
    let roots: Vec<String> = instances.into_iter().filter(is_root).collect();
    for instance in &roots {
        let status = client.wait_for_orchestration(instance, PATIENCE).await;
        let status = status.unwrap_or_else(|error| panic!("{instance}: {error}"));
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{instance}: {status:?}") };
        let info = client.get_instance_info(instance).await.expect("read");
        let history = client.read_execution_history(instance, info.current_execution_id).await.expect("read");
        let begun_by = history.first().map(build_of).unwrap_or_default();
        assert_eq!(*output, mixed_output(begun_by), "{instance}, whose last execution {begun_by} began");
    }
    let failed = client.list_instances_by_status("Failed").await.expect("listed");
    assert!(failed.is_empty(), "failed: {failed:?}");
    let histories = read_all(client).await;
    replay_all(&histories);
    let mut begun_by: BTreeMap<String, usize> = BTreeMap::new();
    let mut shared = 0;
    for history in histories.values().flat_map(BTreeMap::values) {
        let builds: BTreeSet<&str> = history.iter().map(build_of).collect();
        shared += usize::from(builds.len() > 1);
        *begun_by.entry(history.first().map(build_of).unwrap_or_default().to_string()).or_default() += 1;
    }
    assert!(roots.len() > STARTED_EACH, "only {} instances", roots.len());
    format!(
        "{} instances, {kills} kills, executions begun by each build: {begun_by:?}, worked on by both: {shared}",
        roots.len()
    )
}

fn build_of(event: &Event) -> &str {
    &event.duroxide_version
}
