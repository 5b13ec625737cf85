//! Nodes of this build and of an earlier one on one store, killed and started again: a rolling upgrade that takes long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use duroxide::{Client, Event, OrchestrationStatus};
use duroxide_core::ItemKind;

use super::child::Worker;
use super::finish::{read_all, replay_all};
use super::phase::Phase;
use super::programs::mixed_output;
use super::upgraded::verdict;
use super::upgraded::workload::{MIXED, MIXED_EACH};
use crate::store;

/// The test binary of another build, made of the same files.
const OTHER_BUILD_VARIABLE: &str = "DUROXIDE_OTHER_BUILD";
/// Processes of each build.
const WORKERS: usize = 2;
/// What a build says of a store that a later one has opened and whose schema it does not know.
const NEWER_SCHEMA: &str = "is newer than this build's";
/// How long processes are killed.
const KILLING: Duration = Duration::from_secs(20);
const BETWEEN_KILLS: Duration = Duration::from_millis(900);
/// How long an instance may take to end once no process is killed any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lets two builds work on one store, if the environment names the binary of the other. Tells what happened.
pub(crate) async fn work_together() -> Option<String> {
    let other = PathBuf::from(std::env::var_os(OTHER_BUILD_VARIABLE)?);
    let own = std::env::current_exe().expect("a test has a path");
    let scratch = tempfile::tempdir().expect("a directory for the store");
    let location = store::create(scratch.path()).await;
    let start = |build: &PathBuf| Worker::start_of(build, Phase::Together, &location, scratch.path());
    // The earlier build makes the store, as it does where there is something to upgrade. One process is never killed.
    let mut workers: Vec<Worker> = (0..=WORKERS).map(|_| start(&other)).collect();
    store::wait_for_nodes(&location, workers.len()).await;
    workers.extend((0..WORKERS).map(|_| start(&own)));
    let mut builds: Vec<&PathBuf> =
        (0..workers.len()).map(|n| if n <= WORKERS { &other } else { &own }).collect();
    let client = Client::new(store::open(&location, None).await);
    let begun = Instant::now();
    let (mut kills, mut upgraded) = (0, 0);
    while begun.elapsed() < KILLING {
        tokio::time::sleep(BETWEEN_KILLS).await;
        for (worker, build) in workers.iter_mut().zip(&mut builds) {
            if !worker.has_ended() {
                continue;
            }
            // A build whose schema is older cannot come back: it is upgraded with its restart.
            assert!(worker.said().contains(NEWER_SCHEMA), "a process has ended by itself: {}", worker.said());
            *build = &own;
            *worker = start(&own);
            upgraded += 1;
        }
        let place = 1 + kills % (builds.len() - 1);
        // Ended first: the lock of what it held runs out beside the new one.
        workers[place].kill();
        workers[place] = start(builds[place]);
        kills += 1;
    }
    let report = format!("{}, upgraded by their restart: {upgraded}", check(&client, kills).await);
    for worker in &mut workers {
        let is_refused = worker.has_ended() && worker.said().contains(NEWER_SCHEMA);
        assert!(is_refused || !worker.has_ended(), "a process has ended by itself: {}", worker.said());
    }
    let set_aside = store::set_aside(&location).await;
    let is_late_note = |item: &store::SetAside| item.kind.is_none_or(|kind| kind == ItemKind::Note);
    assert!(set_aside.iter().all(is_late_note), "set aside: {set_aside:?}");
    Some(format!("{report}, notes set aside: {}", set_aside.len()))
}

async fn check(client: &Client, kills: usize) -> String {
    let is_root = |instance: &String| instance.starts_with(MIXED) && !instance.contains("::");
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
    let upgraded = verdict::check_ends(client).await;
    let histories = read_all(client).await;
    replay_all(&histories);
    let found = verdict::check_histories(&histories);
    let mut begun_by: BTreeMap<String, usize> = BTreeMap::new();
    let mut shared = 0;
    for history in histories.values().flat_map(BTreeMap::values) {
        let builds: BTreeSet<&str> = history.iter().map(build_of).collect();
        shared += usize::from(builds.len() > 1);
        *begun_by.entry(history.first().map(build_of).unwrap_or_default().to_string()).or_default() += 1;
    }
    assert!(roots.len() > MIXED_EACH, "only {} instances", roots.len());
    format!(
        "{} instances and {upgraded} of moved programs, {kills} kills, executions begun by each build: {begun_by:?}, \
         worked on by both: {shared}, raised to a later version on their way: {}, compensated after a cancel: {}",
        roots.len(),
        found.raised,
        found.compensated
    )
}

fn build_of(event: &Event) -> &str {
    &event.duroxide_version
}
