//! `max_sessions_per_runtime` counts sessions that run something, not sessions that are merely owned.

use std::sync::Arc;
use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::limits::MAX_KEPT_SESSIONS;
use tokio::time::Instant;

use crate::common::{Faulty, World};
use crate::many_sessions::run_on;
use crate::sessions::{Log, most_at_once, named, node, queue, start};

#[tokio::test]
async fn more_sessions_than_a_worker_runs_at_a_time_finish_at_once_in_memory() {
    run_on(Arc::new(MemoryProvider::new())).await;
}

#[tokio::test]
async fn more_sessions_than_a_worker_runs_at_a_time_finish_at_once_on_a_file() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    run_on(Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"))).await;
}

#[tokio::test]
async fn more_sessions_than_a_worker_runs_at_a_time_finish_at_once_behind_a_plain_wrapper() {
    run_on(Arc::new(Faulty::new(Arc::new(MemoryProvider::new())).plain())).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_activities_of_so_many_sessions_at_a_time_and_of_no_more() {
    for shape in [Faulty::plain as fn(Faulty) -> Faulty, |faulty| faulty] {
        let world = World::with(shape);
        let log = Arc::new(Log::default());
        let two = RuntimeOptions { max_sessions_per_runtime: 2, ..node(1) };
        let runtime = start(&world, &log, two).await;
        // Twice each of six sessions, and something that belongs to none.
        for id in 0..12 {
            queue(&*world.store, id, &format!("s{}", id % 6), 1000).await;
        }
        queue(&*world.store, 12, "", 1000).await;
        let begun = Instant::now();
        let runs = log.ended(13).await;
        assert_eq!(most_at_once(&runs, |run| !run.session.is_empty()), 2, "two sessions at a time");
        assert!(begun.elapsed() < Duration::from_secs(8), "one after another: {:?}", begun.elapsed());
        let alone = runs.iter().find(|run| run.session.is_empty()).expect("it ran");
        assert!(alone.begun - begun < Duration::from_secs(1), "what belongs to no session is not held up");
        assert_eq!(runs.len(), 13, "nothing ran twice");
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_a_name_runs_more_of_the_sessions_that_it_runs() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let one = RuntimeOptions { max_sessions_per_runtime: 1, ..named("n", 1) };
    let runtime = start(&world, &log, one).await;
    queue(&*world.store, 0, "s", 1000).await;
    queue(&*world.store, 1, "t", 1000).await;
    log.begun(1).await;
    for id in 2..6 {
        queue(&*world.store, id, "s", 1000).await;
    }
    let runs = log.ended(6).await;
    assert_eq!(most_at_once(&runs, |run| run.session == "s"), 5);
    assert_eq!(most_at_once(&runs, |_| true), 5, "`t` ran when nothing of `s` did");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_moves_at_once_when_its_owner_runs_as_many_others_as_it_may() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let one = |seed| RuntimeOptions { max_sessions_per_runtime: 1, ..node(seed) };
    let first = start(&world, &log, one(1)).await;
    queue(&*world.store, 0, "comes back", 10).await;
    let owner = log.ended(1).await[0].node.clone();
    queue(&*world.store, 1, "runs long", 100_000).await;
    log.begun(2).await;
    let second = start(&world, &log, one(2)).await;
    queue(&*world.store, 2, "comes back", 10).await;
    let begun = Instant::now();
    let runs = log.ended(2).await;
    let moved = runs.last().expect("three");
    assert_eq!((moved.session.as_str(), moved.node != owner), ("comes back", true));
    assert!(begun.elapsed() < Duration::from_secs(1), "took {:?}", begun.elapsed());
    first.shutdown(Some(0)).await;
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn the_claims_of_the_sessions_used_last_are_kept_and_no_more_of_them() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let runtime = start(&world, &log, node(1)).await;
    let sessions = MAX_KEPT_SESSIONS + 200;
    for id in 0..sessions {
        queue(&*world.store, u64::try_from(id).expect("small"), &format!("{id:04}"), 10).await;
    }
    log.ended(sessions).await;
    // Time for renewals, but not to idle.
    tokio::time::sleep(Duration::from_secs(100)).await;
    let claims = world.memory.snapshot().sessions;
    let last = claims.values().map(|claim| claim.locked_until).max().expect("many");
    let kept: Vec<&String> =
        claims.iter().filter(|(_, claim)| claim.locked_until == last).map(|(id, _)| id).collect();
    // Ten ended in each moment: whether those of one moment are kept is decided for all of them.
    let at_a_time = RuntimeOptions::default().max_sessions_per_runtime;
    let about = MAX_KEPT_SESSIONS - at_a_time..=MAX_KEPT_SESSIONS + at_a_time;
    assert!(about.contains(&kept.len()), "{} are kept", kept.len());
    assert_eq!(kept.last().map(|id| id.as_str()), Some("1199"), "the last one is");
    runtime.shutdown(None).await;
}
