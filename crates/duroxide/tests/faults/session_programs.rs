//! Programs that use sessions, with several workers on one store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistryBuilder;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistryBuilder,
    OrchestrationStatus, RetryPolicy, RuntimeOptions,
};
use tokio::time::Instant;

use crate::common::{Faulty, World, orchestrations};
use crate::sessions::{IDLE, Log, Run, SESSION_LOCK, logged, most_at_once, named, node};

/// `Work` and its typed form tell which worker ran them; `Flaky` fails the first time that an instance calls it.
fn workers(log: &Arc<Log>) -> ActivityRegistryBuilder {
    let failed = Arc::new(Mutex::new(BTreeSet::new()));
    logged(log)
        .register_typed("Typed", |ctx: ActivityContext, number: u64| async move {
            ctx.session_id().ok_or("outside of its session")?;
            Ok((ctx.worker_id().to_string(), number + 1))
        })
        .register("Flaky", move |ctx: ActivityContext, _input: String| {
            let first = failed.lock().expect("nobody panics under it").insert(ctx.instance_id().to_string());
            async move {
                ctx.session_id().ok_or("outside of its session")?;
                if first { Err("not yet".to_string()) } else { Ok(ctx.worker_id().to_string()) }
            }
        })
}

/// Programs whose input is the session, and whose output the workers that ran their activities.
fn programs() -> OrchestrationRegistryBuilder {
    orchestrations()
        .register("Every", |ctx: OrchestrationContext, session: String| async move {
            let retries = || RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
            let mut seen = BTreeSet::new();
            seen.insert(ctx.schedule_activity_on_session("Work", "20", &*session).await?);
            let typed = ctx.schedule_activity_on_session_typed::<u64, (String, u64)>("Typed", &1, &*session);
            let (worker, number) = typed.await?;
            assert_eq!(number, 2);
            seen.insert(worker);
            seen.insert(
                ctx.schedule_activity_with_retry_on_session("Flaky", "", retries(), &*session).await?,
            );
            let (worker, number): (String, u64) = ctx
                .schedule_activity_with_retry_on_session_typed("Typed", &2u64, retries(), &*session)
                .await?;
            assert_eq!(number, 3);
            seen.insert(worker);
            let many = (0..5).map(|_| ctx.schedule_activity_on_session("Work", "20", &*session)).collect();
            for worker in ctx.join(many).await {
                seen.insert(worker?);
            }
            Ok(Vec::from_iter(seen).join(" "))
        })
        // Two activities of a session with a pause between them: "session seconds milliseconds".
        .register("Twice", |ctx: OrchestrationContext, input: String| async move {
            let words: Vec<&str> = input.split(' ').collect();
            let [session, pause, ms] = words[..] else { return Err("three words".to_string()) };
            let pause: u64 = pause.parse().map_err(|_| "a number".to_string())?;
            let first = ctx.schedule_activity_on_session("Work", ms, session).await?;
            ctx.schedule_timer(Duration::from_secs(pause)).await;
            let second = ctx.schedule_activity_on_session("Work", "10", session).await?;
            Ok(format!("{first} {second}"))
        })
        .register("Chain", |ctx: OrchestrationContext, session: String| async move {
            for _ in 0..20 {
                ctx.schedule_activity_on_session("Work", "10", &*session).await?;
            }
            Ok("over".to_string())
        })
        .register("Occupy", |ctx: OrchestrationContext, _input: String| async move {
            ctx.schedule_activity("Work", "100000000").await
        })
}

async fn start(world: &World, log: &Arc<Log>, options: RuntimeOptions) -> Arc<Runtime> {
    world.start(workers(log), programs(), options).await
}

