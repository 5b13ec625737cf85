//! Three workers, one of them killed every few seconds, and a server that is restarted twice: nothing is lost.

use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use private_postgres::{Durability, Server};

use crate::audit::audit;
use crate::child::{self, Worker};

const JOB: &str = "cluster::worker_process";
const WORKERS: usize = 3;

/// How large the run is. `DUROXIDE_TEST_FULL=1` asks for the whole one.
struct Size {
    instances: usize,
    between_kills: Duration,
}

impl Size {
    fn chosen() -> Self {
        if std::env::var_os("DUROXIDE_TEST_FULL").is_some() {
            Self { instances: 2_000, between_kills: Duration::from_secs(3) }
        } else {
            Self { instances: 300, between_kills: Duration::from_millis(700) }
        }
    }
}

/// The child: runs what the store holds until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(url) = child::url_of(JOB) else { return };
    let activities = ActivityRegistry::builder()
        .register("Step", |_ctx: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(format!("{input}."))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("FiveSteps", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..5 {
                value = ctx.schedule_activity("Step", value).await?;
            }
            Ok(value)
        })
        .build();
    let (store, _client) = child::open(&url).await;
    let _runtime = Runtime::start_with_options(store, activities, orchestrations, child::options()).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_and_a_restarted_server_lose_nothing() {
    let size = Size::chosen();
    let server = Server::start(Durability::Full).expect("a server of its own");
    let (_store, client) = child::open(server.url()).await;
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::start(JOB, server.url())).collect();
    let starting = tokio::spawn(start_all(client.clone(), size.instances));
    let mut kills = 0;
    let mut restarts = 0;
    while restarts < 2 || !starting.is_finished() || open_instances(&client).await > 0 {
        tokio::time::sleep(size.between_kills).await;
        workers[kills % WORKERS].kill();
        workers[kills % WORKERS] = Worker::start(JOB, server.url());
        kills += 1;
        if kills % 3 == 2 && restarts < 2 {
            server.restart().expect("it starts again");
            restarts += 1;
        }
    }
    starting.await.expect("all are started");
    println!("{kills} kills, {restarts} restarts");
    assert!(kills >= 5, "{kills} kills");
    for n in 0..size.instances {
        let instance = format!("i{n}");
        let status = client.get_orchestration_status(&instance).await.expect("read");
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{instance}: {status:?}") };
        assert_eq!(output, "x.....", "{instance}");
        audit(&instance, &client.read_execution_history(&instance, 1).await.expect("history"));
    }
    let depths = client.get_queue_depths().await.expect("read");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue, depths.timer_queue), (0, 0, 0));
}

/// How many have not ended; a store that is away is asked again.
async fn open_instances(client: &Client) -> u64 {
    loop {
        match client.get_system_metrics().await {
            Ok(metrics) => return metrics.running_instances,
            Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn start_all(client: Client, count: usize) {
    for n in 0..count {
        loop {
            match client.start_orchestration(format!("i{n}"), "FiveSteps", "x").await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("i{n}: {error}"),
            }
        }
    }
}
