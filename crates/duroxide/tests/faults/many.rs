//! Fault 21: more things in one turn than a database accepts variables, through a whole runtime on every store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::{
    ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistryBuilder,
    OrchestrationStatus, RuntimeOptions,
};

use crate::common::{activities, options, orchestrations};

const MANY: usize = 50_000;
/// A tenth of it: what takes linear time takes a tenth of the time, what takes quadratic time a hundredth.
const FEW: usize = MANY / 10;
const PATIENCE: Duration = Duration::from_secs(120);
/// Activities that run when they are cancelled.
const RUNNING: usize = 4;

/// How an orchestration gives up what it scheduled.
#[derive(Debug, Clone, Copy)]
enum GivesUp {
    InTheTurnThatSchedules,
    InALaterTurn,
    WhenItIsCancelled,
}

const WAYS: [GivesUp; 3] =
    [GivesUp::InTheTurnThatSchedules, GivesUp::InALaterTurn, GivesUp::WhenItIsCancelled];

fn programs(way: GivesUp) -> OrchestrationRegistryBuilder {
    orchestrations().register("Many", move |ctx: OrchestrationContext, input: String| async move {
        let count: usize = input.parse().map_err(|_| "a number".to_string())?;
        let all: Vec<_> = (0..count).map(|n| ctx.schedule_activity("Wait", n.to_string())).collect();
        ctx.set_custom_status("scheduled");
        match way {
            GivesUp::InTheTurnThatSchedules => drop(all),
            GivesUp::InALaterTurn => {
                ctx.schedule_wait("go").await;
                drop(all);
                // They are gone in the turn that drops them, not only at the end.
                ctx.set_custom_status("dropped");
                ctx.schedule_wait("go").await;
            }
            GivesUp::WhenItIsCancelled => {
                let results = ctx.join(all).await;
                return Ok(results.len().to_string());
            }
        }
        Ok("over".to_string())
    })
}

async fn stores() -> Vec<(Arc<dyn Provider>, Option<tempfile::TempDir>)> {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let file = SqliteProvider::new(&url, None).await.expect("the file opens");
    vec![(Arc::new(MemoryProvider::new()), None), (Arc::new(file), Some(directory))]
}

fn cancels(history: &[Event]) -> usize {
    let cancels =
        history.iter().filter(|event| matches!(event.kind, EventKind::ActivityCancelRequested { .. }));
    cancels.count()
}

async fn queued(client: &Client) -> usize {
    client.get_queue_depths().await.expect("depths").worker_queue
}

/// Runs the program once with so many activities, and gives the time that it took.
async fn give_up(store: Arc<dyn Provider>, way: GivesUp, count: usize) -> Duration {
    let (running, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let (told, mut learned) = tokio::sync::mpsc::unbounded_channel();
    let acts = activities().register("Wait", move |ctx: ActivityContext, _input: String| {
        let (running, told) = (running.clone(), told.clone());
        async move {
            running.send(()).map_err(|error| error.to_string())?;
            ctx.cancelled().await;
            told.send(()).map_err(|error| error.to_string())?;
            Ok(String::new())
        }
    });
    // The turn blocks the only thread, so its lock is not renewed meanwhile: a busy machine may take its time.
    let options =
        RuntimeOptions { worker_concurrency: RUNNING, orchestrator_lock_timeout: PATIENCE, ..options() };
    let runtime =
        Runtime::start_with_options(store.clone(), acts.build(), programs(way).build(), options).await;
    let client = Client::new(store);
    let id = format!("{way:?} {count}");
    let began = Instant::now();
    client.start_orchestration(&*id, "Many", count.to_string()).await.expect("start");
    match way {
        GivesUp::InTheTurnThatSchedules => {}
        GivesUp::InALaterTurn | GivesUp::WhenItIsCancelled => {
            for _ in 0..RUNNING {
                runs.recv().await.expect("an activity runs");
            }
            assert_eq!(queued(&client).await, count, "all of them wait or run");
        }
    }
    match way {
        GivesUp::InTheTurnThatSchedules => {}
        GivesUp::InALaterTurn => {
            client.raise_event(&*id, "go", "").await.expect("raise");
            client.wait_for_status_change(&id, 1, PATIENCE, PATIENCE).await.expect("dropped");
            assert_eq!(queued(&client).await, 0, "dropped is cancelled at once");
            client.raise_event(&*id, "go", "").await.expect("raise");
        }
        GivesUp::WhenItIsCancelled => client.cancel_instance(&*id, "enough").await.expect("cancel"),
    }
    let ended = client.wait_for_orchestration(&id, PATIENCE).await.expect("it ends");
    let took = began.elapsed();
    match way {
        GivesUp::InTheTurnThatSchedules | GivesUp::InALaterTurn => {
            assert!(
                matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "over"),
                "{ended:?}"
            );
        }
        GivesUp::WhenItIsCancelled => {
            let OrchestrationStatus::Failed { details, .. } = &ended else { panic!("{ended:?}") };
            assert_eq!(details.display_message(), "canceled: enough");
        }
    }
    let history = client.read_execution_history(&id, 1).await.expect("history");
    assert_eq!(cancels(&history), count, "{way:?}: each of them is cancelled, once");
    assert_eq!(queued(&client).await, 0, "{way:?}: no work item is left");
    if !matches!(way, GivesUp::InTheTurnThatSchedules) {
        for _ in 0..RUNNING {
            learned.recv().await.expect("who runs is told");
        }
    }
    runtime.shutdown(None).await;
    assert!(runs.try_recv().is_err(), "{way:?}: nothing else was begun");
    client.delete_instance(&id, false).await.expect("delete");
    took
}

#[tokio::test]
async fn fifty_thousand_activities_are_scheduled_and_given_up_in_one_turn_in_linear_time() {
    for (store, _directory) in stores().await {
        for way in WAYS {
            // A neighbour may slow one measurement down, but not each of three.
            let mut measured = Vec::new();
            let linear = loop {
                let few = give_up(store.clone(), way, FEW).await;
                let many = give_up(store.clone(), way, MANY).await;
                measured.push((few, many));
                if many < few * 40 || measured.len() == 3 {
                    break many < few * 40;
                }
            };
            assert!(linear, "{} {way:?}: {FEW} and {MANY} took {measured:?}", store.name());
        }
    }
}