/// The workers of each session, and that its activities did not overlap.
fn check_owners(runs: &[Run]) -> BTreeSet<String> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in runs {
        owners.entry(&run.session).or_default().insert(&run.node);
    }
    for (session, nodes) in &owners {
        assert_eq!(nodes.len(), 1, "session {session} ran on {nodes:?}");
        assert_eq!(most_at_once(runs, |run| run.session == *session), 1, "session {session}");
    }
    owners.into_values().flatten().map(str::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn all_activities_of_a_session_run_on_one_worker_whatever_call_schedules_them() {
    for shape in [Faulty::plain as fn(Faulty) -> Faulty, |faulty| faulty] {
        let world = World::with(shape);
        let log = Arc::new(Log::default());
        // Together they may have just as many as there are.
        let three = |seed| RuntimeOptions { max_sessions_per_runtime: 3, ..node(seed) };
        let nodes = [start(&world, &log, three(1)).await, start(&world, &log, three(2)).await];
        for n in 0..12 {
            // Two instances share each session.
            let session = format!("s{}", n / 2);
            world.client.start_orchestration(format!("i{n}"), "Every", session).await.expect("start");
        }
        let mut outputs: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for n in 0..12 {
            outputs.entry(n / 2).or_default().insert(world.output(&format!("i{n}")).await);
        }
        for (session, workers) in outputs {
            assert_eq!(workers.len(), 1, "both instances of session {session} saw the same: {workers:?}");
            assert!(workers.iter().all(|worker| !worker.contains(' ')), "one worker: {workers:?}");
        }
        let owners = check_owners(&log.runs());
        // A store that knows no limits may give one worker all of them.
        assert!(owners.len() == 2 || !world.store.limits_sessions(), "both workers have some: {owners:?}");
        assert_eq!(log.runs().len(), 12 * 6, "nothing ran twice");
        for node in nodes {
            node.shutdown(None).await;
        }
    }
}

#[tokio::test]
async fn on_a_file_too_a_program_s_session_stays_on_one_of_two_workers() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let log = Arc::new(Log::default());
    let mut nodes = Vec::new();
    for seed in [1, 2] {
        // Each worker has a store of its own, as processes have.
        let store = Arc::new(SqliteProvider::new(&url, None).await.expect("the file opens"));
        let (acts, orchs) = (workers(&log).build(), programs().build());
        nodes.push((store.clone(), Runtime::start_with_options(store, acts, orchs, node(seed)).await));
    }
    let clients: Vec<Client> = nodes.iter().map(|(store, _)| Client::new(store.clone())).collect();
    for n in 0..8 {
        let client = &clients[n % 2];
        client.start_orchestration(format!("i{n}"), "Every", format!("s{}", n / 2)).await.expect("start");
    }
    for n in 0..8 {
        let ended = clients[0].wait_for_orchestration(&format!("i{n}"), Duration::from_secs(60)).await;
        let Ok(OrchestrationStatus::Completed { output, .. }) = &ended else { panic!("{ended:?}") };
        assert!(!output.contains(' '), "one worker: {output}");
    }
    check_owners(&log.runs());
    for (_, runtime) in nodes {
        runtime.shutdown(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_goes_on_with_another_worker_when_the_owner_of_its_session_crashes() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let first = start(&world, &log, node(1)).await;
    world.client.start_orchestration("i", "Twice", "s 0 60000").await.expect("start");
    let owner = log.begun(1).await[0].node.clone();
    let second = start(&world, &log, node(2)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(log.runs().len(), 1, "a live owner is not robbed");
    first.kill();
    let crashed = Instant::now();
    let runs = log.begun(2).await;
    assert_ne!(runs[1].node, owner);
    assert!(crashed.elapsed() <= SESSION_LOCK + Duration::from_secs(1), "took {:?}", crashed.elapsed());
    let new_owner = runs[1].node.clone();
    assert_eq!(
        world.output("i").await,
        format!("{new_owner} {new_owner}"),
        "both results are the new owner's"
    );
    second.shutdown(None).await;
}

/// The owner is occupied with something else, so that it asks for nothing.
#[tokio::test(start_paused = true)]
async fn a_session_that_idles_moves_to_a_worker_that_is_free_and_not_before() {
    let beyond = (IDLE + SESSION_LOCK).as_secs() + 1;
    for pause in [0, IDLE.as_secs() / 2, beyond] {
        let world = World::new();
        let log = Arc::new(Log::default());
        let one = RuntimeOptions { worker_concurrency: 1, ..node(1) };
        let first = start(&world, &log, one).await;
        world.client.start_orchestration("i", "Twice", format!("s {pause} 10")).await.expect("start");
        // It is in the queue before the second activity of the session is.
        world.client.start_orchestration("o", "Occupy", "").await.expect("start");
        let owner = log.ended(1).await[0].node.clone();
        let used = Instant::now();
        log.begun(2).await;
        let second = start(&world, &log, node(2)).await;
        let runs = log.begun(3).await;
        let (waited, moved) = (used.elapsed(), &runs[2]);
        assert_eq!((moved.session.as_str(), moved.node == owner), ("s", false), "{runs:?}");
        if pause == beyond {
            let late = waited.saturating_sub(Duration::from_secs(beyond));
            assert!(late < Duration::from_secs(1), "no claim is left to wait for: {late:?}");
        } else {
            let claimed = IDLE..=IDLE + SESSION_LOCK + Duration::from_secs(1);
            assert!(claimed.contains(&waited), "used {waited:?} ago");
        }
        assert_eq!(world.output("i").await, format!("{owner} {}", moved.node));
        first.kill();
        second.shutdown(Some(0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_beyond_the_capacity_of_a_worker_wait_for_what_it_runs_and_not_for_what_it_owns() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let two = |seed| RuntimeOptions { max_sessions_per_runtime: 2, ..node(seed) };
    let first = start(&world, &log, two(1)).await;
    world.client.start_orchestration("a", "Twice", "a 60 10").await.expect("start");
    world.client.start_orchestration("b", "Twice", "b 60 10").await.expect("start");
    let owner = log.ended(2).await[0].node.clone();
    let begun = Instant::now();
    for n in 0..50 {
        let session = format!("w{n} 0 10");
        world.client.start_orchestration(format!("w{n}"), "Twice", session).await.expect("start");
    }
    world.client.start_orchestration("chain", "Chain", "a").await.expect("start");
    for n in 0..50 {
        world.output(&format!("w{n}")).await;
    }
    assert_eq!(world.output("chain").await, "over");
    // A hundred and twenty activities of 10 ms each, two at a time.
    assert!(begun.elapsed() < Duration::from_secs(2), "held up for {:?}", begun.elapsed());
    for id in ["a", "b"] {
        assert_eq!(world.output(id).await, format!("{owner} {owner}"), "a session comes back to its owner");
    }
    check_owners(&log.runs());
    assert_eq!(most_at_once(&log.runs(), |_| true), 2);
    // Two that run for long: the others wait for a worker with room.
    for id in ["c", "d"] {
        world.client.start_orchestration(id, "Twice", format!("{id} 0 100000")).await.expect("start");
    }
    let running = log.begun(log.runs().len() + 2).await.len();
    for id in ["x", "y", "z"] {
        world.client.start_orchestration(id, "Twice", format!("{id} 0 10")).await.expect("start");
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(log.runs().len(), running, "two sessions run, and no third");
    let second = start(&world, &log, two(2)).await;
    let begun = Instant::now();
    for id in ["x", "y", "z"] {
        assert!(!world.output(id).await.contains(&owner), "the other worker ran {id}");
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "took {:?}", begun.elapsed());
    for id in ["c", "d"] {
        assert_eq!(world.output(id).await, format!("{owner} {owner}"), "what runs stays");
    }
    first.shutdown(None).await;
    second.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_a_name_keeps_its_sessions_over_a_restart_and_runs_them_in_parallel() {
    let world = World::new();
    let log = Arc::new(Log::default());
    let before = start(&world, &log, named("stable", 1)).await;
    let pause = 3 * SESSION_LOCK.as_secs();
    world.client.start_orchestration("i", "Twice", format!("s {pause} 10")).await.expect("start");
    log.ended(1).await;
    before.kill();
    let other = start(&world, &log, named("other", 2)).await;
    let after = start(&world, &log, named("stable", 3)).await;
    assert_eq!(world.output("i").await, "stable stable");
    world.client.start_orchestration("e", "Every", "s").await.expect("start");
    assert_eq!(world.output("e").await, "stable");
    assert_eq!(most_at_once(&log.runs(), |run| run.session == "s"), 5, "all that were scheduled together");
    other.shutdown(None).await;
    after.shutdown(None).await;
}
